"""Rules for arrays: numpy's functions and operators, and torch functions that take or return arrays.

The idea: a table of numpy functions whose tensor operators agree with numpy on all values. If numpy raises depending on a value (an
integer to a negative power, an integer divided by zero), only operations known not to raise are traced. An expression with a tensor
and an array yields what torch and numpy negotiate, which models of both determine.

In: calls and operators with arrays. Out: nodes of the graph, through array.py. PyTorch's counterpart: `NumpyVariable` in
torch/_dynamo/variables/misc.py, and torch/_numpy/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.numpy_operators import IN_PLACE, wrapped_from_numpy, wrapped_mixed, wrapped_mixed_scalar
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.numpy_.array import (
    ArrayVariable,
    ScalarVariable,
    array_from,
    enter_graph,
    holds_array,
    traced,
)
from dynexplore.engine.variables.numpy_.array_memory import TRACEABLE
from dynexplore.engine.variables.numpy_.array_models import hint, on_models
from dynexplore.engine.variables.numpy_.concrete_array import ConcreteArrayVariable, call_on_constants
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary_rule, unary_rule
from dynexplore.engine.variables.rules import Handler, method, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_numpy_number, is_numpy_type, run_now
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.symint_constructors import lower_constructor_of_symints
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words(
    """
    abs absolute add all amax amin any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin around array
    array_split asarray atleast_1d atleast_2d atleast_3d bitwise_and bitwise_or bitwise_xor broadcast_to ceil clip column_stack
    concatenate copy cos cosh count_nonzero cumprod cumsum deg2rad degrees diag diagonal diff divide dot dstack einsum
    empty_like equal exp exp2 expand_dims expm1 fabs flip fliplr flipud float_power floor floor_divide fmax fmin full_like
    greater greater_equal hstack hypot inner isclose isfinite isinf isnan kron less less_equal linalg.norm log log10 log1p
    log2 logical_and logical_not logical_or logical_xor matmul max maximum mean min minimum mod moveaxis multiply negative
    not_equal ones_like outer positive power prod rad2deg radians ravel reciprocal remainder repeat reshape rint roll rot90
    round sign signbit sin sinh sort split sqrt square squeeze stack std subtract sum swapaxes take tan tanh tensordot tile
    trace transpose tril triu true_divide trunc var vstack where zeros_like
    """
)
_ABOUT_ARRAYS = _words("ndim shape size")  # functions that are handled like attributes
_UFUNC_OF = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder", "**": "power",
    "@": "matmul", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
    "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal", ">": "greater", ">=": "greater_equal",
    "neg": "negative", "pos": "positive", "invert": "invert",
}
_DIVISIONS = _words("floor_divide remainder mod ifloordiv imod")
_POWERS = _words("power ipow")


def call_numpy(
    ctx: TraceContext, function: Callable[..., Any], name: str, args: Args,
    kwargs: Kwargs,
) -> VariableTracker:
    """Call numpy: traced for graph arrays, constant-folded for known arrays and numbers; anything else breaks the graph."""
    args = [arg.read(ctx) for arg in args]
    for arg in args:
        arg.read_items(ctx)
    plain = getattr(function, "__name__", "")
    if plain in ("asarray", "array") and len(args) == 1 and isinstance(args[0], TensorVariable) and not kwargs:
        args = [array_from(ctx, args[0], f"np.{plain}()")]
    if not any(map(holds_array, (*args, *kwargs.values()))):
        return call_on_constants(ctx, function, name, args, kwargs)
    if plain in _ABOUT_ARRAYS and len(args) == 1 and not kwargs:
        return args[0].get_attribute(ctx, plain)
    unary_inputs = getattr(function, "nin", None)
    candidates = (candidate for candidate in (plain, f"linalg.{plain}") if candidate in FUNCTIONS)
    plain = next((candidate for candidate in candidates if _named(candidate) is function), "")
    if not plain or not kwargs.keys().isdisjoint(_UNUSUAL) \
            or (unary_inputs is not None and len(args) > unary_inputs):
        ctx.break_graph("DX207", function=name)
    _refuse_data_dependent_errors(ctx, plain, args)
    return traced(ctx, plain, function, args, kwargs)


def _named(name: str) -> Any:
    owner: Any = sys.modules["numpy"]
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


_UNUSUAL = _words("out where casting order subok signature kind like initial correction device mode")


def _refuse_data_dependent_errors(ctx: TraceContext, name: str, operands: Sequence[VariableTracker]) -> None:
    """Break the graph at integer division by a possible zero, and at powers that may be negative."""
    if name not in _DIVISIONS and name not in _POWERS:
        return
    if any(not _is_whole(operand) for operand in operands):
        return
    second = operands[1].as_constant() if len(operands) > 1 and operands[1].is_constant() else 0
    if second == 0 and (name in _DIVISIONS or not operands[-1].is_constant()):
        ctx.break_graph("DX207", function=f"{name} of whole numbers")


def _is_whole(value: VariableTracker) -> bool:
    model = getattr(value, "model", None)
    if model is None:
        model = value.value if isinstance(value, ConcreteArrayVariable) else None
    if model is not None:
        return bool(model.dtype.kind in "biu")
    constant: Any = value.as_constant() if value.is_constant() else None
    return isinstance(constant, int) or (is_numpy_number(constant) and constant.dtype.kind in "biu")


def _number_type(scalar: Any) -> Handler:
    """`np.float32(value)`: a constant for a constant; an array of that dtype for an array."""

    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) == 1 and not kwargs and isinstance(array := args[0].read(ctx), ArrayVariable):
            name = ConstantVariable(scalar.__name__.rstrip("_"))
            return traced(ctx, "ndarray.astype", lambda array, dtype: scalar(array), [array, name], {})
        return call_on_constants(ctx, scalar, f"np.{scalar.__name__}", args, kwargs)

    return handler


if (_numpy_module := sys.modules.get("numpy")) is not None:  # torch loads it where it is installed
    for _name in TRACEABLE:
        rule(_scalar := getattr(_numpy_module, _name))(_number_type(_scalar))


# -- operators ---------------------------------------------------------------------------------------------------------


def _binary(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    function = BINARY.get(symbol) or COMPARE[symbol]
    name = _UFUNC_OF.get(symbol)
    if symbol in BINARY and symbol.endswith("="):
        name = function.__name__ if type(lhs) is ArrayVariable else _UFUNC_OF.get(symbol[:-1])
        if name in _UFUNC_OF.values():
            function = BINARY[symbol[:-1]]
        elif name not in IN_PLACE:
            name = None
    if name is None:
        ctx.break_graph("DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    _refuse_data_dependent_errors(ctx, name, (lhs, rhs))
    if name in _POWERS and isinstance(lhs, ScalarVariable) and not (rhs.is_constant() and rhs.as_constant() == 2):
        ctx.break_graph("DX207", function="power of a scalar")  # which numpy computes differently from that of an array
    return traced(ctx, name, function, [lhs, rhs], {})


@binary_rule(ConcreteArrayVariable, VariableTracker, *(symbol for symbol in BINARY if symbol.endswith("=")), rank=8)
def _written(ctx: TraceContext, symbol: str, lhs: ConcreteArrayVariable, rhs: VariableTracker) -> VariableTracker:
    return _binary(ctx, symbol, enter_graph(ctx, lhs), rhs)


for _other in (ArrayVariable, ConstantVariable, ConcreteArrayVariable, ListVariable, TupleVariable, SymbolicNumberVariable):
    binary_rule(ArrayVariable, _other, rank=9)(_binary)
    binary_rule(_other, ArrayVariable, rank=9)(_binary)


@unary_rule(ArrayVariable, *(symbol for symbol in UNARY if symbol != "not"), rank=9)
def _unary(ctx: TraceContext, symbol: str, operand: ArrayVariable) -> VariableTracker:
    return traced(ctx, _UFUNC_OF[symbol], UNARY[symbol], [operand], {})


@binary_rule(TensorVariable, ArrayVariable, rank=8)
@binary_rule(ArrayVariable, TensorVariable, rank=8)
def _mixed(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """A tensor and an array: numpy computes, and torch converts the result to a tensor, if models of both agree on it."""
    function = BINARY.get(symbol) or COMPARE[symbol]
    name = _UFUNC_OF.get(symbol)
    if name is None or name in _DIVISIONS or name in _POWERS:
        ctx.break_graph("DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    expected = on_models(ctx, symbol, function, [_mixed_model(lhs), _mixed_model(rhs)], {}, quiet=DeprecationWarning)
    inputs = [value.tensor if isinstance(value, ArrayVariable) else value for value in (lhs, rhs)]
    written = [ConstantVariable(function.__name__), *inputs, ConstantVariable(int(isinstance(rhs, ArrayVariable)))]
    scalar = isinstance(lhs, ScalarVariable) or isinstance(rhs, ScalarVariable)
    result = ctx.operation("call_function", wrapped_mixed_scalar if scalar else wrapped_mixed, written, {})
    if type(expected) is not torch.Tensor or not isinstance(result, TensorVariable) or expected.dtype != result.fake.dtype \
            or expected.dim() != result.fake.dim() or expected.requires_grad != result.fake.requires_grad:
        ctx.break_graph("DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    return result


def _mixed_model(value: VariableTracker) -> Any:
    if isinstance(value, ArrayVariable):
        return value.model
    assert isinstance(value, TensorVariable)
    return torch.ones([hint(size) for size in value.fake.shape], dtype=value.fake.dtype, requires_grad=value.fake.requires_grad)


# -- between torch and numpy -------------------------------------------------------------------------------------------


@method(torch.Tensor, "numpy", "__array__")
def _numpy(ctx: TraceContext, tensor: TensorVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if args or kwargs:
        ctx.break_graph("DX417", operation="Tensor.numpy()")
    return array_from(ctx, tensor, "Tensor.numpy()")


@rule(torch.from_numpy)
def _from_numpy(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A tensor that shares the array's memory."""
    if kwargs or len(args) != 1:
        ctx.break_graph("DX201", function="torch.from_numpy")
    array = args[0].read(ctx)
    if isinstance(array, ConcreteArrayVariable):
        array = enter_graph(ctx, array)
    if type(array) is not ArrayVariable or not array.model.flags.writeable:
        ctx.break_graph("DX207", function="torch.from_numpy")
    return ctx.operation("call_function", wrapped_from_numpy, [array.tensor], {})


