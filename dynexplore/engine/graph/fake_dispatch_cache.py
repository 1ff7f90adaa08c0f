"""Cache of fake-tensor dispatch: the output metadata (shape, dtype, device) of an operator for arguments of equal metadata.

The idea: running operators on fake tensors is by far the most expensive part of a capture, and programs call the same operators on
the same kinds of tensors again and again, layer after layer. FakeTensorMode also caches results, but its key is three times as
expensive, because it covers every case: symbols, mutations, sparse tensors, subclasses. This cache covers one case and passes all
others on: an operator of PyTorch's own that mutates nothing, with plain strided fake tensors of fixed sizes or plain constants as
arguments, and new tensors, or one view of an argument, as its result.

In: an ATen operator with its arguments, below autograd. Out: new fake tensors, or None. PyTorch's counterpart:
`_cached_dispatch_impl` in torch/_subclasses/fake_tensor.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

Key = tuple[object, ...]


class OutputMetadata(NamedTuple):
    """The metadata of one result."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device


class Results(NamedTuple):
    """The results of an operator: one tensor or several, new ones or a view of an argument."""

    outputs: tuple[OutputMetadata, ...]
    several: bool
    viewed: int | None  # the index of the argument


_MOST = 50_000  # entries of some hundred bytes; cleared when full, as by a program whose constants never repeat
_PLAIN = frozenset({int, float, bool, str, type(None), complex, torch.dtype, torch.device, torch.layout, torch.memory_format})
_UNFIT_TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)

_cache: dict[Key, Results] = {}


class _UnfitError(Exception):
    """An argument that the cache does not support."""


@functools.cache
def is_fit(operator: Any) -> bool:
    """Whether the metadata of its arguments determines an operator's result, and it has no other effect."""
    returns = operator._schema.returns
    return (
        operator.namespace == "aten"
        and not operator._schema.is_mutable
        and len(returns) > 0
        and all(isinstance(returned.type, torch.TensorType) for returned in returns)
        and (_viewed(operator) is not None or _makes_new_ones(operator))
        and not any(tag in operator.tags for tag in _UNFIT_TAGS)
        and operator not in FakeTensorMode.lift_fns
    )


def _makes_new_ones(operator: Any) -> bool:
    if operator is torch.ops.aten._unsafe_view.default:  # its result is a view, though its schema does not say so
        return False
    return all(argument.alias_info is None for argument in (*operator._schema.returns, *operator._schema.arguments))


@functools.cache
def _viewed(operator: Any) -> int | None:
    """The index of the argument of which the only result is a view; None if there is none, or if it depends on the call."""
    if not operator.is_view or len(operator._schema.returns) != 1:
        return None
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), torch._C.DispatchKey.CompositeImplicitAutograd):
        return None
    shared = [index for index, argument in enumerate(operator._schema.arguments) if argument.alias_info is not None]
    return shared[0] if len(shared) == 1 and not operator._schema.arguments[shared[0]].kwarg_only else None


def key_of(mode: FakeTensorMode, operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Key | None:
    """The cache key: everything that determines the result's metadata; None if unsupported."""
    parts: list[object] = [
        operator, torch.get_default_dtype(), torch._C._get_default_device(), torch.is_inference_mode_enabled(),
    ]  # fmt: skip
    try:
        _add(parts, mode, args)
        if kwargs:
            parts.extend(kwargs)
            _add(parts, mode, kwargs.values())
    except _UnfitError:
        return None
    return tuple(parts)


def _add(parts: list[object], mode: FakeTensorMode, values: Iterable[object]) -> None:
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            _add_tensor(parts, mode, value)
        elif kind in _PLAIN:
            if value != value:  # NaN never equals a key
                raise _UnfitError
            parts += (kind, value)
        elif kind is list or kind is tuple:
            parts += (kind, len(value))  # type: ignore[arg-type]
            _add(parts, mode, value)  # type: ignore[arg-type]
        else:
            raise _UnfitError


def _add_tensor(parts: list[object], mode: FakeTensorMode, tensor: Any) -> None:
    if (
        tensor.fake_mode is not mode
        or tensor.constant is not None
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
        or tensor.is_quantized
    ):
        raise _UnfitError
    parts += (
        tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device, tensor.storage_offset(),
        tensor.requires_grad, tensor.is_conj(), tensor.is_neg(), tensor.is_inference(),
    )  # fmt: skip


def recall(mode: FakeTensorMode, key: Key, args: Sequence[Any]) -> object:
    """New tensors with the cached metadata; None if not cached."""
    results = _cache.get(key)
    if results is None:
        return None
    if results.several:
        return tuple(_new(mode, metadata) for metadata in results.outputs)
    if results.viewed is not None:
        return _view(mode, results.outputs[0], args[results.viewed])
    return _new(mode, results.outputs[0])


def _new(mode: FakeTensorMode, metadata: OutputMetadata) -> FakeTensor:
    with in_kernel_invocation_manager(mode):
        empty = torch.empty_strided(metadata.sizes, metadata.strides, dtype=metadata.dtype, device="meta")
    return FakeTensor(mode, empty, metadata.device)


def _view(mode: FakeTensorMode, metadata: OutputMetadata, viewed: FakeTensor) -> FakeTensor:
    storage = viewed.untyped_storage()
    # in inference mode, too, a view of a normal tensor is a normal tensor
    with in_kernel_invocation_manager(mode), torch.inference_mode(viewed.is_inference()):
        empty = torch.empty((0,), dtype=metadata.dtype, device="meta")
        view = empty.set_(storage, metadata.offset, metadata.sizes, metadata.strides)
    return FakeTensor(mode, view, metadata.device)


def remember(key: Key, operator: Any, result: object) -> None:
    """Cache the result's metadata, if it describes the result completely."""
    several = isinstance(result, tuple)
    tensors: Sequence[object] = result if isinstance(result, tuple) else (result,)
    viewed = _viewed(operator)
    outputs = [
        _metadata_of(output)
        for output in tensors
        if type(output) is FakeTensor and _is_plain(output) and (viewed is not None or _is_whole(output))
    ]
    if len(outputs) != len(tensors):
        return
    if len(_cache) >= _MOST:
        _cache.clear()
    _cache[key] = Results(tuple(outputs), several, viewed)


def _metadata_of(tensor: FakeTensor) -> OutputMetadata:
    return OutputMetadata(tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()), tensor.dtype, tensor.fake_device)


def _is_plain(tensor: FakeTensor) -> bool:
    return not (
        tensor.constant is not None
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.requires_grad
        or tensor.is_conj()
        or tensor.is_neg()
    )


def _is_whole(tensor: FakeTensor) -> bool:
    """Whether a new tensor exactly fills its own storage."""
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    elements = span if tensor.numel() else 0
    return tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == elements * tensor.element_size()
