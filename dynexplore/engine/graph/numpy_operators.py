"""NumPy functions as operators of a graph: they take tensors, compute as NumPy does, and return tensors.

The idea: an operator has two implementations. On plain CPU tensors numpy itself computes, so that a graph that runs as captured
returns numpy's numbers exactly, with its warnings and errors. For a backend that traces the graph (fake tensors, proxies) the same
operator runs in torch's reimplementation of numpy, `torch._numpy`, which can be compiled. The operators are attributes of this
module, by name, so that the code of a graph can import them:

    wrapped_sin(x)  wrapped_ndarray_sum(x, axis=0)  wrapped_getitem(x, (0, slice(None)))  wrapped_iadd(x, 1)

In: the name of a function. Out: the operator. PyTorch's counterpart: `numpy_to_tensor_wrapper` in torch/_dynamo/utils.py, for the
second implementation.
"""

from __future__ import annotations

import functools
import operator as python_operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import overrides
from torch.utils._device import DeviceContext

_function_modes: Any = overrides._get_current_function_mode_stack
_PREFIX, _METHOD, _COPIED = "wrapped_", "ndarray_", "_copied"
# In-place operators, and their out-of-place functions.
IN_PLACE = {
    "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "divide", "imod": "remainder", "ifloordiv": "floor_divide",
    "ipow": "power", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
}


@functools.cache
def torch_numpy() -> Any:
    """`torch._numpy`, imported when the first array is encountered."""
    import torch._numpy

    default_dtypes: Any = torch._numpy._dtypes_impl.default_dtypes
    default_dtypes()  # reads torch's options, which must not happen under a fake mode
    return torch._numpy


def numpy_operator(name: str, *, copied: bool = False) -> Callable[..., Any]:
    """The operator of one numpy function (`sin`), of a method (`ndarray.sum`), or of `getitem`, `setitem`, `iadd`, ...

    `copied`: its result shares no memory with its arguments, like a numpy scalar.

    >>> numpy_operator("sin")(torch.zeros(2))
    tensor([0., 0.])
    """
    return _operator(name, copied)


@functools.cache
def _operator(name: str, copied: bool) -> Callable[..., Any]:
    import numpy

    on_arrays, on_tensors = _numpys_function(numpy, name), _torchs_function(name)

    def operator(*args: Any, **kwargs: Any) -> Any:
        result = _compute_now(on_arrays, args, kwargs) if _runs_for_real() else None
        if result is None:
            with torch.device("cpu") if torch._C._len_torch_function_stack() else nullcontext():  # whatever the default device is
                result = _tensors(on_tensors(*_imitations(args), **_imitations(kwargs)))
        return result.clone() if copied else result

    operator.__name__ = operator.__qualname__ = _PREFIX + name.replace(".", "_") + (_COPIED if copied else "")
    operator.__module__ = __name__
    return operator


def __getattr__(name: str) -> Callable[..., Any]:
    """The operators, by their names in a graph's code."""
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    plain = name.removeprefix(_PREFIX)
    copied, plain = plain.endswith(_COPIED), plain.removesuffix(_COPIED)
    for part in (_METHOD, "linalg_"):
        if plain.startswith(part):
            plain = part.replace("_", ".") + plain.removeprefix(part)
    return numpy_operator(plain, copied=copied)


# -- numpy itself ------------------------------------------------------------------------------------------------------


class _NotReal(Exception):
    """A tensor without plain CPU memory, or a result that cannot become a tensor."""


def _runs_for_real() -> bool:
    """Whether no mode is active that must see torch operators; a default device only affects tensors that torch creates."""
    return (
        not torch._C._len_torch_dispatch_stack() and all(type(mode) is DeviceContext for mode in _function_modes())
        and torch._C._functorch.peek_interpreter_stack() is None and torch._C._get_tracing_state() is None
    )


