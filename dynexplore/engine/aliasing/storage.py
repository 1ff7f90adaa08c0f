"""Storage geometry: which tensors alias, overlap, or extend beyond the end of their storage.

The idea: a strided tensor is a storage, an offset, sizes and strides. All questions about aliasing are arithmetic on these
numbers, so they are answered here, for real and fake tensors alike. Terms:

- two tensors *alias* if they are in one storage (`storage_of`), and *overlap* if their extents share a byte
- a tensor's *extent* is the bytes between its first element and the end of its last one
- a tensor has *internal overlap* if two of its elements share memory, as in an expanded tensor
- an operator that mutates one tensor and reads the same memory as different elements of another one has no functional form

In: tensors. Out: answers; `check_in_bounds_for_storage` raises torch's error, which no fake kernel does. PyTorch's counterpart:
aten/src/ATen/MemoryOverlap.cpp and checkInBoundsForStorage (aten/src/ATen/native/Resize.h).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

Span = tuple[int, int, int]
"""The begin and end of a tensor's extent, and the index of the input."""

address_of = torch.Tensor.data_ptr


# -- one tensor --------------------------------------------------------------------------------------------------------


def storage_of(tensor: torch.Tensor) -> int:
    """The identity of a tensor's storage: a tensor and its views share it. A sparse tensor is identified by itself.

    Under a transform of torch.func it is that of the wrapped tensor.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if tensor.layout is not torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def storage_begin(tensor: torch.Tensor) -> int:
    """The address at which a tensor's storage begins.

    >>> x = torch.ones(4)
    >>> storage_begin(x[2:]) == x.data_ptr()
    True
    """
    return tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()


def extent(tensor: torch.Tensor) -> int:
    """The number of bytes between the first element of a tensor and the end of its last one.

    >>> extent(torch.ones(4)[::2])
    12
    """
    if tensor.numel() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (steps + 1) * tensor.element_size()


def layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The sizes, strides and offset of a tensor: the arguments of `as_strided_`."""
    return tensor.shape, tensor.stride(), tensor.storage_offset()


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its whole storage.

    >>> fills_its_storage(torch.ones(4)), fills_its_storage(torch.ones(4)[:2])
    (True, False)
    """
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of user subclasses in guards
        return tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def begins_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor's first element is at the start of its storage.

    >>> begins_its_storage(torch.ones(4)), begins_its_storage(torch.ones(4)[1:])
    (True, False)
    """
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.storage_offset() == 0


def has_internal_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may share memory: expanded (operators refuse to write there) or unfolded.

    >>> has_internal_overlap(torch.ones(1).expand(3)), has_internal_overlap(torch.ones(3))
    (True, False)
    """
    numbers = *tensor.shape, *tensor.stride()
    if not all(isinstance(number, int) for number in numbers):
        return any(stride == 0 and size != 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    reach = 0  # the extent of the dimensions with smaller strides
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride <= reach:
            return bool(tensor.numel())
        reach += (size - 1) * stride if size else 0
    return False


def check_in_bounds_for_storage(operator: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise the error of an `as_strided` operator whose result exceeds the storage. Symbolic sizes pass.

    No fake kernel has this check. Without it a backend would drop the operator if its result is unused, and the error with it.
    """
    arguments = dict(zip((argument.name for argument in operator._schema.arguments), args, strict=False)) | dict(kwargs)
    tensor, sizes, strides, offset = (arguments.get(name) for name in ("self", "size", "stride", "storage_offset"))
    assert isinstance(tensor, torch.Tensor)
    assert isinstance(sizes, Sequence)
    assert isinstance(strides, Sequence)
    begin = tensor.storage_offset() if offset is None else offset
    available = tensor.untyped_storage().nbytes()
    if len(sizes) != len(strides) or not all(isinstance(number, int) for number in (*sizes, *strides, begin, available)):
        return
    last = begin + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    needed = (last + 1) * tensor.itemsize if all(sizes) else 0
    if needed > available:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {begin}, and itemsize {tensor.itemsize}"
            f" requiring a storage size of {needed} are out of bounds for storage of size {available}"
        )


# -- two tensors -------------------------------------------------------------------------------------------------------


