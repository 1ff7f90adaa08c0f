"""`as_strided` of places that a tensor's memory does not have: the fake form never asks.

The idea: `x.as_strided(sizes, strides, offset)` names places of the memory that `x` lies in, and torch refuses those behind its
end. On fake tensors there is no memory to end, so the places are counted here. Otherwise a compiler would leave the operator out
where nobody uses its result, and the error with it.

In:  an operator of the dispatcher and its arguments. Out: what it raises, or nothing.
PyTorch has no counterpart: under torch.compile the error is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch


def refuse_what_lies_outside(operator: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise what an operator of the `as_strided` family raises for places behind the end of the memory. Sizes that vary pass."""
    given = dict(zip((argument.name for argument in operator._schema.arguments), args, strict=False)) | dict(kwargs)
    tensor, sizes, strides, offset = (given.get(name) for name in ("self", "size", "stride", "storage_offset"))
    assert isinstance(tensor, torch.Tensor)
    assert isinstance(sizes, Sequence)
    assert isinstance(strides, Sequence)
    begin = tensor.storage_offset() if offset is None else offset
    there = tensor.untyped_storage().nbytes()
    if len(sizes) != len(strides) or not all(isinstance(number, int) for number in (*sizes, *strides, begin, there)):
        return
    last = begin + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    needed = (last + 1) * tensor.itemsize if all(sizes) else 0
    if needed > there:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {begin}, and itemsize {tensor.itemsize}"
            f" requiring a storage size of {needed} are out of bounds for storage of size {there}"
        )
