"""NumPy arrays with constant content, created in the frame: `np.zeros((4, 2))`, `np.arange(8) // 2`.

The idea: such an array is known at trace time like the numbers it was computed from, so numpy itself computes it, and
`torch.tensor(array)` is a constant of the graph. These arrays are never mutated: one that is written to becomes a graph array
(array.py), if it has no views. Aliasing between views is therefore irrelevant as long as no view leaves the frame. Functions that
draw random numbers, read files or write to their arguments break the graph.

In: calls of numpy's functions, and of torch functions that take arrays. Out: constants, arrays. PyTorch's counterpart:
`NumpyNdarrayVariable` in torch/_dynamo/variables/tensor.py, which puts torch's numpy emulation into the graph instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary_rule, unary_rule
from dynexplore.engine.variables.rules import METHODS
from dynexplore.engine.variables.scalars.constant import (
    ComputedNumberVariable,
    ConstantMethodVariable,
    ConstantVariable,
    is_constant_value,
    is_numpy_number,
    run_now,
)

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions that depend on nothing but their arguments and do not mutate them.
_FUNCTIONS = _words(
    """
    abs absolute add all allclose amax amin any arange arccos arcsin arctan arctan2 argmax argmin argsort around array
    array_equal atleast_1d atleast_2d broadcast_to ceil clip column_stack concatenate cos cosh cross cumprod cumsum
    deg2rad degrees diag diff divide dot dstack empty empty_like equal exp exp2 expand_dims expm1 eye flatnonzero flip
    float_power floor floor_divide fmod full full_like geomspace greater greater_equal hstack hypot identity inner
    isclose isfinite isinf isnan kron less less_equal linspace log log10 log1p log2 logical_and logical_not logical_or
    logical_xor logspace matmul max maximum mean median meshgrid min minimum mod moveaxis multiply nanmax nanmean nanmin
    negative nonzero norm not_equal ones ones_like outer pad percentile power prod ptp rad2deg radians ravel reciprocal
    remainder repeat reshape roll rot90 round searchsorted sign sin sinc sinh sort split sqrt square squeeze stack std
    subtract sum swapaxes take tan tanh tensordot tile trace transpose tri tril triu true_divide trunc unique vstack var
    where zeros zeros_like bool_ int8 int16 int32 int64 uint8 float16 float32 float64
    """
)
_METHODS = _words(
    """
    all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot flatten item max mean min nonzero prod ravel repeat
    reshape round searchsorted squeeze std sum swapaxes take tolist trace transpose var
    """
)
_ATTRIBUTES = _words("shape ndim size T itemsize nbytes real imag")


class ConcreteArrayVariable(VariableTracker):
    """An array with known content; `is_view`: whether it may share memory with another array."""

    kind = "array"
    mutable = True

    def __init__(self, value: Any, is_view: bool) -> None:
        self.value, self.is_view = value, is_view
        self.is_viewed = False  # whether another array may share its memory

    def python_type(self) -> type[Any]:
        return type(self.value)

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(run_now(ctx, bool, self.value))

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(run_now(ctx, len, self.value))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return ctx.values.iterator_over(self.unpack(ctx))

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [_wrap(ctx, item, (self,)) for item in run_now(ctx, list, self.value)]

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        return _compute(ctx, "subscript of an array", lambda value, index: value[index], (self, key), {})

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        METHODS[ConcreteArrayVariable, "__setitem__"](ctx, self, (key, value), {})

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _ATTRIBUTES:
            return _wrap(ctx, getattr(self.value, name), (self,))
        return ConstantMethodVariable(self, name) if name in _METHODS or name == "fill" else super().get_attribute(ctx, name)

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if (row := METHODS.get((ConcreteArrayVariable, name))) is not None:
            return row(ctx, self, args, kwargs)
        if name not in _METHODS or "out" in kwargs:
            ctx.break_graph("DX207", function=f"ndarray.{name}")
        return _compute(ctx, f"ndarray.{name}", getattr(type(self.value), name), (self, *args), kwargs)

    def reconstruct(self, build: Reconstruction) -> None:
        if self.is_view:
            raise NotImplementedError("a view of another array")
        build.call_helper(copy_array, lambda: build.push_object(self.value))

    def text(self) -> str:
        return f"{self.value.dtype}{list(self.value.shape)} array"


def copy_array(value: Any) -> Any:
    """A new, writeable array with the same content."""
    return value.copy(order="K")


def call_on_constants(
    ctx: TraceContext, function: Callable[..., Any], name: str, args: Args,
    kwargs: Kwargs,
) -> VariableTracker:
    """Call numpy on known values, with a known result; anything else breaks the graph."""
    inputs = getattr(function, "nin", None)
    if getattr(function, "__name__", "") not in _FUNCTIONS or "out" in kwargs or (inputs is not None and len(args) > inputs):
        ctx.break_graph("DX207", function=name)
    return _compute(ctx, name, function, args, kwargs)


def _compute(
    ctx: TraceContext, name: str, function: Callable[..., Any], args: Args,
    kwargs: Kwargs,
) -> VariableTracker:
    try:
        values = [constant_nest(arg.read(ctx), ctx) for arg in args]
        named = {key: constant_nest(arg.read(ctx), ctx) for key, arg in kwargs.items()}
    except NotConstant:
        ctx.break_graph("DX207", function=name)
    return _wrap(ctx, run_now(ctx, function, *values, **named), (*args, *kwargs.values()), name)


def constant_nest(value: VariableTracker, ctx: TraceContext) -> Any:
    """A constant, a known array, or a list, tuple or slice of these. Raises NotConstant."""
    if isinstance(value, ConcreteArrayVariable):
        return value.value
    if value.is_constant():
        return value.as_constant()
    if isinstance(value, SliceVariable):
        return value.concrete(ctx)
    if value.python_type() in (list, tuple):
        return value.python_type()(constant_nest(item.read(ctx), ctx) for item in value.unpack(ctx))
    live = getattr(value, "function", None) or getattr(value, "value", None)  # `dtype=np.float32`, `dtype=int`
    if isinstance(live, type):
        return live
    raise NotConstant(value)


def _wrap(ctx: TraceContext, result: Any, operands: Sequence[VariableTracker], name: str = "ndarray") -> VariableTracker:
    """The tracker of a result of numpy."""
    if is_constant_value(result):
        return ComputedNumberVariable(result) if is_numpy_number(result) else ConstantVariable(result)
    if isinstance(result, (tuple, list)):
        items = [_wrap(ctx, item, operands, name) for item in result]
        return ListVariable(items) if type(result) is list else TupleVariable(items)
    numpy: Any = sys.modules["numpy"]
    if type(result) is not numpy.ndarray or result.dtype.hasobject:
        ctx.break_graph("DX207", function=name)
    sources = [value for value in operands if isinstance(value, ConcreteArrayVariable)]
    same = next((value for value in sources if value.value is result), None)
    if same is not None:
        return same
    viewed = [value for value in sources if result.base is not None and numpy.may_share_memory(result, value.value)]
    is_view = bool(viewed)
    for value in viewed:
        value.is_viewed = True
    result.flags.writeable = False
    return ConcreteArrayVariable(result, is_view)


def tensor_of(ctx: TraceContext, data: ConcreteArrayVariable, kwargs: Kwargs) -> VariableTracker:
    """torch.tensor(array) clones a constant of the graph."""
    if not set(kwargs) <= {"dtype", "device"}:
        ctx.break_graph("DX207", function="torch.tensor")
    constant = ctx.values.constant_tensor(run_now(ctx, torch.tensor, data.value))
    return ctx.operation("call_method", "to", [constant], {**kwargs, "copy": ConstantVariable(True)})


def _binary(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    if symbol.endswith("=") and symbol not in COMPARE:
        ctx.break_graph("DX207", function=f"ndarray {symbol}")
    return _compute(ctx, f"ndarray {symbol}", (BINARY | COMPARE)[symbol], (lhs, rhs), {})


_SYMBOLS = (*BINARY, *COMPARE)
for _other in (ConcreteArrayVariable, ConstantVariable, ListVariable, TupleVariable):
    binary_rule(ConcreteArrayVariable, _other, *_SYMBOLS, rank=40)(_binary)
    binary_rule(_other, ConcreteArrayVariable, *(symbol for symbol in _SYMBOLS if not symbol.endswith("=") or symbol in COMPARE),
                rank=40)(_binary)


@unary_rule(ConcreteArrayVariable, *(symbol for symbol in UNARY if symbol != "not"), rank=40)
def _unary(ctx: TraceContext, symbol: str, operand: VariableTracker) -> VariableTracker:
    return _compute(ctx, f"{symbol} of an array", UNARY[symbol], (operand,), {})
