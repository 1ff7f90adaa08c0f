"""NumPy functions as operators of a graph: they take tensors, compute as NumPy does, and return tensors.

The idea: an operator has two faces. On plain tensors in the CPU's memory numpy itself computes, so that a graph that is run as
it stands gives numpy's numbers to the last bit, its warnings and its errors. To a backend that traces the graph (fake tensors,
proxies) the same operator is written in torch's: torch has an imitation of numpy, `torch._numpy`, which can be compiled. The
operators are attributes of this module, by name, so that the text of a graph can be imported:

    wrapped_sin(x)  wrapped_ndarray_sum(x, axis=0)  wrapped_getitem(x, (0, slice(None)))  wrapped_iadd(x, 1)

In: the name of a function. Out: the operator. torch/_dynamo/utils.py (numpy_to_tensor_wrapper) does the second half of the job.
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
# In-place operators, and the functions that they are made of.
IN_PLACE = {
    "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "divide", "imod": "remainder", "ifloordiv": "floor_divide",
    "ipow": "power", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
}


@functools.cache
def torch_numpy() -> Any:
    """torch's numpy in torch's operators, loaded when the first array is met."""
    import torch._numpy

    default_dtypes: Any = torch._numpy._dtypes_impl.default_dtypes
    default_dtypes()  # reads torch's options, which must not happen among fake tensors
    return torch._numpy


def numpy_operator(name: str, *, copied: bool = False) -> Callable[..., Any]:
    """The operator of one function of numpy (`sin`), of a method (`ndarray.sum`), or of `getitem`, `setitem`, `iadd`, ...

    `copied`: its result shares no memory with its arguments, as a scalar of numpy does not.

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
    """The operators by the names that stand in a graph's text."""
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
    """A tensor without memory of its own in the CPU's, or a result that a tensor cannot share."""


def _runs_for_real() -> bool:
    """Whether nobody looks on who wants to see operators of torch; a default device is about tensors that torch makes."""
    return (
        not torch._C._len_torch_dispatch_stack() and all(type(mode) is DeviceContext for mode in _function_modes())
        and torch._C._functorch.peek_interpreter_stack() is None and torch._C._get_tracing_state() is None
    )


def _compute_now(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What numpy gives on the tensors' memory; None where it is not for numpy to compute."""
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
    """A list or tuple (FX has some of its own) of what a function makes of the items; anything else as it is."""
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


# -- torch's imitation -------------------------------------------------------------------------------------------------


def _imitations(value: Any) -> Any:
    """The same nest with arrays of torch._numpy where tensors were."""
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
    """`array += other`: computed as numpy would, then written into the array, in its dtype."""

    def change(array: Any, other: Any) -> Any:
        array.tensor.copy_(function(array, other).tensor)
        return array

    return change


def _sign(array: Any) -> Any:
    """torch's gives 0 for what is no number."""
    imitated = torch_numpy()
    if not array.tensor.is_floating_point():
        return imitated.sign(array)
    return imitated.where(imitated.isnan(array), array, imitated.sign(array))


def _square(array: Any) -> Any:
    """torch's makes other dtypes of whole numbers."""
    return torch_numpy().multiply(array, array)


def _copy(array: Any) -> Any:
    """torch's keeps the order of the dimensions in memory."""
    return torch_numpy().ndarray(array.tensor.clone(memory_format=torch.contiguous_format))


def _flatten(array: Any) -> Any:
    """torch's may give a view."""
    return torch_numpy().ndarray(array.tensor.reshape(-1).clone())


def _array(data: Any, **kwargs: Any) -> Any:
    """torch's reads out what a list holds."""
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
    """An operator of Python (`matmul`) between a tensor and an array, which is the operand number `array`.

    >>> wrapped_mixed("add", torch.ones(2), torch.ones(2), 1)
    tensor([2., 2.])
    """
    function = getattr(python_operator, name)
    operands: list[Any] = [left, right]
    if _runs_for_real() and _is_real(left) and _is_real(right):
        operands[array] = operands[array].numpy()
    return function(*operands)  # type: ignore[no-any-return]


def wrapped_mixed_scalar(name: str, left: torch.Tensor, right: torch.Tensor, scalar: int) -> torch.Tensor:
    """An operator between a tensor and a scalar of numpy, operand number `scalar`: torch takes it for a number, not for an array.

    >>> wrapped_mixed_scalar("add", torch.ones(2, dtype=torch.int32), torch.tensor(1), 1).dtype
    torch.int32
    """
    function = getattr(python_operator, name)
    operands: list[Any] = [left, right]
    if _runs_for_real() and _is_real(operands[scalar]):
        operands[scalar] = operands[scalar].numpy()[()]
    return function(*operands)  # type: ignore[no-any-return]


# -- what is written without a name ------------------------------------------------------------------------------------


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