def _conversion(function: Callable[..., Any]) -> Handler:
    """A tensor that shares the array's memory, unless the dtype must change; other data are converted as usual."""

    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        tensor = _tensor_of(ctx, torch.as_tensor, args, kwargs)
        if tensor is None and len(args) == 1 and kwargs.keys() <= {"dtype", "device"}:
            tensor = lower_constructor_of_symints(ctx, args[0], with_numpys_dtype(ctx, args, kwargs))
        return tensor or ctx.operation("call_function", function, args, with_numpys_dtype(ctx, args, kwargs))

    return handler


for _function in (torch.as_tensor, torch.asarray):
    rule(_function)(_conversion(_function))


def with_numpys_dtype(ctx: TraceContext, args: Args, kwargs: Kwargs) -> Mapping[str, VariableTracker]:
    """The keyword arguments of a call that makes a tensor from data: a numpy scalar keeps its dtype, while a number gets torch's
    default.

    This also holds inside lists, even next to tensors; torch is called with a list of such types to determine the dtype.
    """
    data = args[0] if len(args) == 1 else None
    if "dtype" in kwargs or data is None or not holds_numpy_number(data):
        return kwargs
    if isinstance(data, ConstantVariable) and data.kind != "number of numpy":
        return {**kwargs, "dtype": ConstantVariable(run_now(ctx, torch.tensor, data.value).dtype)}
    try:
        dtype = torch.tensor(_model_of(data)).dtype
    except (TypeError, ValueError, RuntimeError):  # the call itself reports which part is rejected first
        return kwargs
    return {**kwargs, "dtype": ConstantVariable(dtype)}


