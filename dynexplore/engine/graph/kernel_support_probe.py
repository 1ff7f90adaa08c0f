"""Dtype support that meta kernels do not check: an operator is probed with small real tensors before it becomes a node.

The idea: whether a kernel exists for complex, integer or bool tensors is only checked when it runs; the meta kernels of many
operators (`%` and `max` of complex numbers, `softmax` of integers) do not check. Others ignore which pairs of dtypes are refused
(`int_tensor.div_(2)`, `float_tensor - True`), or that a number overflows a dtype (`leaky_relu(x, 1e300)`). A backend computes such
an operation differently, or drops it if its result is unused, and the error disappears. So an operator with any arguments other
than floats of one common dtype is tried once, on real one-element tensors: what these refuse for their dtype is refused during
capture, as the program would see it.

On a GPU, operators that may raise depending on data are not probed: an index out of range would make the device unusable for the
whole process.

In: an ATen operator and its arguments. Out: its exception, or nothing. PyTorch's counterpart: none; there such an operator returns
a value, or is dropped.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten


def probe_kernel_support(
    operator: Any, args: Sequence[object], kwargs: Mapping[str, object], on_gpus: bool = True
) -> None:
    """Raise what one-element real tensors raise because of their dtypes, or of the numbers among the arguments."""
    leaves, shape = tree_flatten(_with_plain_sizes(operator, args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    devices = {tensor.device.type for tensor in tensors}
    if not devices <= (_CPU_AND_CUDA if on_gpus else _CPU) or any(tensor.layout is not torch.strided for tensor in tensors):
        return
    if "cuda" in devices and torch.cuda.is_current_stream_capturing():
        return
    kinds = tuple((leaf.dtype, leaf.dim(), leaf.device) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)
    error = _refusal(operator, kinds, tuple(map(type, kinds)), shape)
    if error is not None:
        raise type(error)(str(error))


def needs_probe(operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether an operator is one of torch's own that computes, with arguments other than floats of one common dtype."""
    if not _computes(operator):
        return False
    dtypes, unusual_number, has_bool = set(), False, False
    for value in _flat((*args, *kwargs.values())):
        if isinstance(value, torch.Tensor):
            dtypes.add(value.dtype)
        elif isinstance(value, bool | torch.SymBool):
            has_bool = True
        elif isinstance(value, complex):
            return True
        elif type(value) is float:
            unusual_number |= _LARGEST_HALF < abs(value) < math.inf
    if not dtypes:
        return unusual_number and operator in _OF_ONE_NUMBER
    if unusual_number or any(dtype.is_complex for dtype in dtypes) or not any(dtype.is_floating_point for dtype in dtypes):
        return True
    return _is_elementwise(operator) and (_is_for_integers(operator) or len(dtypes) > 1 or not dtypes <= _COMMON_DTYPES or has_bool)


_LARGEST_HALF = 65504.0
_OF_ONE_NUMBER = frozenset({torch.ops.aten.scalar_tensor.default, torch.ops.aten.full.default})  # data without a tensor
_COMMON_DTYPES = frozenset({torch.float32, torch.float64})
_LARGEST_SIZE = 8  # probes allocate little: larger sizes become 1


def _flat(values: Sequence[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


@functools.cache
def _computes(operator: Any) -> bool:
    return operator.namespace == "aten" and not operator.is_view


@functools.cache
def _is_elementwise(operator: Any) -> bool:
    return torch.Tag.pointwise in operator.tags or operator._schema.name.startswith("aten::_foreach_")


@functools.cache
def _is_for_integers(operator: Any) -> bool:
    """Whether no device supports this operator for non-integer numbers."""
    return operator._schema.name.partition("::")[2].strip("_") in _OF_INTEGERS


_OF_INTEGERS = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm",
    "and", "or", "xor", "lshift", "rshift",
})  # fmt: skip


_CPU, _CPU_AND_CUDA = frozenset({"cpu"}), frozenset({"cpu", "cuda"})


def _with_plain_sizes(operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Arguments with concrete numbers: a number used in the computation keeps its value, a large size becomes 1."""
    computed_with = _numbers_of(operator)
    named = {name: _plain(arg, name in computed_with) for name, arg in kwargs.items()}
    return tuple(_plain(arg, index in computed_with) for index, arg in enumerate(args)), named


@functools.cache
def _numbers_of(operator: Any) -> frozenset[int | str]:
    """The positions and names of arguments that are numbers, but not sizes, dimensions or indices."""
    arguments = operator._schema.arguments
    numbers = {index: arg.name for index, arg in enumerate(arguments) if str(arg.type) in ("number", "Optional[number]")}
    return frozenset([*numbers, *numbers.values()])


def _plain(arg: object, computed_with: bool) -> object:
    if isinstance(arg, list | tuple):
        return [_plain(item, computed_with) for item in arg]
    if isinstance(arg, torch.SymInt | torch.SymFloat | torch.SymBool):
        return _PROBE_VALUES[type(arg)]
    return 1 if type(arg) is int and abs(arg) > _LARGEST_SIZE and not computed_with else arg


_PROBE_VALUES: dict[type[Any], object] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}


@functools.lru_cache(maxsize=1024)
def _refusal(operator: Any, kinds: tuple[Any, ...], classes: tuple[type, ...], shape: Any) -> Exception | None:
    """The exception of a probe, cached. The classes distinguish 1, 1.0 and True, which are equal as keys."""
    with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass(), torch._C._DisableAutocast(), torch.no_grad(), \
            warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = [torch.ones((1,) * kind[1], dtype=kind[0], device=kind[2]) if type(kind) is tuple else kind for kind in kinds]
        args, kwargs = tree_unflatten(leaves, shape)
        try:
            operator(*args, **kwargs)
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # about the current state of the device
            return None
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, NotImplementedError) or _is_elementwise(operator) or _OF_DTYPES.search(str(error)):
                return error.with_traceback(None)
        except (IndexError, TypeError, ValueError):  # about the single element, not its dtype
            pass
    return None


_OF_DTYPES = re.compile("complex|Complex|bool|Bool|without overflow")
