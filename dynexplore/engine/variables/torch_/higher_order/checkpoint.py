"""Activation checkpointing (torch.utils.checkpoint.checkpoint): values are recomputed in backward instead of saved.

The idea: the function is inlined and its nodes become a subgraph (graph/subgraphs.py), called by one node, `checkpointed`. Run
eagerly, that node calls torch's own checkpoint; when AOTAutograd traces the graph, it is the HOP tag_activation_checkpoint, which
marks what to recompute. The subgraph runs twice, so side effects break the graph (speculate_subgraph.py).

The reentrant variant (`use_reentrant=True`) runs the function in no_grad mode and starts a nested backward. Its node,
`checkpointed_reentrant`, saves the tensors that the program passes; for AOTAutograd both variants are the same. Where the variants
would differ (the function reads the grad mode, or a result does not require grad), the graph breaks.

A selective checkpointing policy (`context_fn`) is supported if it comes from `create_selective_checkpoint_contexts`.

In: calls of `checkpoint`. Out: the function's result, and a subgraph.
PyTorch's counterpart: CheckpointHigherOrderVariable in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils import checkpoint as torch_checkpoint

from dynexplore.engine.aliasing.lowerings import REDRAWS
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import example_value
from dynexplore.engine.graph.set_data import take_data
from dynexplore.engine.graph.subgraphs import Body, outside_values
from dynexplore.engine.variables.callables.function import FunctionVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.speculate_subgraph import refuse, speculate_subgraph
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext

_FUNCTION = "torch.utils.checkpoint.checkpoint"
_CONTEXTS = "_checkpoint_context_fn"  # the key under which torch's operator expects a policy in the `meta` of a subgraph


def checkpointed(body: Any, *inputs: Any, preserve_rng_state: bool = True, determinism_check: str = "default") -> Any:
    """Run a subgraph and save only its inputs; AOTAutograd sees which values to recompute.

    The recomputation runs to the end: stopping early could leave a mode set that the subgraph enters.
    """
    if detect_fake_mode(inputs) is not None:
        return tag_activation_checkpoint(body, *inputs, use_reentrant=False)
    policy = {"context_fn": body.meta[_CONTEXTS]} if _CONTEXTS in body.meta else {}
    return torch_checkpoint.checkpoint(
        body, *inputs, use_reentrant=False, early_stop=False, preserve_rng_state=preserve_rng_state,
        determinism_check=determinism_check, **policy,
    )


def checkpointed_reentrant(body: Any, *inputs: Any, passed: tuple[torch.Tensor, ...], preserve_rng_state: bool = True) -> Any:
    """The reentrant variant: saves the tensors that were `passed`; other operands are free variables of the function."""
    if detect_fake_mode(inputs) is not None:
        return tag_activation_checkpoint(body, *inputs, use_reentrant=False)
    index_of = {id(tensor): index for index, tensor in enumerate(passed)}
    positions = [index_of.get(id(value)) for value in inputs]

    def run(*tensors: torch.Tensor) -> Any:
        return body(*(value if index is None else tensors[index] for index, value in zip(positions, inputs, strict=True)))

    return torch_checkpoint.checkpoint(run, *passed, use_reentrant=True, preserve_rng_state=preserve_rng_state)


@rule(torch_checkpoint.checkpoint)
def _checkpoint(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    named = dict(kwargs)
    function, *positional = args if args else (named.pop("function"),)
    if "use_reentrant" not in named:
        refuse(ctx, _FUNCTION, "it is called without use_reentrant, so torch warns")
    reentrant = constant_of(ctx, named.pop("use_reentrant"), _FUNCTION)
    options = _pop_options(ctx, named)
    if reentrant is None or (reentrant and (named or "context_fn" in options)):
        refuse(ctx, _FUNCTION, "torch warns about such a call, or rejects it")
    policy = options.pop("context_fn", None)
    if reentrant:
        del options["determinism_check"]
        return _checkpoint_reentrant(ctx, function, positional, options)
    if not torch.is_grad_enabled():  # nothing is saved, so nothing is recomputed
        return function.call(ctx, positional, named)
    result, nodes = _trace(ctx, function, positional, named, options)
    if nodes:
        meta = {} if policy is None else {_CONTEXTS: policy}
        _add_subgraph(ctx, Body(set(nodes), checkpointed, _non_default(options), "checkpointed_body", meta))
    return result


def _add_subgraph(ctx: TraceContext, body: Body) -> None:
    outside = outside_values(body.nodes)
    if any(node.target is take_data for node in outside):  # eager saves the tensor, and in backward reads the data that it has then
        refuse(ctx, _FUNCTION, "the `.data` of a tensor that it reads was assigned in this graph")
    ctx.graph.bodies.append(body)
    ctx.graph.note_recompute_inputs(map(example_value, outside))


# -- options -----------------------------------------------------------------------------------------------------------


def _pop_options(ctx: TraceContext, named: dict[str, VariableTracker]) -> dict[str, Any]:
    """Remove the options from the arguments; an unsupported option breaks the graph. `early_stop` only affects speed."""
    named.pop("early_stop", None)
    if "debug" in named and constant_of(ctx, named.pop("debug"), _FUNCTION):
        refuse(ctx, _FUNCTION, "debug shows the program's own operators")
    options = {
        name: constant_of(ctx, named.pop(name), _FUNCTION) if name in named else default
        for name, default in (("preserve_rng_state", True), ("determinism_check", "default"))
    }
    if options["determinism_check"] not in ("default", "none"):
        refuse(ctx, _FUNCTION, "torch does not support this determinism_check")
    if "context_fn" in named:
        policy = _context_factory(ctx, named.pop("context_fn"))
        if policy is not None:
            options["context_fn"] = policy
    return options


def _non_default(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (True, "default")}


class _SelectiveContextsVariable(VariableTracker):
    """The result of `create_selective_checkpoint_contexts`: two modes that save the values which a policy selects."""

    kind = "selective checkpoint contexts"

    def __init__(self, make: Any) -> None:
        self.make = make

    def python_type(self) -> type[Any]:
        return tuple


@builtin(torch_checkpoint.create_selective_checkpoint_contexts)
def _selective_checkpoint_contexts(
    ctx: TraceContext, policy_fn_or_list: VariableTracker, allow_cache_entry_mutation: VariableTracker | None = None
) -> VariableTracker:
    """The policy is called at run time, or during compilation; it is the live function."""
    policy = policy_fn_or_list.read(ctx)
    is_list = type(policy) is ListVariable
    live = [_guard_on_policy(ctx, item.read(ctx)) for item in policy.unpack(ctx)] if is_list else _guard_on_policy(ctx, policy)
    may_change = allow_cache_entry_mutation is not None and constant_of(ctx, allow_cache_entry_mutation, _FUNCTION)
    return _SelectiveContextsVariable(
        functools.partial(torch_checkpoint.create_selective_checkpoint_contexts, live, may_change)
    )


def _guard_on_policy(ctx: TraceContext, value: VariableTracker) -> Any:
    """A policy, or an operator that it lists."""
    try:
        live = value.live_value()
    except NotConstant:
        live = None
    if not callable(live) or (value.source is not None and not ctx.specializer.specializes(value.source)):
        refuse(ctx, _FUNCTION, "context_fn has a policy that is a new object in each call")
    guard_identity(ctx, live, value.source)
    return live


def _context_factory(ctx: TraceContext, context_fn: VariableTracker) -> Any:
    """A function that creates the contexts that `context_fn` returns; None if they have no effect."""
    if isinstance(context_fn, FunctionVariable) and context_fn.function is torch_checkpoint.noop_context_fn:
        return None
    contexts = context_fn.call(ctx, [], {}).read(ctx)
    if not isinstance(contexts, _SelectiveContextsVariable):
        refuse(ctx, _FUNCTION, "context_fn returns custom contexts")
    return contexts.make


# -- the reentrant variant ---------------------------------------------------------------------------------------------


def _checkpoint_reentrant(
    ctx: TraceContext, function: VariableTracker, args: Sequence[VariableTracker], options: Mapping[str, Any]
) -> VariableTracker:
    tensors = [tensor for arg in args if isinstance(tensor := arg.read(ctx), TensorVariable)]
    if not any(tensor.fake.requires_grad for tensor in tensors):
        refuse(ctx, _FUNCTION, "no argument requires grad, so torch warns")
    if not torch.is_grad_enabled():
        result = function.call(ctx, args, {}).read(ctx)
        _check_results(ctx, result, tensors)
        return result
    ctx.graph.asked_about_gradients = False
    result, nodes = _trace(ctx, function, args, {}, options)
    if ctx.graph.asked_about_gradients:  # the grad mode differs between forward and recomputation
        refuse(ctx, _FUNCTION, "the function reads the grad mode")
    ctx.graph.asked_about_gradients = True  # a nested reentrant checkpoint warns, since its forward runs without grad
    _check_results(ctx, result, tensors, nodes)
    passed = tuple(tensor.as_proxy() for tensor in tensors)
    kwargs = {"passed": passed, **_non_default(options)}
    _add_subgraph(ctx, Body(set(nodes), checkpointed_reentrant, kwargs, "checkpointed_body"))
    return result


def _check_results(
    ctx: TraceContext, result: VariableTracker, inputs: Sequence[TensorVariable], nodes: Sequence[Node] | None = None
) -> None:
    """Results must be new tensors, single or in a tuple: torch would alter others. With `nodes`: they must require grad."""
    items = [item.read(ctx) for item in result.unpack(ctx)] if type(result) is TupleVariable else [result]
    storages = {storage_of(tensor.fake) for tensor in inputs}
    for item in items:
        if not isinstance(item, TensorVariable):
            if not item.is_constant():
                refuse(ctx, _FUNCTION, "the function returns more than tensors")
            continue
        wants = item.fake.dtype.is_floating_point or item.fake.dtype.is_complex
        is_of_body = item.source is None if nodes is None else item.as_proxy() in nodes
        if not is_of_body or storage_of(item.fake) in storages or (nodes is not None and item.fake.requires_grad != wants):
            refuse(ctx, _FUNCTION, "a result is an existing tensor, a view of one, or does not require grad")
        storages.add(storage_of(item.fake))
    if nodes is not None and not any(isinstance(item, TensorVariable) for item in items):
        refuse(ctx, _FUNCTION, "the function returns no tensor")


def _trace(
    ctx: TraceContext, function: VariableTracker, args: Sequence[VariableTracker], named: Mapping[str, VariableTracker],
    options: Mapping[str, Any],
) -> tuple[VariableTracker, list[Node]]:
    """Trace the function into a subgraph."""
    fake_mode = ctx.graph.fake_mode
    drawn, fake_mode.draws_random_numbers = fake_mode.draws_random_numbers, False
    result, nodes = speculate_subgraph(ctx, _FUNCTION, function, args, named)
    if fake_mode.draws_random_numbers and not options["preserve_rng_state"] and nodes:
        nodes[0].meta[REDRAWS] = True
    fake_mode.draws_random_numbers |= drawn
    return result, nodes
