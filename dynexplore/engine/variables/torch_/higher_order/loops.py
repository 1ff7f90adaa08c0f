"""while_loop, map, scan and associative_scan: the loop body is a subgraph of a higher-order operator.

The idea: torch implements them in Python around one HOP each; the Python part, which flattens pytrees and checks arguments, is
inlined. At the HOP, the functions are traced with placeholders for what changes between iterations (hop_subgraph.py), and the HOP
is the node: it defines outputs and gradients. What cannot be traced breaks the graph, and torch runs the call or raises its own
error.

In: calls of the operators. Out: a node, tensors.
PyTorch's counterpart: WhileLoopHigherOrderVariable, MapHigherOrderVariable, ScanHigherOrderVariable and
AssociativeScanHigherOrderVariable in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops import utils as operators
from torch._higher_order_ops.associative_scan import associative_scan_op, generic_associative_scan
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.hop_subgraph import HopSubgraph, placeholder_of, unflatten
from dynexplore.engine.variables.torch_.higher_order.speculate_subgraph import refuse
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext

_CONDITION = "loop_condition"  # the one subgraph that returns a tensor, not a tuple


@rule(operators._maybe_compile_and_run_fn)
def _call_as_compiled(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """torch compiles here if no compiler is active; under a compiler it calls the function, as we do."""
    function, *arguments = args
    return function.call(ctx, arguments, kwargs)


@builtin(while_loop_op)
def _while_loop(
    ctx: TraceContext, cond_fn: VariableTracker, body_fn: VariableTracker, carried: VariableTracker, more: VariableTracker, /
) -> VariableTracker:
    ctx.graph.ensure_shape_env()  # torch reads it
    state = carried.unpack(ctx)
    bodies = [_trace_step(ctx, "torch.while_loop", function, state, more.unpack(ctx)) for function in (cond_fn, body_fn)]
    condition, step = bodies
    if condition.out_spec is not None or not _is_scalar_bool(condition.tensors[0].fake):
        refuse(ctx, "torch.while_loop", "the condition is not a single bool")
    _require_same_metadata(ctx, "torch.while_loop", state, step.tensors)
    return _lower_loop(ctx, while_loop_op, bodies, (_CONDITION, "loop_body"), step.out_spec, [TupleVariable(state)])


@builtin(map_impl)
def _map(ctx: TraceContext, f: VariableTracker, xs: VariableTracker, args: VariableTracker, /) -> VariableTracker:
    mapped = xs.unpack(ctx)
    body = _trace_step(ctx, "map", f, mapped, args.unpack(ctx), parts=len(mapped))
    return _lower_loop(ctx, map_impl, [body], ("map_body",), body.out_spec, [ListVariable(mapped)])


@builtin(scan_op)
def _scan(
    ctx: TraceContext, combine_fn: VariableTracker, init: VariableTracker, xs: VariableTracker, additional_inputs: VariableTracker
) -> VariableTracker:
    state, parts = init.unpack(ctx), xs.unpack(ctx)
    body = _trace_step(ctx, "scan", combine_fn, [*parts, *state], additional_inputs.unpack(ctx), parts=len(parts), last=len(state))
    if type(body.out_spec) is not tuple or len(body.out_spec) != 2 or len(list(_leaves(body.out_spec[0]))) != len(state):
        refuse(ctx, "scan", "a step does not return its state and an output")
    _require_same_metadata(ctx, "scan", state, body.tensors[: len(state)])
    return _lower_loop(ctx, scan_op, [body], ("scan_body",), body.out_spec, [ListVariable(state), ListVariable(parts)])


@builtin(associative_scan_op)
def _associative_scan(
    ctx: TraceContext, combine_fn: VariableTracker, xs: VariableTracker, additional_inputs: VariableTracker
) -> VariableTracker:
    """Elementwise mode: the body is traced with two slices of each tensor, and runs on many of them at a time.

    torch's derivative of the operator differentiates each tensor separately, which is wrong if one depends on another (2.11 to
    2.13). If gradients of several are required, the operator's decomposition is captured instead.
    """
    parts = xs.unpack(ctx)
    if len(parts) > 1 and torch.is_grad_enabled() and any(_requires_grad(part.read(ctx)) for part in parts):
        general = ctx.build(generic_associative_scan, None)
        return general.call(ctx, [combine_fn, xs], {"additional_inputs": additional_inputs})
    twice = [*parts, *parts]
    body = _trace_step(ctx, "associative_scan", combine_fn, twice, additional_inputs.unpack(ctx), parts=len(twice))
    if body.inputs:
        refuse(ctx, "associative_scan", "the function uses tensors that are not passed to it")
    fakes = [tensor.fake for tensor in body.tensors]
    inputs = [placeholder.meta["example_value"] for placeholder in body.placeholders[: len(parts)]]
    if list(map(_metadata, fakes)) != list(map(_metadata, inputs)):
        refuse(ctx, "associative_scan", "the metadata of the returned tensors differs from that of the arguments")
    _check_operands(ctx, associative_scan_op, ListVariable(parts).as_proxy())
    module = body.extract(ctx, "scan_body", [])
    results = ctx.operation("call_function", associative_scan_op, [module, ListVariable(parts), TupleVariable([])], {})
    return ListVariable(results.unpack(ctx))


def _requires_grad(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and value.fake.requires_grad


def _trace_step(
    ctx: TraceContext, operator: str, function: VariableTracker, changing: Sequence[VariableTracker],
    more: Sequence[VariableTracker], parts: int = 0, last: int = 0,
) -> HopSubgraph:
    """Trace a function whose `changing` arguments are placeholders, `parts` of them slices; the `last` ones come first."""
    placeholders = [placeholder_of(ctx, tensor.read(ctx), operator, part=index < parts) for index, tensor in enumerate(changing)]
    split = len(placeholders) - last if last else 0
    return HopSubgraph(ctx, operator, function, more, [*placeholders[split:], *placeholders[:split]])


def _is_scalar_bool(fake: torch.Tensor) -> bool:
    return fake.dtype is torch.bool and fake.numel() == 1


def _require_same_metadata(
    ctx: TraceContext, operator: str, state: Sequence[VariableTracker], results: Sequence[TensorVariable]
) -> None:
    """The results of an iteration must have the metadata of the state that was passed to it."""
    if len(state) != len(results) or not all(
        isinstance(old := carried.read(ctx), TensorVariable) and _metadata(old.fake) == _metadata(new.fake)
        for carried, new in zip(state, results, strict=True)
    ):
        refuse(ctx, operator, "a step returns a state with a different number of tensors, or with different metadata")


def _leaves(out_spec: Any) -> Iterator[None]:
    if out_spec is None:
        yield None
        return
    for item in out_spec.values() if isinstance(out_spec, dict) else out_spec:
        yield from _leaves(item)


def _metadata(fake: torch.Tensor) -> Any:
    return fake.dtype, fake.device, fake.shape, fake.layout, type(fake)


def _check_operands(ctx: TraceContext, operator: Any, nodes: Sequence[Node]) -> None:
    """torch rejects operands that alias each other."""
    fakes = [node.meta["example_value"] for node in nodes]
    if len(set(map(storage_of, fakes))) < len(fakes):
        refuse(ctx, str(operator), "two of its operands share memory")


def _lower_loop(
    ctx: TraceContext, operator: Any, bodies: Sequence[HopSubgraph], names: Sequence[str], out_spec: Any,
    operands: Sequence[VariableTracker],
) -> VariableTracker:
    """Add the operator's node: subgraphs, loop state, lifted free variables."""
    inputs: list[Node] = [*dict.fromkeys(node for body in bodies for node in body.inputs)]
    _check_operands(ctx, operator, [*(node for part in operands for node in part.as_proxy()), *inputs])
    modules = [body.extract(ctx, name, inputs, bare=name == _CONDITION) for body, name in zip(bodies, names, strict=True)]
    more = TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in inputs])
    results = iter(ctx.operation("call_function", operator, [*modules, *operands, more], {}).unpack(ctx))
    return unflatten(out_spec, results)
