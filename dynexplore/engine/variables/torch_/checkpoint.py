"""torch.utils.checkpoint.checkpoint: a function whose values are computed again in backward instead of being kept.

The idea: the function is inlined, and the nodes that this adds become a body (graph/bodies.py), called by one node: `checkpointed`.
Run as it is, that node checkpoints the body with torch's own function; for a compiler that traces the graph it is torch's
higher-order operator, which marks what is to be computed again. A body runs twice, and must do the same both times. What the
program would see of the second time breaks the graph: changes of objects or tensors that were there before, Python's random
numbers, modes that stay on.

In: calls of `checkpoint`. Out: what the function returned, and a body in the graph.
torch/_dynamo/variables/higher_order_ops.py (CheckpointHigherOrderVariable) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as torch_checkpoint

from dynexplore.engine.graph.bodies import Body, last_node, nodes_after, outside_values
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.modes import Modes
from dynexplore.engine.variables.contract.base import VariableTracker, progress
from dynexplore.engine.variables.rules import rule

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_FUNCTION = "torch.utils.checkpoint.checkpoint"
_KNOWN = {"use_reentrant": False, "preserve_rng_state": True, "determinism_check": "default", "debug": False}
"""The options, and the one value of each that is traced. `early_stop` only says how much is computed again."""


def checkpointed(body: Any, *inputs: Any) -> Any:
    """Run a body and keep its inputs alone; a compiler is told what to compute again.

    It is computed again to its end: to stop early could leave a mode that the body enters switched on.
    """
    if detect_fake_mode(inputs) is not None:
        return tag_activation_checkpoint(body, *inputs, use_reentrant=False)
    return torch_checkpoint.checkpoint(body, *inputs, use_reentrant=False, early_stop=False)


@rule(torch_checkpoint.checkpoint)
def _checkpoint(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    named = dict(kwargs)
    function, *positional = args if args else (named.pop("function"),)
    _refuse_options(ctx, named)
    if not torch.is_grad_enabled():  # nothing is kept, so nothing is computed again
        return ctx.call_function(function, positional, named)
    if ctx.function_modes.entered or torch._C._functorch.peek_interpreter_stack() is not None:
        _refuse(ctx, "a mode or a transform is active, and would not be in backward")
    return _as_body(ctx, function, positional, named)


def _refuse(ctx: TraceContext, reason: str) -> NoReturn:
    ctx.break_graph("DX421", function=_FUNCTION, because=reason)


def _refuse_options(ctx: TraceContext, named: dict[str, VariableTracker]) -> None:
    """Take the options out of the arguments; one that is not traced breaks the graph."""
    if "use_reentrant" not in named:
        _refuse(ctx, "it is not called with use_reentrant=False")
    if "context_fn" in named:
        _refuse(ctx, "context_fn chooses what to keep")
    for name, traced in _KNOWN.items():
        given = named.pop(name, None)
        if given is not None and not (given.is_constant() and given.as_constant() == traced):
            _refuse(ctx, f"{name} is not {traced!r}")
    named.pop("early_stop", None)


def _as_body(
    ctx: TraceContext, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """Inline the function, look at what it did, and note its nodes as a body."""
    fake_mode, before, modes, draws = ctx.graph.fake_mode, last_node(ctx.graph.graph), Modes.now(), len(ctx.draws)
    written, fake_mode.written = fake_mode.written, set()
    with progress.of_a_body() as made_inside, ctx.journal.noted_inside() as changed:
        try:
            result = ctx.call_function(function, args, kwargs).read(ctx)
        finally:  # also when the program raises
            inside, fake_mode.written = fake_mode.written, written | fake_mode.written
    if not all(map(made_inside, changed)):
        _refuse(ctx, "the function changes an object that was there before, and would change it again in backward")
    if len(ctx.draws) > draws or Modes.now() != modes:
        _refuse(ctx, "the function draws random numbers of Python's, or leaves a mode switched on")
    nodes = nodes_after(ctx.graph.graph, before)
    values = [node.meta.get("example_value") for node in outside_values(nodes)]
    if any(isinstance(value, torch.Tensor) and storage_of(value) in inside for value in values):
        _refuse(ctx, "the function writes to a tensor that was there before, and would write to it again in backward")
    if nodes:
        ctx.graph.bodies.append(Body(set(nodes), checkpointed, {}, "checkpointed_body"))
    return result
