"""while_loop, map, scan and associative_scan: a function that an operator of torch runs again and again, as a body in the graph.

The idea: torch writes them in Python around one higher-order operator each; the Python part, which flattens nests and checks what
it is given, is interpreted. At the operator the functions are traced as bodies with slots for what changes from step to step
(operator_body.py), and the operator itself is the node: it says what comes out, and how gradients go back. What is not traced
breaks the graph, so that torch itself takes the call or says what is wrong with it.

In: calls of the operators. Out: a node, tensors.
torch/_dynamo/variables/higher_order_ops.py (WhileLoopHigherOrderVariable, MapHigherOrderVariable, ScanHigherOrderVariable,
AssociativeScanHigherOrderVariable) does the same job.
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

from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.operator_body import OperatorBody, put_together, slot_of
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext

_CONDITION = "loop_condition"  # the one body that gives a tensor, not a tuple


@rule(operators._maybe_compile_and_run_fn)
def _run(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Outside of a compiler torch compiles it here; inside it calls the function."""
    function, *given = args
    return ctx.call_function(function, given, kwargs)


@builtin(while_loop_op)
def _while_loop(
    ctx: TraceContext, cond_fn: VariableTracker, body_fn: VariableTracker, carried: VariableTracker, more: VariableTracker, /
) -> VariableTracker:
    ctx.graph.need_shape_env()  # torch asks for it
    state = carried.unpack(ctx)
    bodies = [_body(ctx, "torch.while_loop", function, state, more.unpack(ctx)) for function in (cond_fn, body_fn)]
    condition, step = bodies
    if condition.nest is not None or not _is_condition(condition.tensors[0].fake):
        refuse(ctx, "torch.while_loop", "the condition is not one boolean")
    _require_same_kinds(ctx, "torch.while_loop", state, step.tensors)
    return _call(ctx, while_loop_op, bodies, (_CONDITION, "loop_body"), step.nest, [TupleVariable(state)])


@builtin(map_impl)
def _map(ctx: TraceContext, f: VariableTracker, xs: VariableTracker, args: VariableTracker, /) -> VariableTracker:
    mapped = xs.unpack(ctx)
    body = _body(ctx, "map", f, mapped, args.unpack(ctx), parts=len(mapped))
    return _call(ctx, map_impl, [body], ("map_body",), body.nest, [ListVariable(mapped)])


@builtin(scan_op)
def _scan(
    ctx: TraceContext, combine_fn: VariableTracker, init: VariableTracker, xs: VariableTracker, additional_inputs: VariableTracker
) -> VariableTracker:
    state, parts = init.unpack(ctx), xs.unpack(ctx)
    body = _body(ctx, "scan", combine_fn, [*parts, *state], additional_inputs.unpack(ctx), parts=len(parts), last=len(state))
    if type(body.nest) is not tuple or len(body.nest) != 2 or len(list(_leaves(body.nest[0]))) != len(state):
        refuse(ctx, "scan", "a step does not return its state and an output")
    _require_same_kinds(ctx, "scan", state, body.tensors[: len(state)])
    return _call(ctx, scan_op, [body], ("scan_body",), body.nest, [ListVariable(state), ListVariable(parts)])


