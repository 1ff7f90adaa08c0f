"""Torch operations: from trackers to a node of the graph, and from its fake value back to a tracker.

The idea: an operation runs on fake tensors first, and the result decides: a tensor or symbolic number becomes a node and a tracker
of it; a plain value (`x.dim()`, `x.is_contiguous()`) needs no node; an argument that is returned (`x.add_(1)`) keeps its tracker.
An operation that raises on fake tensors breaks the graph, with the matching kind of break.

In: `ctx.operation(op, target, args, kwargs)`. Out: trackers. PyTorch's counterpart: `wrap_fx_proxy` in
torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)

from dynexplore.engine.aliasing.mutation import IN_PLACE_VIEWS, target_name
from dynexplore.engine.graph.builder import InputResized, OperatorFailed
from dynexplore.engine.graph.fake_mode import GIVE_OTHER_MEMORY, has_symbolic_output_sizes
from dynexplore.engine.graph.operator_warnings import at_call
from dynexplore.engine.graph.set_data import take_data
from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
from dynexplore.engine.graph.unbacked_symints import UnboundSymbol, captures_scalar_outputs
from dynexplore.engine.translate.graph_failure import must_run_again_on_failure
from dynexplore.engine.translate.stack_traces import FrameLine
from dynexplore.engine.variables.containers.named_tuple import namedtuple_of
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotProxyable, TruthNotProxyable, VariableTracker
from dynexplore.engine.variables.numpy_.array_rules import holds_numpy_number
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable, wrap_number
from dynexplore.engine.variables.scalars.unspecialized import NumpyNumberVariable
from dynexplore.engine.variables.torch_.tensor import traceable_wrapper_subclass
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

# Python types that torch's operators also accept as a dtype.
_DTYPES = {int: torch.int64, float: torch.float64, bool: torch.bool, complex: torch.complex128}
# Operators whose tensor arguments stand where a number is wanted.
_NUMBERS_ONLY = {torch.arange, torch.full}
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def add(ctx: Interpreter, op: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Add one operation to the graph."""
    if target in _NUMBERS_ONLY and captures_scalar_outputs():
        args = [_number_in(ctx, arg) for arg in args]
        kwargs = {name: arg if name == "out" else _number_in(ctx, arg) for name, arg in kwargs.items()}
    proxies = [proxy_of(ctx, arg, target) for arg in args]
    named = {name: proxy_of(ctx, arg, target) for name, arg in kwargs.items()}
    tensors = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, TensorVariable)]
    name = target_name(target)
    if name in IN_PLACE_VIEWS and any(map(_is_dynamic_input, tensors)):
        ctx.break_graph("DX408", operation="an in-place change to the sizes of an input with dynamic sizes")
    if name in GIVE_OTHER_MEMORY:
        ctx.break_graph("DX408", operation=name)
    mode = ctx.graph.fake_mode
    mode.written_last = set()
    mode.last_may_raise = False
    try:
        fake = ctx.graph.run_fake(op, target, proxies, named)
    except OperatorFailed as failure:
        _break_on(ctx, failure)
    if not mode.written_last and fake is not None and not is_graph_value(fake):
        return ctx.build(fake, None)
    _break_on_layout(ctx, name, fake)
    extended = ctx.graph.input_history.is_extended
    if extended and mode.last_may_raise and must_run_again_on_failure(ctx):
        ctx.break_graph("DX422", operator=name)
    _break_on_mutations(ctx, target, fake, tensors)
    if any(map(holds_numpy_number, (*args, *kwargs.values()))) and not (target is torch._refs.tensor and "dtype" in kwargs):
        _refuse_other_promotion(ctx, op, target, fake, args, kwargs)
    try:
        node = ctx.graph.add(op, target, proxies, named, fake)
    except OperatorFailed as failure:
        _break_on(ctx, failure)
    _note_effects(ctx, node, extended)
    for tensor in tensors:
        if tensor.fake is fake:
            return tensor
    result = wrap(ctx, node, fake)
    if isinstance(fake, (tuple, list)) and not isinstance(fake, torch.Size):
        _reuse_argument_trackers(result, fake, (*args, *kwargs.values()))
    return result


