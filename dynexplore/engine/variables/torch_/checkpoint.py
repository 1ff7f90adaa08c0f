"""torch.utils.checkpoint.checkpoint: a function whose values are computed again in backward instead of being kept.

The idea: the function is inlined, and the nodes that this adds become a body (graph/bodies.py), called by one node: `checkpointed`.
Run as it is, that node checkpoints the body with torch's own function; for a compiler that traces the graph it is torch's
higher-order operator, which marks what is to be computed again. A body runs twice: what the program would see of the second time
breaks the graph (traced_body.py).

In: calls of `checkpoint`. Out: what the function returned, and a body in the graph.
torch/_dynamo/variables/higher_order_ops.py (CheckpointHigherOrderVariable) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as torch_checkpoint

from dynexplore.engine.graph.bodies import Body
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.torch_.traced_body import refuse, trace_body

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker
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
    result, nodes = trace_body(ctx, _FUNCTION, function, positional, named)
    if nodes:
        ctx.graph.bodies.append(Body(set(nodes), checkpointed, {}, "checkpointed_body"))
    return result


def _refuse_options(ctx: TraceContext, named: dict[str, VariableTracker]) -> None:
    """Take the options out of the arguments; one that is not traced breaks the graph."""
    if "use_reentrant" not in named:
        refuse(ctx, _FUNCTION, "it is not called with use_reentrant=False")
    if "context_fn" in named:
        refuse(ctx, _FUNCTION, "context_fn chooses what to keep")
    for name, traced in _KNOWN.items():
        given = named.pop(name, None)
        if given is not None and not (given.is_constant() and given.as_constant() == traced):
            refuse(ctx, _FUNCTION, f"{name} is not {traced!r}")
    named.pop("early_stop", None)
