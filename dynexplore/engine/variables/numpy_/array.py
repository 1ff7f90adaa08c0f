"""NumPy arrays with graph data: `x.numpy()`, an array argument, and what numpy computes from them.

The idea: in the graph an array is a tensor on the same memory, and numpy's functions are tensor operators
(graph/numpy_operators.py). Everything else about a result (type, scalar or 0-d array, dtype, strides, memory sharing, the writeable
flag, exceptions) is not emulated but obtained from numpy: each array has a **model**, a real array with the same layout and made-up
content, and each operation also runs on the models. If the fake tensor disagrees with the model, the graph breaks. So inaccuracies
of torch's numpy emulation (float32 for int32 / 2, arrays instead of scalars for sums) never reach the program.

In: live ndarrays, tensors that become arrays. Out: trackers; real arrays and scalars when they leave the frame. PyTorch's
counterpart: `NumpyNdarrayVariable` in torch/_dynamo/variables/tensor.py, without models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.numpy_operators import IN_PLACE, numpy_operator, torch_numpy
from dynexplore.engine.graph.unbacked_symints import captures_scalar_outputs
from dynexplore.engine.provenance.sources import CallSource, ObjectSource, Source
from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.numpy_.array_memory import TRACEABLE, is_traceable, tensor_on
from dynexplore.engine.variables.numpy_.array_models import difference, dtype_to_compute_in, hint, model_of, on_models, sums_halves
from dynexplore.engine.variables.numpy_.concrete_array import ConcreteArrayVariable
from dynexplore.engine.variables.operators import COMPARE, binary_rule
from dynexplore.engine.variables.rules import method, rule_for
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable, is_numpy_number
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Methods whose operators agree with numpy on all values; the functions are in array_rules.py.
METHODS = _words(
    """
    all any argmax argmin astype clip copy cumprod cumsum diagonal dot flatten max mean min prod ravel repeat
    reshape round squeeze std sum swapaxes take trace transpose var
    """
)
_LAYOUT_ATTRIBUTES = _words("ndim itemsize strides")
_OF_DATA = {
    "item": ("DX101", "ndarray.item()"), "tolist": ("DX102", "ndarray.tolist()"), "tobytes": ("DX102", "ndarray.tobytes()"),
    "__float__": ("DX101", "float() of an array"), "__int__": ("DX101", "int() of an array"),
    "__index__": ("DX101", "operator.index() of an array"),
}
"""Methods that need data: the kind of break, and the operation in its report."""

_NUMBER_OF = {
    "item": (None, "item() of a numpy number"), "__float__": (float, "float() of a numpy number"),
    "__int__": (int, "int() of a numpy number"),
}  # fmt: skip
"""Methods that return a single element as a number: the class to which it is converted, if any, and the operation in a report."""


class ArrayVariable(VariableTracker):
    """An array that is a tensor in the graph; `model` is the real array that predicts numpy's results."""

    kind = "array"
    mutable = True

    def __init__(self, tensor: TensorVariable, model: Any, source: Source | None = None, real: Any = None) -> None:
        self.tensor, self.model, self.source, self.real = tensor, model, source, real

    def python_type(self) -> type[Any]:
        return type(self.model)

    def live_value(self) -> Any:
        return self.real if self.real is not None else super().live_value()

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        ctx.break_graph("DX105", operation="bool()")

    def length(self, ctx: TraceContext) -> VariableTracker:
        if not self.model.ndim:
            ctx.raise_exception(TypeError, "len() of unsized object")
        return self.tensor.size(ctx, 0)

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        if not self.model.ndim:
            ctx.raise_exception(TypeError, "iteration over a 0-d array")
        return [self.get_item(ctx, ConstantVariable(index)) for index in range(int(self.tensor.fake.shape[0]))]

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return ctx.values.iterator_over(self.unpack(ctx))

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "shape":
            return TupleVariable(self.tensor.get_attribute(ctx, "shape").unpack(ctx))
        if name == "size":
            return self.tensor.call_method(ctx, "numel", (), {})
        if name == "dtype":
            return DtypeVariable(self.model.dtype)
        if name in _LAYOUT_ATTRIBUTES and all(isinstance(size, int) for size in self.tensor.fake.shape):
            value = getattr(self.model, name)
            return TupleVariable(map(ConstantVariable, value)) if isinstance(value, tuple) else ConstantVariable(value)
        if name == "T":
            return traced(ctx, "T", lambda array: array.T, [self], {})
        if name in METHODS or name in _OF_DATA or name in ("__abs__", "fill"):
            return ConstantMethodVariable(self, name)
        return super().get_attribute(ctx, name)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        key = _checked_key(ctx, key)
        return traced(ctx, "getitem", lambda array, index: array[index], [self, key], {})

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        key = _checked_key(ctx, key, value)
        traced(ctx, "setitem", _set_item, [self, key, value], {})

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in _NUMBER_OF and not args and not kwargs and not self.model.ndim and self.model.dtype.kind in "fi":
            return self._number(ctx, name)
        if name in _OF_DATA:
            kind, operation = _OF_DATA[name]
            ctx.break_graph(kind, operation=operation)
        if name == "fill" and len(args) == 1 and not self.is_scalar():
            self.set_item(ctx, ConstantVariable(Ellipsis), args[0])
            return ConstantVariable(None)
        if name == "__abs__" and not args:
            return traced(ctx, "absolute", abs, [self], {})
        if name not in METHODS or not kwargs.keys().isdisjoint(("out", "where", "casting", "order", "kind")):
            ctx.break_graph("DX207", function=f"ndarray.{name}")
        return traced(ctx, f"ndarray.{name}", getattr(type(self.model), name), [self, *args], kwargs)

    def _number(self, ctx: TraceContext, name: str) -> VariableTracker:
        """The element as a Python number: a graph break, or a symbol if these are captured."""
        cls, operation = _NUMBER_OF[name]
        if not captures_scalar_outputs():
            ctx.break_graph("DX101", operation=operation)
        number = self.tensor.call_method(ctx, "item", (), {})
        row = rule_for(cls)
        return number if row is None else row.call(ctx, cls, [number], {})

    def reconstruct(self, build: Reconstruction) -> None:
        if not self.model.flags.writeable:
            raise NotImplementedError("a read-only array")
        build.call_helper(array_on, lambda: build.push_output(self.tensor.node))

    def text(self) -> str:
        return f"{self.model.dtype}{list(self.tensor.fake.shape)} {'scalar' if self.is_scalar() else 'array'}"

    def is_scalar(self) -> bool:
        """Whether it is a numpy scalar, not an array."""
        return is_numpy_number(self.model)