def _compute_now(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """numpy's result on the tensors' memory; None if numpy cannot compute it here."""
    try:
        positional = [_arrays(arg) for arg in args]
        named = {key: _arrays(arg) for key, arg in kwargs.items()}
    except _NotReal:
        return None
    result = function(*positional, **named)
    try:
        return args[0] if result is positional[0] else _from_arrays(result)
    except _NotReal:
        return None


def _arrays(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if not _is_real(value):
            raise _NotReal
        return value.numpy()
    return _nest(_arrays, value)


def _nest(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the items of a list or tuple (including FX's own types); other values are unchanged."""
    if isinstance(value, list):
        return [function(item) for item in value]
    return tuple(function(item) for item in value) if isinstance(value, tuple) else value


def _is_real(value: torch.Tensor) -> bool:
    return type(value) is torch.Tensor and value.is_cpu and not value.requires_grad


def _from_arrays(value: Any) -> Any:
    if type(value) in (tuple, list):
        return type(value)(map(_from_arrays, value))
    import numpy

    array = numpy.asarray(value)
    if not array.flags.writeable:
        raise _NotReal
    return torch.from_numpy(array)


def _numpys_function(numpy: Any, name: str) -> Callable[..., Any]:
    return _by_syntax(name) or getattr(python_operator, name if name in IN_PLACE else "", None) \
        or functools.reduce(getattr, name.split("."), numpy)


# -- torch._numpy ------------------------------------------------------------------------------------------------------


def _imitations(value: Any) -> Any:
    """The same nested value with torch._numpy arrays in place of tensors."""
    if isinstance(value, torch.Tensor):
        return torch_numpy().ndarray(value)
    if isinstance(value, dict):
        return {key: _imitations(item) for key, item in value.items()}
    return _nest(_imitations, value)


def _tensors(value: Any) -> Any:
    if isinstance(value, torch_numpy().ndarray):
        return value.tensor
    return _nest(_tensors, value)


def _torchs_function(name: str) -> Callable[..., Any]:
    if name in IN_PLACE:
        return _in_place(getattr(torch_numpy(), IN_PLACE[name]))
    if name in _CORRECTED:
        return _CORRECTED[name]
    function: Callable[..., Any] = _by_syntax(name) or functools.reduce(getattr, name.split("."), torch_numpy())
    return function


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """`array += other`: computed as numpy would, then copied into the array, in its dtype."""

    def change(array: Any, other: Any) -> Any:
        array.tensor.copy_(function(array, other).tensor)
        return array

    return change


def _sign(array: Any) -> Any:
    """torch._numpy returns 0 for NaN."""
    imitated = torch_numpy()
    if not array.tensor.is_floating_point():
        return imitated.sign(array)
    return imitated.where(imitated.isnan(array), array, imitated.sign(array))


def _square(array: Any) -> Any:
    """torch._numpy returns other dtypes for integers."""
    return torch_numpy().multiply(array, array)


def _copy(array: Any) -> Any:
    """torch._numpy preserves the strides."""
    return torch_numpy().ndarray(array.tensor.clone(memory_format=torch.contiguous_format))


def _flatten(array: Any) -> Any:
    """torch._numpy may return a view."""
    return torch_numpy().ndarray(array.tensor.reshape(-1).clone())


def _array(data: Any, **kwargs: Any) -> Any:
    """torch._numpy reads the values of a list's items."""
    imitated = torch_numpy()
    if isinstance(data, (list, tuple)) and data:
        data = imitated.stack([_array(item) for item in data])
    return imitated.array(data, **kwargs)


_CORRECTED: dict[str, Callable[..., Any]] = {
    "sign": _sign, "square": _square, "array": _array, "ndarray.copy": _copy, "ndarray.flatten": _flatten,
}


# -- between tensors and arrays ----------------------------------------------------------------------------------------


def wrapped_from_numpy(tensor: torch.Tensor) -> torch.Tensor:
    """`torch.from_numpy(array)`: another tensor on the same memory.

    >>> wrapped_from_numpy(torch.zeros(2))
    tensor([0., 0.])
    """
    return torch.from_numpy(tensor.numpy()) if _runs_for_real() and _is_real(tensor) else tensor.detach()


def wrapped_mixed(name: str, left: torch.Tensor, right: torch.Tensor, array: int) -> torch.Tensor:
    """A Python operator (`matmul`) between a tensor and an array; `array` is the index of the array operand.

    >>> wrapped_mixed("add", torch.ones(2), torch.ones(2), 1)
    tensor([2., 2.])
    """
    function = getattr(python_operator, name)
    operands: list[Any] = [left, right]
    if _runs_for_real() and _is_real(left) and _is_real(right):
        operands[array] = operands[array].numpy()
    return function(*operands)  # type: ignore[no-any-return]


def wrapped_mixed_scalar(name: str, left: torch.Tensor, right: torch.Tensor, scalar: int) -> torch.Tensor:
    """An operator between a tensor and a numpy scalar, operand number `scalar`: torch treats it as a number, not as an array.

    >>> wrapped_mixed_scalar("add", torch.ones(2, dtype=torch.int32), torch.tensor(1), 1).dtype
    torch.int32
    """
    function = getattr(python_operator, name)
    operands: list[Any] = [left, right]
    if _runs_for_real() and _is_real(operands[scalar]):
        operands[scalar] = operands[scalar].numpy()[()]
    return function(*operands)  # type: ignore[no-any-return]


# -- functions written as syntax -----------------------------------------------------------------------------------------


def _by_syntax(name: str) -> Callable[..., Any] | None:
    functions: dict[str, Callable[..., Any]] = {"getitem": _getitem, "setitem": _setitem, "T": _transposed}
    return functions.get(name)


def _getitem(array: Any, key: Any) -> Any:
    return array[key]


def _setitem(array: Any, key: Any, value: Any) -> Any:
    array[key] = value
    return array


def _transposed(array: Any) -> Any:
    return array.T
