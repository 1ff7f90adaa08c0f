"""Array memory: which numpy arrays can be graph inputs, and the tensors that share their memory.

The idea: a tensor on an array's memory needs no copy, and writes of the graph reach the array. If a graph mutates its inputs,
aliasing/overlap_guard.py guards that no two arrays overlap.

In: live arrays. Out: tensors. PyTorch's counterpart: `wrap_numpy_ndarray` in torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

from typing import Any

import torch

from dynexplore.engine.raw_attributes import class_module

TRACEABLE = frozenset(("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"))


def is_traceable(value: Any) -> bool:
    """Whether a value is an array that can be a graph input: of a plain number type, writeable, without negative strides.

    >>> is_traceable(1)
    False
    """
    if type(value).__name__ != "ndarray" or class_module(type(value)) != "numpy":
        return False
    return (
        value.dtype.name in TRACEABLE and value.dtype.isnative and value.flags.writeable and value.flags.aligned
        and all(stride >= 0 and stride % value.itemsize == 0 for stride in value.strides)
    )


def tensor_on(array: Any) -> torch.Tensor:
    """A tensor on the array's memory. Raises ValueError for an array that cannot be a graph input, so that its guard fails."""
    if not array.flags.writeable:
        raise ValueError("expected a writable array")
    return torch.from_numpy(array)