def _number_in(ctx: Interpreter, value: VariableTracker) -> VariableTracker:
    """The number in a 0-d tensor, as a node of its own: the operator would read it itself, and no node would have its symbol."""
    if isinstance(value, TensorVariable) and value.fake.dim() == 0 and not value.fake.requires_grad:
        return value.call_method(ctx, "item", (), {})
    return value


def _break_on_layout(ctx: Interpreter, operator_name: str, fake: Any) -> None:
    """Break the graph if a result is sparse: fake tensors do not know how many entries it has, and say that there are none."""
    for result in fake if isinstance(fake, (tuple, list)) else (fake,):
        if isinstance(result, torch.Tensor) and result.layout not in (torch.strided, torch.jagged):
            ctx.break_graph("DX409", operator=operator_name, layout=str(result.layout))


def _break_on_mutations(ctx: Interpreter, target: Any, fake: Any, tensors: Sequence[TensorVariable]) -> None:
    """Note what the operator has mutated, and break the graph where the mutation cannot be captured."""
    mode = ctx.graph.fake_mode
    ctx.graph.input_history.note_mutation(mode.written_last)
    if mode.written_last and mode.data_aliases:
        ctx.graph.check_hidden_mutation_of_saved()
    if mode.assigned and target is not take_data and mode.is_view_of_assigned(fake, [tensor.fake for tensor in tensors]):
        ctx.break_graph("DX408", operation="a view of a tensor whose .data was assigned")
    if mode.written_last and mode.has_mutated_assigned_data():
        ctx.break_graph("DX408", operation="a write to a tensor whose .data was assigned, or to that data")
    if mode.written_last and ctx.function_modes.has_wrappers:
        traceable_wrapper_subclass.break_on_wrapper_writes(ctx, *tensors)


def _note_effects(ctx: Interpreter, node: torch.fx.Node, extended: bool) -> None:
    """Keep with a node what it mutates, whether it may raise, and which warnings it issues; tell observers of it."""
    mode = ctx.graph.fake_mode
    if mode.written_last:
        node.meta["writes"] = frozenset(mode.written_last)
    if mode.last_may_raise:
        node.meta["may_raise"] = True
    if extended:
        node.meta["extended_history"] = True
    if ctx.emitter is not None:
        ctx.emitter.node_added(node)
    describe(ctx, node)
    if ctx.graph.shown_warnings:
        namespace = ctx.frames.innermost.globals.live_names()
        filename, lineno = node.meta["line"]
        node.meta["warnings"] = at_call(ctx.graph.shown_warnings, filename, lineno or 0, namespace.get("__name__"))


def _reuse_argument_trackers(result: VariableTracker, fakes: Sequence[Any], args: Args) -> None:
    """Reuse the trackers of arguments that are parts of the result: `torch.broadcast_tensors(x)[0] is x`."""
    assert isinstance(result, (ListVariable, TupleVariable))
    inner = [item for arg in args if isinstance(arg, (ListVariable, TupleVariable)) for item in arg.items]
    argument_of_fake = {id(arg.fake): arg for arg in (*args, *inner) if isinstance(arg, TensorVariable)}
    for index, fake in enumerate(fakes):
        result.items[index] = argument_of_fake.get(id(fake), result.items[index])


def _is_dynamic_input(tensor: TensorVariable) -> bool:
    """Whether the tensor has symbolic sizes or strides, which are read from it even after the graph has run."""
    numbers = (*tensor.fake.shape, *tensor.fake.stride()) if tensor.source is not None else ()
    return any(isinstance(number, torch.SymInt) for number in numbers)


