"""torch.utils.checkpoint.checkpoint: a function whose values are computed again in backward instead of being kept.

The idea: the function is inlined, and the nodes that this adds become a body (graph/bodies.py), called by one node: `checkpointed`.
Run as it is, that node checkpoints the body with torch's own function; for a compiler that traces the graph it is torch's
higher-order operator, which marks what is to be computed again. A body runs twice: what the program would see of the second time
breaks the graph (traced_body.py).

The other kind (`use_reentrant=True`) runs the function without noting gradients, and in backward begins another backward. Its node,
`checkpointed_reentrant`, does the same with the tensors that the program passes; to a compiler both kinds are one. What the two
kinds would answer differently breaks the graph: a function that asks whether gradients are noted, a result that has none.

What a policy keeps (`context_fn`) is traced where it comes of `create_selective_checkpoint_contexts`, which changes no value.

In: calls of `checkpoint`. Out: what the function returned, and a body in the graph.
torch/_dynamo/variables/higher_order_ops.py (CheckpointHigherOrderVariable) does the same job.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as torch_checkpoint

from dynexplore.engine.graph.bodies import Body, outside_values
from dynexplore.engine.graph.builder import example_value
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.taken_data import take_data
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.function import FunctionVariable
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse, trace_body

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext

_FUNCTION = "torch.utils.checkpoint.checkpoint"
_CONTEXTS = "_checkpoint_context_fn"  # where torch's operator looks for a policy in the `meta` of a body


def checkpointed(body: Any, *inputs: Any, preserve_rng_state: bool = True, determinism_check: str = "default") -> Any:
    """Run a body and keep its inputs alone; a compiler is told what to compute again.

    It is computed again to its end: to stop early could leave a mode that the body enters switched on.
    """
    if detect_fake_mode(inputs) is not None:
        return tag_activation_checkpoint(body, *inputs, use_reentrant=False)
    policy = {"context_fn": body.meta[_CONTEXTS]} if _CONTEXTS in body.meta else {}
    return torch_checkpoint.checkpoint(
        body, *inputs, use_reentrant=False, early_stop=False, preserve_rng_state=preserve_rng_state,
        determinism_check=determinism_check, **policy,
    )


def checkpointed_reentrant(body: Any, *inputs: Any, given: tuple[torch.Tensor, ...], preserve_rng_state: bool = True) -> Any:
    """The same in the other way: the tensors that were `given` are kept, what the body has besides belongs to the function."""
    if detect_fake_mode(inputs) is not None:
        return tag_activation_checkpoint(body, *inputs, use_reentrant=False)
    places = {id(tensor): place for place, tensor in enumerate(given)}
    taken = [places.get(id(one)) for one in inputs]

    def run(*now: torch.Tensor) -> Any:
        return body(*(one if place is None else now[place] for place, one in zip(taken, inputs, strict=True)))

    return torch_checkpoint.checkpoint(run, *given, use_reentrant=True, preserve_rng_state=preserve_rng_state)


@rule(torch_checkpoint.checkpoint)
def _checkpoint(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    named = dict(kwargs)
    function, *positional = args if args else (named.pop("function"),)
    if "use_reentrant" not in named:
        refuse(ctx, _FUNCTION, "it is called without use_reentrant, of which torch warns")
    reentrant = constant_of(ctx, named.pop("use_reentrant"), _FUNCTION)
    options = _take_options(ctx, named)
    if reentrant is None or (reentrant and (named or "context_fn" in options)):
        refuse(ctx, _FUNCTION, "torch warns of such a call, or refuses it")
    policy = options.pop("context_fn", None)
    if reentrant:
        del options["determinism_check"]
        return _reentrant(ctx, function, positional, options)
    if not torch.is_grad_enabled():  # nothing is kept, so nothing is computed again
        return ctx.call_function(function, positional, named)
    result, nodes = _trace(ctx, function, positional, named, options)
    if nodes:
        meta = {} if policy is None else {_CONTEXTS: policy}
        _add_body(ctx, Body(set(nodes), checkpointed, _besides_defaults(options), "checkpointed_body", meta))
    return result


def _add_body(ctx: TraceContext, body: Body) -> None:
    outside = outside_values(body.nodes)
    if any(node.target is take_data for node in outside):  # eager keeps the tensor, and reads the data that it has in backward
        refuse(ctx, _FUNCTION, "a tensor that it reads was given other data in this graph")
    ctx.graph.bodies.append(body)
    ctx.graph.note_kept(map(example_value, outside))


# -- options -----------------------------------------------------------------------------------------------------------


def _take_options(ctx: TraceContext, named: dict[str, VariableTracker]) -> dict[str, Any]:
    """Take the options out of the arguments; one that is not traced breaks the graph. `early_stop` is about time alone."""
    named.pop("early_stop", None)
    if "debug" in named and constant_of(ctx, named.pop("debug"), _FUNCTION):
        refuse(ctx, _FUNCTION, "debug shows the program's own operators")
    options = {
        name: constant_of(ctx, named.pop(name), _FUNCTION) if name in named else default
        for name, default in (("preserve_rng_state", True), ("determinism_check", "default"))
    }
    if options["determinism_check"] not in ("default", "none"):
        refuse(ctx, _FUNCTION, "torch knows no such determinism_check")
    if "context_fn" in named:
        policy = _policy(ctx, named.pop("context_fn"))
        if policy is not None:
            options["context_fn"] = policy
    return options


def _besides_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (True, "default")}


class _SelectiveContextsVariable(VariableTracker):
    """What `create_selective_checkpoint_contexts` gives: two modes that keep the values which a policy names."""

    kind = "selective checkpoint contexts"

    def __init__(self, make: Any) -> None:
        self.make = make

    def python_type(self) -> type[Any]:
        return tuple


@builtin(torch_checkpoint.create_selective_checkpoint_contexts)
def _selective(
    ctx: TraceContext, policy_fn_or_list: VariableTracker, allow_cache_entry_mutation: VariableTracker | None = None
) -> VariableTracker:
    """The policy is called when the graph runs, or is compiled: it is the live function, whatever it reads."""
    policy = policy_fn_or_list.read(ctx)
    live = [_live(ctx, item.read(ctx)) for item in policy.unpack(ctx)] if type(policy) is ListVariable else _live(ctx, policy)
    may_change = allow_cache_entry_mutation is not None and constant_of(ctx, allow_cache_entry_mutation, _FUNCTION)
    return _SelectiveContextsVariable(
        functools.partial(torch_checkpoint.create_selective_checkpoint_contexts, live, may_change)
    )


def _live(ctx: TraceContext, value: VariableTracker) -> Any:
    """A policy, or an operator that one names."""
    try:
        live = value.live_value()
    except NotConstant:
        live = None
    if not callable(live) or (value.source is not None and not ctx.is_stable(value.source)):
        refuse(ctx, _FUNCTION, "context_fn has a policy that is made anew in each call")
    guard_identity(ctx, live, value.source)
    return live


def _policy(ctx: TraceContext, context_fn: VariableTracker) -> Any:
    """What makes the contexts that `context_fn` gives, when it is called anew; None where they do nothing."""
    if isinstance(context_fn, FunctionVariable) and context_fn.function is torch_checkpoint.noop_context_fn:
        return None
    contexts = ctx.call_function(context_fn, [], {}).read(ctx)
    if not isinstance(contexts, _SelectiveContextsVariable):
        refuse(ctx, _FUNCTION, "context_fn gives contexts of its own")
    return contexts.make


# -- the reentrant kind ------------------------------------------------------------------------------------------------


def _reentrant(
    ctx: TraceContext, function: VariableTracker, args: Sequence[VariableTracker], options: Mapping[str, Any]
) -> VariableTracker:
    given = [tensor for arg in args if isinstance(tensor := arg.read(ctx), TensorVariable)]
    if not any(tensor.fake.requires_grad for tensor in given):
        refuse(ctx, _FUNCTION, "no argument wants a gradient, of which torch warns")
    if not torch.is_grad_enabled():
        result = ctx.call_function(function, args, {}).read(ctx)
        _check_results(ctx, result, given)
        return result
    ctx.graph.asked_about_gradients = False
    result, nodes = _trace(ctx, function, args, {}, options)
    if ctx.graph.asked_about_gradients:  # forward would be told another answer than backward
        refuse(ctx, _FUNCTION, "the function asks whether gradients are noted")
    ctx.graph.asked_about_gradients = True  # inside another one of this kind torch warns: its forward notes none
    _check_results(ctx, result, given, nodes)
    passed = tuple(tensor.as_proxy() for tensor in given)
    kwargs = {"given": passed, **_besides_defaults(options)}
    _add_body(ctx, Body(set(nodes), checkpointed_reentrant, kwargs, "checkpointed_body"))
    return result


def _check_results(
    ctx: TraceContext, result: VariableTracker, given: Sequence[TensorVariable], nodes: Sequence[Node] | None = None
) -> None:
    """Results are new tensors, one by one or in a tuple: torch would make others of the rest. With `nodes`: with gradients."""
    items = [item.read(ctx) for item in result.unpack(ctx)] if type(result) is TupleVariable else [result]
    taken = {storage_of(tensor.fake) for tensor in given}
    for item in items:
        if not isinstance(item, TensorVariable):
            if not item.is_constant():
                refuse(ctx, _FUNCTION, "the function returns more than tensors")
            continue
        wants = item.fake.dtype.is_floating_point or item.fake.dtype.is_complex
        inside = item.source is None if nodes is None else item.as_proxy() in nodes
        if not inside or storage_of(item.fake) in taken or (nodes is not None and item.fake.requires_grad != wants):
            refuse(ctx, _FUNCTION, "a result was there before, is a view of what was, or has no gradient")
        taken.add(storage_of(item.fake))
    if nodes is not None and not any(isinstance(item, TensorVariable) for item in items):
        refuse(ctx, _FUNCTION, "the function returns no tensor")


def _trace(
    ctx: TraceContext, function: VariableTracker, args: Sequence[VariableTracker], named: Mapping[str, VariableTracker],
    options: Mapping[str, Any],
) -> tuple[VariableTracker, list[Node]]:
    """Trace the body; a compiler draws the same random numbers again, whether it is told to or not."""
    fake_mode = ctx.graph.fake_mode
    drawn, fake_mode.draws_random_numbers = fake_mode.draws_random_numbers, False
    result, nodes = trace_body(ctx, _FUNCTION, function, args, named)
    if fake_mode.draws_random_numbers and not options["preserve_rng_state"] and not ctx.graphs_run_as_they_are:
        refuse(ctx, _FUNCTION, "other random numbers are drawn the second time")
    fake_mode.draws_random_numbers |= drawn
    return result, nodes
