"""What operators were seen to make: the shape, dtype and device of a result, remembered for arguments of the same kind.

The idea: carrying out an operator on fake tensors is by far the most costly part of a capture, and programs call the same
operators on the same kinds of tensors again and again, layer after layer. FakeTensorMode remembers results too, but asks for
three times what is asked here, because it serves every caller: symbols, views, writes, sparse tensors, subclasses. This memo
serves one case, and hands all others on: an operator of PyTorch's own that neither writes nor aliases, arguments that are plain
strided fake tensors of fixed sizes or plain constants, and one new tensor as its result.

In:  an operator of the dispatcher with its arguments, below autograd. Out: a new fake tensor, or None.
torch/_subclasses/fake_tensor.py (_cached_dispatch_impl) does the same job for every case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

Key = tuple[object, ...]
Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]  # sizes, strides, dtype, device of a result

_MOST = 50_000  # entries of some hundred bytes; a program whose constants never repeat starts anew
_PLAIN = (int, float, bool, str, type(None), complex, torch.dtype, torch.device, torch.layout, torch.memory_format)
_UNFIT_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)

_made: dict[Key, Made] = {}


class _UnfitError(Exception):
    """An argument that the memo does not serve."""


@functools.cache
def is_fit(operator: Any) -> bool:
    """Whether an operator makes one new tensor from the kinds of its arguments alone, and does nothing else."""
    schema = operator._schema
    returns = schema.returns
    return (
        operator.namespace == "aten"
        and not schema.is_mutable
        and len(returns) == 1
        and isinstance(returns[0].type, torch.TensorType)
        and returns[0].alias_info is None
        and all(argument.alias_info is None for argument in schema.arguments)
        and not any(tag in operator.tags for tag in _UNFIT_TAGS)
        and operator not in FakeTensorMode.lift_fns
        and operator is not torch.ops.aten._unsafe_view.default  # shares memory, though its schema does not say so
    )


def key_of(mode: FakeTensorMode, operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Key | None:
    """What decides the kind of the result; None when that is not known."""
    found: list[object] = [
        operator, torch.get_default_dtype(), torch._C._get_default_device(), torch.is_inference_mode_enabled(),
    ]  # fmt: skip
    try:
        _add(found, mode, args)
        if kwargs:
            found.extend(kwargs)
            _add(found, mode, kwargs.values())
    except _UnfitError:
        return None
    return tuple(found)


def _add(found: list[object], mode: FakeTensorMode, values: Iterable[object]) -> None:
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            _add_tensor(found, mode, value)
        elif kind in _PLAIN:
            if value != value:  # NaN is found under no key
                raise _UnfitError
            found += (kind, value)
        elif kind is list or kind is tuple:
            found += (kind, len(value))  # type: ignore[arg-type]
            _add(found, mode, value)  # type: ignore[arg-type]
        else:
            raise _UnfitError


def _add_tensor(found: list[object], mode: FakeTensorMode, tensor: Any) -> None:
    if (
        tensor.fake_mode is not mode
        or tensor.constant is not None
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
        or tensor.is_quantized
    ):
        raise _UnfitError
    found += (
        tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device, tensor.storage_offset(),
        tensor.requires_grad, tensor.is_conj(), tensor.is_neg(), tensor.is_inference(),
    )  # fmt: skip


def recall(mode: FakeTensorMode, key: Key) -> FakeTensor | None:
    """A new tensor of the kind that was made before, if it was."""
    made = _made.get(key)
    if made is None:
        return None
    sizes, strides, dtype, device = made
    with in_kernel_invocation_manager(mode):
        empty = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, empty, device)


def remember(key: Key, result: object) -> None:
    """Note what was made, if that says it all."""
    if (
        type(result) is not FakeTensor
        or result.constant is not None
        or result._has_symbolic_sizes_strides
        or result.layout is not torch.strided
        or result.is_quantized
        or result.requires_grad
        or result.storage_offset() != 0
        or result.is_conj()
        or result.is_neg()
    ):
        return
    if len(_made) >= _MOST:
        _made.clear()
    _made[key] = (tuple(result.shape), result.stride(), result.dtype, result.fake_device)