class ScalarVariable(ArrayVariable):
    """A numpy scalar (`np.float32`), which has an array's methods and is immutable."""

    kind = "number"
    mutable = False

    def length(self, ctx: TraceContext) -> VariableTracker:
        ctx.raise_exception(TypeError, f"object of type {type(self.model).__name__!r} has no len()")

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        ctx.raise_exception(TypeError, f"{name_in_messages(type(self.model))!r} object is not iterable")

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        ctx.raise_exception(TypeError, f"{name_in_messages(type(self.model))!r} object does not support item assignment")

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_helper(scalar_of, lambda: build.push_output(self.tensor.node))


class DtypeVariable(ConstantVariable):
    """An array's dtype, which equals the types and names that numpy accepts as that dtype."""

    def as_proxy(self) -> Any:
        raise NotProxyable("dtype")  # FX cannot generate code for it


@binary_rule(DtypeVariable, VariableTracker, "==", "!=", rank=9)
@binary_rule(VariableTracker, DtypeVariable, "==", "!=", rank=9)
def _same_dtype(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    try:
        return ConstantVariable(COMPARE[symbol](_model(ctx, lhs), _model(ctx, rhs)))
    except NotConstant:
        ctx.break_graph("DX305", operator=symbol, left=lhs.type_name(), right=rhs.type_name())


def array_on(tensor: torch.Tensor) -> Any:
    """A numpy array that shares a tensor's memory."""
    return tensor.numpy()


def scalar_of(tensor: torch.Tensor) -> Any:
    """A tensor's number as a numpy scalar."""
    return tensor.numpy()[()]


def _set_item(array: Any, key: Any, value: Any) -> Any:
    array[key] = value
    return array


def _checked_key(ctx: TraceContext, key: VariableTracker, value: VariableTracker | None = None) -> VariableTracker:
    """The subscript, with numpy integers converted to Python's; breaks the graph for arrays that numpy and torch interpret
    differently.

    Torch treats bytes as a mask, and does not define which of several writes to one element wins.
    """
    if key.python_type() is tuple:
        return TupleVariable([_checked_key(ctx, part.read(ctx), value) for part in key.unpack(ctx)])
    if isinstance(key, SliceVariable):
        return key
    if key.is_constant():
        constant = key.as_constant()
        return ConstantVariable(constant.item()) if is_numpy_number(constant) and constant.dtype.kind in "iu" else key
    kind = key.model.dtype.name if type(key) is ArrayVariable else ""
    if value is None and kind == "bool":
        ctx.break_graph("DX107", operator="a mask as subscript")
    if not (kind in ("int64", "int32") if value is None else kind == "bool" and value.is_constant()):
        ctx.break_graph("DX207", function="subscript of an array")
    return key


# -- running an operation, on models and in the graph ------------------------------------------------------------------


def holds_array(value: VariableTracker) -> bool:
    """Whether a value is a graph array, or a list or tuple that contains one."""
    if isinstance(value, ArrayVariable):
        return True
    return isinstance(value, (ListVariable, TupleVariable)) and any(map(holds_array, value.items))


def traced(
    ctx: TraceContext, name: str, function: Callable[..., Any], args: Args,
    kwargs: Kwargs,
) -> VariableTracker:
    """Add one numpy function to the graph; `function` is numpy's own, for the models."""
    args = [arg.read(ctx) for arg in args]
    kwargs = {key: arg.read(ctx) for key, arg in kwargs.items()}
    try:
        models, named = [_model(ctx, arg) for arg in args], {key: _model(ctx, arg) for key, arg in kwargs.items()}
        inputs, named_inputs = [_in_graph(ctx, arg) for arg in args], {key: _in_graph(ctx, arg) for key, arg in kwargs.items()}
    except NotConstant:
        ctx.break_graph("DX207", function=name)
    operands = [array for value in (*args, *kwargs.values()) for array in _arrays_in(value)]
    expected = on_models(ctx, name, function, models, named)
    aliased_operand = next((operand for operand in operands if operand.model is expected and not _is_shared(expected)), None)
    if aliased_operand is not None and name != "setitem" and name not in IN_PLACE:
        return aliased_operand
    operand_models = [operand.model for operand in operands]
    if sums_halves(name, operand_models):
        ctx.break_graph("DX207", function=f"{name} of float16")
    dtype = dtype_to_compute_in(name, expected, operand_models)
    if dtype is not None and "dtype" not in kwargs:
        named_inputs["dtype"] = ConstantVariable(dtype)
    copied = name == "getitem" and is_numpy_number(expected)
    result = ctx.operation("call_function", numpy_operator(name, copied=copied), inputs, named_inputs)
    if aliased_operand is not None:
        return aliased_operand
    return _checked(ctx, name, result, expected, operands)


def _is_shared(model: Any) -> bool:
    """Whether a model is a numpy singleton (`np.True_`, `np.False_`), whose identity implies no aliasing."""
    numpy: Any = sys.modules["numpy"]
    return type(model) is numpy.bool_


def _arrays_in(value: VariableTracker) -> list[ArrayVariable]:
    if isinstance(value, ArrayVariable):
        return [value]
    if isinstance(value, (ListVariable, TupleVariable)):
        return [array for item in value.items for array in _arrays_in(item)]
    return []


def _model(ctx: TraceContext, value: VariableTracker) -> Any:
    if isinstance(value, ArrayVariable):
        return value.model
    if isinstance(value, ConcreteArrayVariable):
        return value.value
    if value.is_constant():
        return value.as_constant()
    if isinstance(value, SymbolicNumberVariable):
        return hint(value.value)
    if isinstance(value, SliceVariable):
        return value.concrete(ctx)
    if isinstance(value, (ListVariable, TupleVariable)):
        return value.python_type()(_model(ctx, item.read(ctx)) for item in value.items)
    live = getattr(value, "function", None) or getattr(value, "value", None)  # `dtype=np.float32`, `dtype=int`
    if isinstance(live, type):
        return live
    raise NotConstant(value)


def _in_graph(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """A value in the form in which a node takes it as an argument."""
    numpy: Any = sys.modules["numpy"]
    if isinstance(value, ArrayVariable):
        return value.tensor
    if isinstance(value, ConcreteArrayVariable):
        return _constant(ctx, value.value)
    if isinstance(value, (SliceVariable, SymbolicNumberVariable)):
        return value
    if isinstance(value, (ListVariable, TupleVariable)):
        items = [_in_graph(ctx, item.read(ctx)) for item in value.items]
        return ListVariable(items) if isinstance(value, ListVariable) else TupleVariable(items)  # not user-defined
    constant = value.as_constant() if value.is_constant() else _model(ctx, value)
    if isinstance(constant, (type, numpy.dtype)):
        return ConstantVariable(numpy.dtype(constant).name)
    if is_numpy_number(constant):
        return _constant(ctx, numpy.asarray(constant))
    return value


def _constant(ctx: TraceContext, array: Any) -> VariableTracker:
    if not is_traceable(copy := array.copy(order="K")):
        ctx.break_graph("DX207", function=f"an array of {array.dtype}")
    return ctx.values.constant_tensor(torch.from_numpy(copy))


def _checked(
    ctx: TraceContext, name: str, result: VariableTracker, expected: Any, operands: Sequence[ArrayVariable]
) -> VariableTracker:
    """The tracker of a result that agrees with numpy in type, dtype, shape, layout and aliasing; else a graph break."""
    if isinstance(expected, (tuple, list)) and isinstance(result, (TupleVariable, ListVariable)):
        if len(expected) != len(result.items):
            ctx.break_graph("DX207", function=name)
        items = [_checked(ctx, name, *pair, operands) for pair in zip(result.items, expected, strict=True)]
        return ListVariable(items) if type(expected) is list else TupleVariable(items)
    numpy: Any = sys.modules["numpy"]
    if not isinstance(result, TensorVariable) or not (type(expected) is numpy.ndarray or is_numpy_number(expected)):
        ctx.break_graph("DX207", function=name)
    if (unlike := difference(result.fake, expected)) is not None:
        ctx.break_graph("DX207", function=f"{name} ({unlike})")
    for operand in operands:
        shared = storage_of(result.fake) == storage_of(operand.tensor.fake)
        numpy_shares = type(expected) is numpy.ndarray and numpy.may_share_memory(expected, operand.model)
        if numpy_shares and not shared:
            ctx.break_graph("DX207", function=f"{name} (a view of an array)")
        if shared and not numpy_shares:
            cloned = ctx.operation("call_method", "clone", [result], {})
            assert isinstance(cloned, TensorVariable)
            result = cloned
    return wrap_array(result, expected)


def wrap_array(tensor: TensorVariable, model: Any, source: Source | None = None, real: Any = None) -> ArrayVariable:
    """The tracker of an array, or of a scalar, by its model."""
    cls = ScalarVariable if is_numpy_number(model) else ArrayVariable
    return cls(tensor, model, source, real)


def enter_graph(ctx: TraceContext, array: ConcreteArrayVariable) -> ArrayVariable:
    """Move an array of constants into the graph, because it is written to or shares its memory with a tensor."""
    if array.is_view or array.is_viewed:
        ctx.break_graph("DX207", function="writing to an array that has views")
    tensor = ctx.operation("call_method", "clone", [_constant(ctx, array.value)], {})
    _guard_error_handling(ctx)
    model = array.value.copy(order="K")
    array.__class__ = ArrayVariable  # type: ignore[assignment]  # so that every reference to the tracker sees the change
    assert isinstance(tensor, TensorVariable)
    assert isinstance(array, ArrayVariable)
    array.tensor, array.model, array.source, array.real = tensor, model, None, None
    return array


@method(ConcreteArrayVariable, "__setitem__")
def _write_concrete(ctx: TraceContext, array: ConcreteArrayVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    enter_graph(ctx, array).set_item(ctx, *args)
    return array


@method(ConcreteArrayVariable, "fill")
def _fill_concrete(ctx: TraceContext, array: ConcreteArrayVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    return enter_graph(ctx, array).call_method(ctx, "fill", args, kwargs)


# -- where arrays come from --------------------------------------------------------------------------------------------


@builds_when(is_traceable, rank=40)
def build_array(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A live array becomes a graph input: a tensor on its memory, guarded as a tensor."""
    if source is None:
        return ConcreteArrayVariable(value, is_view=True)
    ctx.guard(source, "TYPE_MATCH", type(value))
    _guard_error_handling(ctx)
    tensor = ctx.build(tensor_on(value), CallSource(source, tensor_on, "torch.from_numpy"))
    assert isinstance(tensor, TensorVariable)
    inputs = (graph_input.source for graph_input in ctx.graph.inputs)
    arrays = [origin.base for origin in inputs if isinstance(origin, CallSource) and origin.function is tensor_on]
    others = [base for base in arrays if base is not source]
    if others:
        ctx.guard(source, "DISTINCT", others)
    return ArrayVariable(tensor, model_of(value), source, value)


def array_from(ctx: TraceContext, tensor: TensorVariable, operation: str) -> ArrayVariable:
    """`tensor.numpy()`: an array that shares the tensor's memory."""
    fake = tensor.fake
    name = str(fake.dtype).removeprefix("torch.")
    if fake.device.type != "cpu" or fake.requires_grad or fake.is_conj() or fake.is_neg() or name not in TRACEABLE:
        ctx.break_graph("DX417", operation=operation)
    torch_numpy()
    _guard_error_handling(ctx)
    shape, strides = [hint(size) for size in fake.shape], [hint(stride) for stride in fake.stride()]
    example = torch.empty_strided(shape, strides, dtype=fake.dtype)
    detached = ctx.operation("call_method", "detach", [tensor], {})
    assert isinstance(detached, TensorVariable)
    return ArrayVariable(detached, model_of(example.numpy()))


def _guard_error_handling(ctx: TraceContext) -> None:
    """Guard numpy's floating-point error handling (np.seterr): as long as it only warns, a graph may compute instead."""
    numpy: Any = sys.modules["numpy"]
    if not errors_only_warn(numpy):
        ctx.break_graph("DX207", function="arithmetic that raises (np.seterr)")
    ctx.guard(_errors_source(), "EQUALS", True)


def errors_only_warn(numpy: Any) -> bool:
    """Whether no floating-point error raises, prints or calls a function."""
    actions = numpy.geterr()
    return actions == _DEFAULT_ACTIONS or all(action in ("warn", "ignore") for action in actions.values())


_DEFAULT_ACTIONS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


_sources: list[Source] = []


def _errors_source() -> Source:
    if not _sources:
        _sources.append(CallSource(ObjectSource(sys.modules["numpy"], "numpy"), errors_only_warn, "errors_only_warn"))
    return _sources[0]
