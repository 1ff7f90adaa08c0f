"""NumPy arrays and ranges as tensor indices: `observations[minibatch]`, `scores[range(n), labels]`.

The idea: torch copies an integer or bool array in an index to a tensor (torch/csrc/autograd/python_variable_indexing.cpp,
sequenceToVariable; integers become int64). In a graph an array is already backed by a tensor, so that tensor becomes the index. An
index that is one array of several dimensions may be treated as a tuple of its rows (treatSequenceAsTuple, same file), which is not
lowered here. A range is a sequence of positions to torch, which a graph stores as a constant: if its length is a symbolic size,
that size is specialized.

In: the tracker of an index. Out: the same index with tensors in place of arrays, and constant ranges.
PyTorch's counterpart: NumpyNdarrayVariable in torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.variables.containers.ranges import RangeVariable, range_of
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_CAST_TO_INT64 = (torch.int8, torch.int16, torch.int32)


def lower_array_index(ctx: TraceContext, key: VariableTracker) -> VariableTracker:
    """The subscript with each array replaced by the tensor that torch makes of it, and each range by a constant."""
    if isinstance(key, TupleVariable):
        items = [item.read(ctx) for item in key.items]
        is_lowered = any(_is_array(item) or _is_symbolic_range(item) for item in items)
        return TupleVariable([_as_tensor(ctx, item) for item in items]) if is_lowered else key
    if _is_symbolic_range(key):
        return _as_tensor(ctx, key)
    return _as_tensor(ctx, key) if _is_array(key) and _ndim(key) == 1 else key


def _is_array(value: VariableTracker) -> bool:
    return value.kind == "array" and getattr(value, "tensor", None) is not None


def _is_symbolic_range(value: VariableTracker) -> bool:
    return isinstance(value, RangeVariable) and not value.is_constant()


def _ndim(value: VariableTracker) -> int:
    return int(value.tensor.fake.dim())  # type: ignore[attr-defined]


def _as_tensor(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    if isinstance(value, RangeVariable):
        return range_of(value.concrete(ctx))
    if not _is_array(value) or _ndim(value) == 0:
        return value
    tensor: VariableTracker = value.tensor  # type: ignore[attr-defined]
    dtype = tensor.fake.dtype  # type: ignore[attr-defined]
    if dtype in _CAST_TO_INT64:
        return ctx.operation("call_method", "long", [tensor], {})
    return tensor if dtype in (torch.int64, torch.bool) else value
