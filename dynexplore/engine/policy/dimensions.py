"""Marks of tensors' dimensions: which sizes are to vary, which may, and which never.

The idea: the first call is compiled for its sizes, unless the program says what it knows of later calls. A mark is an attribute of
the tensor itself, under torch's own name, so that torch's marks count here, and ours there.

In:  `mark_dynamic(x, 0)`, `maybe_mark_dynamic(x, 0)`, `mark_static(x, 0)`, `mark_unbacked(x, 0)`, or torch._dynamo's functions of
     these names.
Out: the marked dimensions of a tensor; `violation`, the sentence for a promise that did not hold.

torch/_dynamo/decorators.py does the same job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

_DYNAMIC, _MAYBE, _STATIC = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"
_UNBACKED, _STRICTLY_UNBACKED = "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"
_RANGE = "_dynamo_dynamic_range"  # torch._dynamo expects it beside the first


def mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these) from the first call on.

    Where the function asks for one certain size all the same, compiling it raises `exc.MarkViolated`, which says which guard it is.

    >>> x = torch.ones(4, 3)
    >>> mark_dynamic(x, 0)
    >>> sorted(dynamic(x))
    [0]
    """
    _mark(tensor, index, _DYNAMIC)
    if _RANGE not in vars(tensor):
        setattr(tensor, _RANGE, set())


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these), unless the function asks for a certain one."""
    _mark(tensor, index, _MAYBE)


def mark_static(tensor: torch.Tensor, index: int | Iterable[int] | None = None) -> None:
    """Compile for the very size of this dimension (None: of all), however often it changes."""
    _mark(tensor, range(tensor.dim()) if index is None else index, _STATIC)


def mark_unbacked(tensor: torch.Tensor, index: int | Iterable[int]) -> None:
    """Compile for any size of this dimension (or these), 0 and 1 too, and take nothing of the first call's size for granted.

    Where the function asks for a certain size, or whether it is one, the graph breaks.

    >>> x = torch.ones(1, 3)
    >>> mark_unbacked(x, 0)
    >>> sorted(unbacked(x))
    [0]
    """
    _mark(tensor, index, _UNBACKED)


def _mark(tensor: torch.Tensor, index: int | Iterable[int], name: str) -> None:
    marked: set[int] = vars(tensor).setdefault(name, set())
    for one in [index] if isinstance(index, int) else index:
        if not -tensor.dim() <= one < tensor.dim():
            raise IndexError(f"a tensor of {tensor.dim()} dimensions has no dimension {one}")
        marked.add(one % tensor.dim())


def dynamic(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions that are promised to be served at any size."""
    return _of(tensor, _DYNAMIC) - _of(tensor, _STATIC)


def wanted_dynamic(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions that are to be served at any size, promised or not."""
    return dynamic(tensor) | unbacked(tensor) | (_of(tensor, _MAYBE) - _of(tensor, _STATIC))


def unbacked(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions of whose size nothing is known."""
    return (_of(tensor, _UNBACKED) | _of(tensor, _STRICTLY_UNBACKED)) - _of(tensor, _STATIC)


def static(tensor: torch.Tensor) -> frozenset[int]:
    """The dimensions that are never to be served at any size."""
    return _of(tensor, _STATIC)


def _of(tensor: torch.Tensor, name: str) -> frozenset[int]:
    marked: Any = vars(tensor).get(name, ())
    return frozenset(marked)


def violation(source: str, dimension: int, size: int) -> str:
    """What is said where a promise did not hold: the guard that would have to stand in the entry."""
    asks = "sizes 0 and 1 are compiled for themselves" if size in (0, 1) else "the function asks for this very size"
    return (
        f"{source} is marked dynamic in dimension {dimension}, but what was compiled holds only for "
        f"{source}.size()[{dimension}] == {size}: {asks}; maybe_mark_dynamic allows that"
    )
