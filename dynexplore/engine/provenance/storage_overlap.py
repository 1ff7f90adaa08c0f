"""Which inputs of a graph lie in the same memory: a fact that is guarded wherever the graph writes to one of them.

The idea: a graph that runs as it stands writes and reads in the program's order, whoever shares memory with whom. A compiler does
not: it keeps what it has read, and writes at the end. So it is told (through fake tensors, which share storages as the real ones do)
which inputs share memory now, and what it makes is good for this pattern alone. Mostly the pattern is "nobody": then two pointers
are compared. Inputs that overlap are **tangled**: their places relative to each other, and in their storage, are part of the fact,
since AOTAutograd makes all of them out of one base again.

In:  the tensors that a graph takes, and which of them it writes to. Out: a `StorageOverlap`, the payload of a guard.
AOTAutograd notes a guard of its own where sizes are dynamic (StorageOverlap of torch/_guards.py); this one says more.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.provenance.sources import Namer, PinnedSource, Source

Span = tuple[int, int, int]
"""Where a tensor's memory begins and ends, and which input it is."""

_address = torch.Tensor.data_ptr


@dataclass(frozen=True, slots=True)
class Tangle:
    """Inputs whose memory overlaps: by number, how many bytes each begins after the first, and what each is a view of."""

    members: tuple[int, ...]
    begins: tuple[int, ...]
    storages: tuple[int, ...]
    """The storage of each member, numbered in the order of the members."""
    views: tuple[Any, ...]
    """Of each member: storage offset, size of the storage, and the layout of the tensor that it is a view of."""

    def crosses_storages(self) -> bool:
        """Whether the memory is shared behind torch's back: two storages on the memory of one numpy array."""
        return any(self.storages)

    def text(self, names: Sequence[str]) -> str:
        """`b begins 4 bytes behind a`."""
        first = min(range(len(self.members)), key=lambda place: self.begins[place])
        return ", ".join(
            f"{names[member]} begins {begins} bytes behind {names[self.members[first]]}" if begins
            else f"{names[member]} begins where {names[self.members[first]]} does"
            for place, (member, begins) in enumerate(zip(self.members, self.begins, strict=True)) if place != first
        )  # fmt: skip