def overlap_in_other_elements(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Whether two tensors share memory, but not as the same elements: what an operator that writes to one of them reads from the
    other depends on the order of its writes. Operators refuse some of these (aten/src/ATen/MemoryOverlap.cpp).

    Symbolic sizes are evaluated with their hints, without installing a guard.

    >>> x = torch.ones(6)
    >>> overlap_in_other_elements(x[:3], x[1:4]), overlap_in_other_elements(x[:2], x[2:]), overlap_in_other_elements(x, x)
    (True, False, False)
    >>> overlap_in_other_elements(x[::2], x[1::2]), overlap_in_other_elements(x[::2], x[1:4])
    (False, True)
    """
    layouts = []
    for tensor in (written, read):
        begin, *numbers = map(_hint_of, (tensor.storage_offset(), *tensor.shape, *tensor.stride()))
        if None in (begin, *numbers) or 0 in numbers[: tensor.dim()]:
            return False
        sizes_and_steps = zip(numbers[: tensor.dim()], numbers[tensor.dim() :], strict=True)
        layouts.append((begin, [(size, step) for size, step in sizes_and_steps if size != 1]))
    (begin, dims), (other_begin, other_dims) = layouts
    if written.itemsize != read.itemsize:
        ends = [_end(*layout) for layout in layouts]
        return bool(begin * written.itemsize < ends[1] * read.itemsize and other_begin * read.itemsize < ends[0] * written.itemsize)
    return layouts[0] != layouts[1] and _addresses_intersect(begin, dims, other_begin, other_dims)


_Dims = Sequence[tuple[int, int]]
"""Pairs of a size and a stride."""

_MOST_PLACES = 1 << 24


def _end(begin: int, dims: _Dims) -> int:
    return begin + sum((size - 1) * step for size, step in dims) + 1


def _addresses_intersect(begin: int, dims: _Dims, other_begin: int, other_dims: _Dims) -> bool:
    """Whether two sets of addresses intersect; for very large sets, whether they may."""
    first, last = max(begin, other_begin), min(_end(begin, dims), _end(other_begin, other_dims))
    if first >= last:
        return False
    step = math.gcd(*(step for _, step in (*dims, *other_dims)))
    if step and (begin - other_begin) % step:
        return False
    start, end = min(begin, other_begin), max(_end(begin, dims), _end(other_begin, other_dims))
    if end - start > _MOST_PLACES:
        return True
    marks = bytearray(end - start)
    for part in _slices(begin - start, dims):
        marks[part] = b"\1" * len(range(*part.indices(len(marks))))
    return any(any(marks[part]) for part in _slices(other_begin - start, other_dims))


def _slices(begin: int, dims: _Dims) -> Iterable[slice]:
    """The addresses as slices along the longest dimension."""
    longest = max(dims, default=(1, 1))
    others = list(dims)
    if longest in others:
        others.remove(longest)
    size, step = longest
    for steps in itertools.product(*(range(0, count * stride, stride) if stride else (0,) for count, stride in others)):
        at = begin + sum(steps)
        yield slice(at, at + (size - 1) * step + 1, step or 1)


def _hint_of(number: Any) -> Any:
    """The hint of a symbolic number; None for an unbacked one."""
    return number.node.hint if isinstance(number, torch.SymInt) else number


# -- many tensors ------------------------------------------------------------------------------------------------------


def alias_no_others(values: Sequence[Any], indices: Sequence[int]) -> bool:
    """Whether the tensors at these indices alias none of the others, in this call."""
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of user subclasses in guards
        storages = [storage_of(value) for value in values if isinstance(value, torch.Tensor)]
        return all(storages.count(storage_of(values[index])) == 1 for index in indices)


def groups_that_alias(tensors: Sequence[torch.Tensor], mutated: Iterable[int]) -> list[list[int]]:
    """The groups of tensors in one storage of which at least one is mutated."""
    groups: dict[int, list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault(storage_of(tensor), []).append(index)
    numbers = frozenset(mutated)
    return [group for group in groups.values() if len(group) > 1 and not numbers.isdisjoint(group)]


def groups_that_overlap(tensors: Sequence[torch.Tensor], mutated: Iterable[int]) -> list[list[int]]:
    """The groups of overlapping tensors if one of them, or another one in their storage, is mutated."""
    spans = sorted((address, address + size, index) for index, tensor in enumerate(tensors)
                   if (size := extent(tensor)) and (address := address_of(tensor)))  # fmt: skip
    groups: list[list[int]] = []
    end = 0
    for start, stop, index in spans:
        if groups and start < end:
            groups[-1].append(index)
        else:
            groups.append([index])
        end = max(end, stop)
    shared = [sorted(group) for group in groups if len(group) > 1]
    if not shared:
        return []
    numbers = frozenset(mutated)
    storages = {storage_of(tensors[index]) for index in numbers}
    return [
        group for group in shared
        if not numbers.isdisjoint(group) or any(storage_of(tensors[index]) in storages for index in group)
    ]  # fmt: skip


def are_disjoint(spans: Sequence[Span]) -> bool:
    """Whether sorted spans do not overlap; an empty one overlaps nothing."""
    end = 0
    for start, stop, _ in spans:
        if start < end and start < stop:
            return False
        end = max(end, stop)
    return True


def is_disjoint_from(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span overlaps none of the others, which are sorted, not empty, and disjoint."""
    start, stop, _ = span
    if start == stop:
        return True
    following = bisect.bisect_left(others, (start,))
    return (not following or others[following - 1][1] <= start) and (following == len(others) or stop <= others[following][0])