def torch_function_call(ctx: Interpreter, op: str, target: Any, args: Args, kwargs: Kwargs) -> TorchFunctionDispatched | None:
    """The arguments that torch passes to the innermost TorchFunctionMode when this operation is called."""
    proxies = [_probe_argument(ctx, arg, target) for arg in args]
    named = {name: _probe_argument(ctx, arg, target) for name, arg in kwargs.items()}
    return ctx.graph.torch_function_call(op, target, proxies, named)


def _probe_argument(ctx: Interpreter, value: VariableTracker, target: Any) -> Any:
    """An argument of a probing call of `__torch_function__`: a class is passed as it is, since no node can hold it."""
    if value.is_constant() or not issubclass(value.python_type(), type):
        return proxy_of(ctx, value, target)
    return value.live_value()


def _refuse_other_promotion(ctx: Interpreter, op: str, target: Any, fake: Any, args: Args, kwargs: Kwargs) -> None:
    """Break if torch derives a different dtype from a numpy scalar than from the number (`torch.tensor(np.float64(1))`)."""
    arguments, named = [_python_value(arg) for arg in args], {name: _python_value(arg) for name, arg in kwargs.items()}
    try:
        other = ctx.graph.run_fake(op, target, arguments, named)
    except OperatorFailed as failure:
        _break_on(ctx, failure)
    if [_type_of(value) for value in pytree.tree_leaves(fake)] != [_type_of(value) for value in pytree.tree_leaves(other)]:
        ctx.break_graph("DX412", operator=_shown_name(target), argument="a scalar of numpy")


def _python_value(value: VariableTracker) -> Any:
    if isinstance(value, NumpyNumberVariable):
        return value.current  # its type, which is guarded, determines the dtype
    if isinstance(value, ConstantVariable):
        return value.value
    if isinstance(value, (ListVariable, TupleVariable)) and holds_numpy_number(value):
        return value.python_type()(map(_python_value, value.items))
    return value.as_proxy()


def _type_of(value: Any) -> Any:
    return (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else type(value)  # comparing sizes would guard them


def describe(ctx: Interpreter, node: torch.fx.Node) -> None:
    """Annotate a node with the instruction, line and module that created it."""
    frame = ctx.frames.innermost
    node.meta["offset"] = ctx.frames.root.current.offset
    node.meta["line"] = (frame.parsed.code.co_filename, frame.current.lineno)
    node.meta["function"] = frame.parsed.code.co_name
    running = ctx.frames.running or [frame]
    node.meta["frames"] = tuple([FrameLine.of(each.parsed.code, each.current.lineno or 0) for each in running])
    if any(each.current.handler is not None for each in running):
        node.meta["in_a_block"] = True
    if ctx.calls.module_path:
        node.meta["module_path"] = tuple(ctx.calls.module_path)


def proxy_of(ctx: Interpreter, value: VariableTracker, target: Any) -> Any:
    """A tracker as an argument of a node; breaks the graph if it cannot be one."""
    value.read_items(ctx)
    try:
        proxy = value.as_proxy()
        if not isinstance(proxy, type):
            return proxy
        if proxy in _DTYPES and not isinstance(target, types.FunctionType):
            return _DTYPES[proxy]
        raise NotProxyable(value.type_name())  # FX has no code for a class
    except TruthNotProxyable:
        ctx.break_graph("DX105", operation=f"bool(), for {_shown_name(target)}")
    except NotProxyable:
        ctx.break_graph("DX412", operator=_shown_name(target), argument=value.type_name())


def _shown_name(target: Any) -> str:
    """What an operation calls, in a report."""
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))


def is_graph_value(value: Any) -> bool:
    """Whether a value exists only in the graph: a tensor, a symbolic number, or a nested container of one."""
    if isinstance(value, (torch.Tensor, *_SYMBOLIC)):
        return True
    if isinstance(value, torch.Size):
        return any(isinstance(size, torch.SymInt) for size in value)
    if isinstance(value, (tuple, list)):
        return any(map(is_graph_value, value))
    return isinstance(value, dict) and any(map(is_graph_value, value.values()))