class StorageOverlap:
    """How the tensors lay in memory at the capture, and whether those of another call lie in the same way."""

    __slots__ = ("_extents", "_held", "_held_addresses", "_held_spans", "_others", "sources", "tangles", "written")

    def __init__(self, sources: Sequence[Source], tensors: Sequence[torch.Tensor], fixed: Sequence[bool], written: Iterable[int]) -> None:
        """`fixed`: whether the sizes of each are guarded; `written`: the numbers of those that the graph writes to."""
        self.sources = tuple(sources)
        self.written = frozenset(written)
        self.tangles = tangles_of(tensors, self.written)
        self._extents = [extent(tensor) if known else None for tensor, known in zip(tensors, fixed, strict=True)]
        pinned = [isinstance(source, PinnedSource) and known for source, known in zip(sources, fixed, strict=True)]
        self._held = [place for place, is_held in enumerate(pinned) if is_held]
        self._others = [place for place, is_held in enumerate(pinned) if not is_held]
        self._held_addresses: list[int] = []
        self._held_spans: list[Span] | None = None

    def holds(self, *tensors: torch.Tensor) -> bool:
        """Whether these lie in memory as those of the capture did."""
        if not self.tangles and self._lie_apart(tensors):
            return True
        return tangles_of(tensors, self.written) == self.tangles

    def _lie_apart(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether no two overlap. Those that the cache entry holds (parameters) are sorted once, as long as none of them moves."""
        held = [_address(tensors[place]) for place in self._held]
        if held != self._held_addresses or self._held_spans is None:
            self._held_addresses, self._held_spans = held, None
            spans = sorted(self._span(tensors, place, at) for place, at in zip(self._held, held, strict=True))
            if not _are_apart(spans):
                return False
            self._held_spans = spans
        others = sorted(self._span(tensors, place, _address(tensors[place])) for place in self._others)
        return _are_apart(others) and all(_fits_between(span, self._held_spans) for span in others)

    def _span(self, tensors: Sequence[torch.Tensor], place: int, start: int) -> Span:
        known = self._extents[place]
        return start, start + (extent(tensors[place]) if known is None else known), place

    def condition(self, values: Sequence[str], namer: Namer) -> str:
        """The check as Python text; two tensors that lay apart need two pointers."""
        whole = f"{namer.name(self.holds)}({', '.join(values)})"
        first, *rest = self._extents
        if self.tangles or len(rest) != 1 or first is None or rest[0] is None:
            return whole
        one, two = values
        return f"(p := {one}.data_ptr()) + {first} <= (q := {two}.data_ptr()) or q + {rest[0]} <= p or {whole}"

    def found(self, *tensors: torch.Tensor) -> str:
        """The pattern of another call, in words."""
        return self._words(tangles_of(tensors, self.written))

    def expression(self) -> str:
        """The check as people read it."""
        names = [source.text() for source in self.sources]
        listed = ", ".join(names if len(names) <= 6 else [*names[:5], "..."])
        return f"{'overlap_as_captured' if self.tangles else 'lie_apart'}({listed})"

    def _words(self, tangles: tuple[Tangle, ...]) -> str:
        names = [source.text() for source in self.sources]
        if tangles:
            return "overlap: " + "; ".join(tangle.text(names) for tangle in tangles)
        if len(names) == 2:
            return f"{names[0]} and {names[1]} do not share memory"
        return f"{', '.join(names[place] for place in sorted(self.written))} share no memory with other inputs"

    def __str__(self) -> str:
        return self._words(self.tangles)


def extent(tensor: torch.Tensor) -> int:
    """How many bytes lie between the first element of a tensor and the end of its last one.

    >>> extent(torch.ones(4)[::2])
    12
    """
    if tensor.numel() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (steps + 1) * tensor.element_size()


def _are_apart(spans: Sequence[Span]) -> bool:
    """Whether sorted spans do not overlap; an empty one overlaps with nothing."""
    end = 0
    for start, stop, _ in spans:
        if start < end and start < stop:
            return False
        end = max(end, stop)
    return True


def _fits_between(span: Span, others: Sequence[Span]) -> bool:
    """Whether a span overlaps with none of others, which are sorted and lie apart."""
    start, stop, _ = span
    if start == stop:
        return True
    following = bisect.bisect_left(others, (start,))
    before = next((other for other in reversed(others[:following]) if other[0] < other[1]), None)
    behind = next((other for other in others[following:] if other[0] < other[1]), None)
    return (before is None or before[1] <= start) and (behind is None or stop <= behind[0])


def tangles_of(tensors: Sequence[torch.Tensor], written: Iterable[int]) -> tuple[Tangle, ...]:
    """The groups of tensors that overlap, where one of them, or another one in their storage, is written to."""
    spans = sorted((start, start + size, place) for place, tensor in enumerate(tensors)
                   if (size := extent(tensor)) for start in (_address(tensor),))  # fmt: skip
    groups: list[list[int]] = []
    end = 0
    for start, stop, place in spans:
        if groups and start < end:
            groups[-1].append(place)
        else:
            groups.append([place])
        end = max(end, stop)
    shared = [sorted(group) for group in groups if len(group) > 1]
    if not shared:
        return ()
    storages = {_storage(tensors[place]) for place in written}
    wanted = [group for group in shared if any(_storage(tensors[place]) in storages for place in group)]
    return tuple(_tangle(group, tensors) for group in sorted(wanted))


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tangle(members: Sequence[int], tensors: Sequence[torch.Tensor]) -> Tangle:
    starts = [_address(tensors[place]) for place in members]
    storages = [_storage(tensors[place]) for place in members]
    numbers = {storage: number for number, storage in enumerate(dict.fromkeys(storages))}
    return Tangle(
        tuple(members), tuple(start - min(starts) for start in starts), tuple(numbers[storage] for storage in storages),
        tuple(_view(tensors[place]) for place in members),
    )  # fmt: skip


def _view(tensor: torch.Tensor) -> Any:
    base = tensor._base
    layout = None if base is None else (tuple(base.shape), base.stride(), base.storage_offset(), base.dtype, base.requires_grad)
    return tensor.storage_offset(), tensor.untyped_storage().nbytes(), layout