def holds_numpy_number(value: VariableTracker) -> bool:
    """Whether an argument is a numpy scalar, or a list or tuple with one: the node gets the Python number instead."""
    if isinstance(value, ConstantVariable):
        return is_numpy_type(value.python_type())  # decided by the type alone, since reading a dynamic number would guard it
    return isinstance(value, (ListVariable, TupleVariable)) and any(map(holds_numpy_number, value.items))


def _model_of(data: VariableTracker) -> Any:
    """Data of the same types in which each number is one, and anything but numbers and tensors is None."""
    if isinstance(data, (ListVariable, TupleVariable)):
        return [_model_of(item) for item in data.items]
    if isinstance(data, TensorVariable):
        return torch.ones((), dtype=data.fake.dtype, device="cpu")
    cls = data.python_type()
    return cls(1) if cls in (bool, int, float, complex) or is_numpy_type(cls) else None


def tensor_of_array(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """`torch.tensor(array)`: a contiguous copy; None if the data contain no array."""
    return _tensor_of(ctx, torch.tensor, args, kwargs)


_NO_DEVICE = ConstantVariable(None)


def _tensor_of(ctx: TraceContext, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker | None:
    array = args[0].read(ctx) if len(args) == 1 else None
    if function is torch.as_tensor and isinstance(array, ConcreteArrayVariable):
        array = enter_graph(ctx, array)
    if not isinstance(array, ArrayVariable):
        return None
    if not kwargs.keys() <= {"dtype", "device"} or not all(value.is_constant() for value in kwargs.values()):
        ctx.break_graph("DX207", function=function.__name__)
    device = kwargs.get("device", _NO_DEVICE)
    kwargs = {name: value for name, value in kwargs.items() if name != "device"}
    copies = function is torch.tensor or isinstance(array, ScalarVariable)
    if not copies and not array.model.flags.writeable:
        ctx.break_graph("DX207", function=function.__name__)
    expected: Any = on_models(ctx, function.__name__, function, [array.model],
                            {name: value.as_constant() for name, value in kwargs.items()})
    if not copies and expected.dtype == array.tensor.fake.dtype:
        return _moved(ctx, ctx.operation("call_function", wrapped_from_numpy, [array.tensor], {}), device)
    keywords = {"dtype": ConstantVariable(expected.dtype), "copy": ConstantVariable(True)}
    tensor = ctx.operation("call_method", "to", [array.tensor], keywords)
    assert isinstance(tensor, TensorVariable)
    if tuple(map(hint, tensor.fake.stride())) != expected.stride():
        ctx.break_graph("DX207", function=function.__name__)
    return _moved(ctx, tensor, device)


def _moved(ctx: TraceContext, tensor: VariableTracker, device: VariableTracker) -> VariableTracker:
    """Move a tensor made from an array, which is in CPU memory, to the device that the call names, or to the default device."""
    device_constant: Any = device.as_constant()
    target = torch.get_default_device() if device_constant is None else torch.device(device_constant)
    return tensor if target.type == "cpu" else ctx.operation("call_method", "to", [tensor, ConstantVariable(target)], {})