@builtin(associative_scan_op)
def _associative_scan(
    ctx: TraceContext, combine_fn: VariableTracker, xs: VariableTracker, additional_inputs: VariableTracker
) -> VariableTracker:
    """Element by element: the body is traced with two parts of each tensor, and runs with many of them at a time.

    torch's derivative of the operator takes each tensor by itself, which is wrong where one depends on another (2.11 to 2.13).
    Where gradients of several are wanted, what the operator does is put into the graph.
    """
    parts = xs.unpack(ctx)
    if len(parts) > 1 and torch.is_grad_enabled() and any(_wants_gradient(part.read(ctx)) for part in parts):
        general = ctx.build(generic_associative_scan, None)
        return ctx.call_function(general, [combine_fn, xs], {"additional_inputs": additional_inputs})
    twice = [*parts, *parts]
    body = _body(ctx, "associative_scan", combine_fn, twice, additional_inputs.unpack(ctx), parts=len(twice))
    if body.inputs:
        refuse(ctx, "associative_scan", "the function uses tensors that it is not given")
    fakes = [tensor.fake for tensor in body.tensors]
    given = [slot.meta["example_value"] for slot in body.slots[: len(parts)]]
    if list(map(_kind, fakes)) != list(map(_kind, given)):
        refuse(ctx, "associative_scan", "the function makes tensors of another kind than it is given")
    _check_operands(ctx, associative_scan_op, ListVariable(parts).as_proxy())
    module = body.moved_out(ctx, "scan_body", [])
    results = ctx.operation("call_function", associative_scan_op, [module, ListVariable(parts), TupleVariable([])], {})
    return ListVariable(results.unpack(ctx))


def _wants_gradient(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and value.fake.requires_grad


def _body(
    ctx: TraceContext, operator: str, function: VariableTracker, changing: Sequence[VariableTracker],
    more: Sequence[VariableTracker], parts: int = 0, last: int = 0,
) -> OperatorBody:
    """Trace a body whose `changing` arguments are slots: `parts` of them parts of tensors, and the `last` ones passed first."""
    slots = [slot_of(ctx, tensor.read(ctx), operator, part=place < parts) for place, tensor in enumerate(changing)]
    split = len(slots) - last if last else 0
    return OperatorBody(ctx, operator, function, more, [*slots[split:], *slots[:split]])


def _is_condition(fake: torch.Tensor) -> bool:
    return fake.dtype is torch.bool and fake.numel() == 1


def _require_same_kinds(
    ctx: TraceContext, operator: str, state: Sequence[VariableTracker], results: Sequence[TensorVariable]
) -> None:
    """What a step passes to the next one is of the kind that it was given."""
    if len(state) != len(results) or not all(
        isinstance(old := given.read(ctx), TensorVariable) and _kind(old.fake) == _kind(new.fake)
        for given, new in zip(state, results, strict=True)
    ):
        refuse(ctx, operator, "a step makes of its state another number of tensors, or tensors of another kind")


def _leaves(nest: Any) -> Iterator[None]:
    if nest is None:
        yield None
        return
    for item in nest.values() if isinstance(nest, dict) else nest:
        yield from _leaves(item)


def _kind(fake: torch.Tensor) -> Any:
    return fake.dtype, fake.device, fake.shape, fake.layout, type(fake)


def _check_operands(ctx: TraceContext, operator: Any, nodes: Sequence[Node]) -> None:
    """torch refuses operands that share memory; of a loop with gradients its compilers want numbers that nobody knows."""
    fakes = [node.meta["example_value"] for node in nodes]
    if len(set(map(storage_of, fakes))) < len(fakes):
        refuse(ctx, str(operator), "two of its operands share memory")
    wants_gradient = torch.is_grad_enabled() and any(fake.requires_grad for fake in fakes)
    if operator is while_loop_op and wants_gradient and not ctx.graphs_run_as_they_are:
        refuse(ctx, str(operator), "a compiler does not take its gradients")


def _call(
    ctx: TraceContext, operator: Any, bodies: Sequence[OperatorBody], names: Sequence[str], nest: Any,
    given: Sequence[VariableTracker],
) -> VariableTracker:
    """The operator's node: bodies, what changes, what the bodies use from outside."""
    inputs: list[Node] = [*dict.fromkeys(node for body in bodies for node in body.inputs)]
    _check_operands(ctx, operator, [*(node for part in given for node in part.as_proxy()), *inputs])
    modules = [body.moved_out(ctx, name, inputs, bare=name == _CONDITION) for body, name in zip(bodies, names, strict=True)]
    more = TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in inputs])
    results = iter(ctx.operation("call_function", operator, [*modules, *given, more], {}).unpack(ctx))
    return put_together(nest, results)