def wrap(ctx: Interpreter, node: torch.fx.Node, value: Any) -> VariableTracker:
    """The tracker of a node's value."""
    if isinstance(value, torch.Tensor):
        if traceable_wrapper_subclass.is_traceable_wrapper(value):
            return traceable_wrapper_subclass.result(ctx, node, value)
        return TensorVariable(node, value)
    if isinstance(value, _SYMBOLIC):
        return wrap_number(ctx, node, value)
    if isinstance(value, torch.Size):
        return SizeVariable([_item(ctx, node, index, size) for index, size in enumerate(value)])
    if isinstance(value, (tuple, list)):
        items = [_item(ctx, node, index, item) for index, item in enumerate(value)]
        if type(value) is list:
            return ListVariable(items)
        return TupleVariable(items) if type(value) is tuple else namedtuple_of(type(value), items)
    if isinstance(value, dict):
        ctx.break_graph("DX412", operator=str(node.target), argument="dict result")
    return ctx.build(value, None)


def _item(ctx: Interpreter, node: torch.fx.Node, index: int, value: Any) -> VariableTracker:
    """One item of a result with several parts; an unused part leaves no node."""
    if not is_graph_value(value):
        return ctx.build(value, None)
    item = ctx.graph.graph.create_node("call_function", operator.getitem, (node, index), {})
    item.meta["example_value"] = value
    item.meta["unpacked"] = True
    describe(ctx, item)
    if ctx.emitter is not None:
        ctx.emitter.node_added(item)
    return wrap(ctx, item, value)


SizeNodes = dict[tuple[torch.fx.Node, int], torch.fx.Node]
"""The node of each symbolic size that was used, by tensor and dimension."""


def wrap_size(ctx: Interpreter, size: torch.Size, tensor: VariableTracker, nodes: SizeNodes) -> VariableTracker:
    """The sizes of a tensor: constants, and symbolic numbers whose node is created on first use."""
    items: list[VariableTracker] = []
    for dim, entry in enumerate(size):
        if isinstance(entry, int):
            items.append(ConstantVariable(entry))
        else:
            items.append(SymbolicNumberVariable(_size_node(ctx, tensor, dim, entry, nodes), entry))
    return SizeVariable(items)


def _size_node(ctx: Interpreter, tensor: VariableTracker, dim: int, entry: Any, nodes: SizeNodes) -> torch.fx.Node:
    key = (tensor.as_proxy(), dim)
    node = nodes.get(key)
    if node is None:
        node = ctx.graph.graph.create_node("call_method", "size", (tensor.as_proxy(), dim), {})
        node.meta["example_value"] = entry
        node.meta["unpacked"] = True
        nodes[key] = node
    return node


def _break_on(ctx: Interpreter, failure: OperatorFailed) -> NoReturn:
    """Break the graph because an operator raised on fake tensors, with the matching kind."""
    kind, facts = kind_of_failure(failure)
    raise ctx.record_break(kind, facts) from failure


def kind_of_failure(failure: OperatorFailed) -> tuple[str, dict[str, object]]:
    """The kind of graph break, and its facts, for an exception of an operator on fake tensors."""
    cause = failure.cause
    name = _shown_name(failure.target)
    facts: dict[str, object] = {"operator": name}
    if isinstance(cause, InputResized):
        return "DX408", {"operation": f"{name} with an out= of another size"}
    if isinstance(cause, DynamicOutputShapeException):
        return "DX107" if has_symbolic_output_sizes(cause.func) else "DX423", facts
    if isinstance(cause, DataDependentOutputException):
        return "DX101", facts
    if isinstance(cause, UnboundSymbol) or type(cause).__name__ == "GuardOnDataDependentSymNode":
        return "DX110", facts
    if isinstance(cause, UnsupportedFakeTensorException):
        return "DX409", facts
    facts["error"] = f"{type(cause).__name__}: {cause}"
    return "DX401", facts
