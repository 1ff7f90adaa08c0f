"""Marks: `mark_dynamic`, `mark_static`, `mark_unbacked`, by which the program declares which dimensions of a tensor vary.

The idea: the first call is compiled for its sizes, unless the program declares what later calls may have. A mark is an attribute of
the tensor itself, under torch's own name, so torch's marks apply here, and ours apply there.

In: `mark_dynamic(x, 0)`, `maybe_mark_dynamic(x, 0)`, `mark_static(x, 0)`, `mark_unbacked(x, 0)`, or torch._dynamo's functions of
these names. Out: the marked dimensions of a tensor; `violation`, the message for a violated constraint. PyTorch's counterpart:
torch/_dynamo/decorators.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

_DYNAMIC, _MAYBE, _STATIC = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"
_UNBACKED, _STRICTLY_UNBACKED = "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"
_NAMES = frozenset({_DYNAMIC, _MAYBE, _STATIC, _UNBACKED, _STRICTLY_UNBACKED})
_RANGE = "_dynamo_dynamic_range"  # torch._dynamo reads each dimension's range from the first attribute


class _DimRange(NamedTuple):
    """The range of sizes of a dimension marked dynamic, in the form that torch._dynamo reads; None: unbounded."""

    dim: int
    min: int | None = None
    max: int | None = None


def mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these) from the first call on.

    If the function works for one size only, compiling it raises `exc.MarkViolated`, which names the guard.

    >>> x = torch.ones(4, 3)
    >>> mark_dynamic(x, 0)
    >>> sorted(dynamic(x))
    [0]
    """
    dims = _mark(tensor, index, _DYNAMIC)
    vars(tensor).setdefault(_RANGE, set()).update(map(_DimRange, dims))


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these), unless the function requires a specific one."""
    _mark(tensor, index, _MAYBE)


def mark_static(tensor: torch.Tensor, index: int | Iterable[int] | None = None) -> None:
    """Compile for the exact size of this dimension (None: of all), however often it changes."""
    _mark(tensor, range(tensor.dim()) if index is None else index, _STATIC)


def mark_unbacked(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these), including 0 and 1, whatever its size in the first call.

    If the function requires a specific size, or branches on it, the graph breaks.

    >>> x = torch.ones(1, 3)
    >>> mark_unbacked(x, 0)
    >>> sorted(unbacked(x))
    [0]
    """
    _mark(tensor, index, _UNBACKED)


def _mark(tensor: torch.Tensor, index: int | Iterable[int], name: str) -> set[int]:
    """Mark dimensions, and return all that have this mark."""
    marked: set[int] = vars(tensor).setdefault(name, set())
    for dim in [index] if isinstance(index, int) else index:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"a tensor of {tensor.dim()} dimensions has no dimension {dim}")
        marked.add(dim % tensor.dim())
    return marked


def dynamic(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions that must remain dynamic."""
    return _of(tensor, _DYNAMIC) - _of(tensor, _STATIC)


def unbacked(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions whose sizes are unbacked."""
    return (_of(tensor, _UNBACKED) | _of(tensor, _STRICTLY_UNBACKED)) - _of(tensor, _STATIC)


def marks_of(tensor: torch.Tensor) -> Mapping[int, str]:
    """The effective mark of each marked dimension: the first of "static", "unbacked", "dynamic" and "maybe" that it has."""
    attributes = vars(tensor)
    if attributes.keys().isdisjoint(_NAMES):
        return {}
    weakest_first = (("maybe", _MAYBE), ("dynamic", _DYNAMIC), ("unbacked", _STRICTLY_UNBACKED), ("unbacked", _UNBACKED),
                     ("static", _STATIC))  # fmt: skip
    return {dim: mark for mark, name in weakest_first for dim in attributes.get(name, ())}


def _of(tensor: torch.Tensor, name: str) -> frozenset[int]:
    marked: Any = vars(tensor).get(name, ())
    return frozenset(marked)


def violation(source: str, dimension: int, size: int) -> str:
    """The message for a violated mark_dynamic constraint, with the guard that the cache entry would need."""
    asks = "sizes 0 and 1 are specialized" if size in (0, 1) else "the function requires exactly this size"
    return (
        f"{source} is marked dynamic in dimension {dimension}, but the compiled code is valid only for "
        f"{source}.size()[{dimension}] == {size}: {asks}; use maybe_mark_dynamic to allow that"
    )
