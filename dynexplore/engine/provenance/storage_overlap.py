"""Whether inputs of a graph share memory: a fact that is guarded wherever the graph writes to one of them.

The idea: a graph that runs as it stands reads and writes in the program's order, whoever shares memory with whom. What a
compiler makes of it does not: it keeps what it has read, and writes at the end. So it is good only for inputs that lie
**apart**. Parts of one memory that do not overlap do, as long as no gradients are wanted: autograd counts the changes of a
whole storage, and a write at the end looks to it like a change of what was saved. For inputs that do not lie apart there is
another entry, whose graph runs as it stands, and which serves every way of sharing. Mostly the whole check is to compare two
pointers.

In:  the tensors that a graph takes, and which of them it writes to. Out: a `StorageOverlap`, the payload of a guard.
AOTAutograd notes a guard of its own where sizes are dynamic (StorageOverlap of torch/_guards.py), and makes overlapping
inputs out of one base again, if they lie as they lay; torch._C._dynamo.guards checks it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import torch

from dynexplore.engine.provenance.sources import Namer, PinnedSource, Source

Span = tuple[int, int, int]
"""Where a tensor's memory begins and ends, and which input it is."""

_address = torch.Tensor.data_ptr


class StorageOverlap:
    """Whether the tensors overlapped at the capture, and whether those of another call do."""

    __slots__ = (
        "_extents", "_held", "_held_addresses", "_held_spans", "_held_storages", "_others", "overlap", "sources", "whole_storages",
        "written",
    )  # fmt: skip

    def __init__(
        self, sources: Sequence[Source], tensors: Sequence[torch.Tensor], fixed: Sequence[bool], written: Iterable[int],
        whole_storages: bool,
    ) -> None:  # fmt: skip
        """`fixed`: whether the sizes of each are guarded; `written`: the numbers of those that the graph writes to.

        `whole_storages`: whether to lie in one storage is to overlap.
        """
        self.sources = tuple(sources)
        self.written = frozenset(written)
        self.whole_storages = whole_storages
        self.overlap = bool(self._overlapping(tensors))
        self._extents = [extent(tensor) if known else None for tensor, known in zip(tensors, fixed, strict=True)]
        pinned = [isinstance(source, PinnedSource) and known for source, known in zip(sources, fixed, strict=True)]
        self._held = [place for place, is_held in enumerate(pinned) if is_held]
        self._others = [place for place, is_held in enumerate(pinned) if not is_held]
        self._held_addresses: list[int] = []
        self._held_spans: list[Span] | None = None
        self._held_storages: frozenset[int] = frozenset()

    def holds(self, *tensors: torch.Tensor) -> bool:
        """Whether these lie apart, or overlap, as those of the capture did."""
        if self._lie_apart(tensors):
            return not self.overlap
        return bool(self._overlapping(tensors)) == self.overlap

    def _overlapping(self, tensors: Sequence[torch.Tensor]) -> list[list[int]]:
        groups = overlapping(tensors, self.written)
        return groups or (sharing_storage(tensors, self.written) if self.whole_storages else groups)

    def _lie_apart(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether no two overlap. Those that the cache entry holds (parameters) are sorted once, as long as none of them moves."""
        held = [_address(tensors[place]) for place in self._held]
        if held != self._held_addresses or self._held_spans is None:
            self._held_addresses, self._held_spans = held, None
            spans = sorted(self._span(tensors, place, at) for place, at in zip(self._held, held, strict=True))
            spans = [span for span in spans if span[0] < span[1]]
            self._held_storages = frozenset(storage_begin(tensors[place]) for place in self._held)
            if not _are_apart(spans) or (self.whole_storages and len(self._held_storages) < len(held)):
                return False
            self._held_spans = spans
        others = sorted(self._span(tensors, place, _address(tensors[place])) for place in self._others)
        if not _are_apart(others) or not all(_fits_between(span, self._held_spans) for span in others):
            return False
        if not self.whole_storages:
            return True
        storages = {storage_begin(tensors[place]) for place in self._others}
        return len(storages) == len(self._others) and storages.isdisjoint(self._held_storages)

    def _span(self, tensors: Sequence[torch.Tensor], place: int, start: int) -> Span:
        known = self._extents[place]
        return start, start + (extent(tensors[place]) if known is None else known), place

    def condition(self, values: Sequence[str], namer: Namer) -> str:
        """The check as Python text; for two tensors that lay apart it compares two pointers."""
        whole = f"{namer.name(self.holds)}({', '.join(values)})"
        first, *rest = self._extents
        if self.overlap or self.whole_storages or len(rest) != 1 or first is None or rest[0] is None:
            return whole
        one, two = values
        return f"(p := {one}.data_ptr()) + {first} <= (q := {two}.data_ptr()) or q + {rest[0]} <= p or {whole}"

    def actual(self, *tensors: torch.Tensor) -> str:
        """How the tensors of another call lie, in words."""
        return self._words(self._overlapping(tensors))

    def expression(self) -> str:
        """The check as people read it."""
        names = [source.text() for source in self.sources]
        listed = ", ".join(names if len(names) <= 6 else [*names[:5], "..."])
        return f"{'not ' * self.overlap}lie_apart({listed})"

    def _words(self, overlaps: Sequence[Sequence[int]]) -> str:
        names = [source.text() for source in self.sources]
        if overlaps:
            return "; ".join(f"{' and '.join(names[place] for place in group)} {self._verb}" for group in overlaps)
        if len(names) == 2:
            return f"{names[0]} and {names[1]} do not {self._verb}"
        return f"{', '.join(names[place] for place in sorted(self.written))} and other inputs do not {self._verb}"

    @property
    def _verb(self) -> str:
        return "share memory" if self.whole_storages else "overlap in memory"

    def __str__(self) -> str:
        return f"some of them {self._verb}" if self.overlap else self._words(())


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
    """Whether a span overlaps with none of others, which are sorted, not empty, and lie apart."""
    start, stop, _ = span
    if start == stop:
        return True
    following = bisect.bisect_left(others, (start,))
    return (not following or others[following - 1][1] <= start) and (following == len(others) or stop <= others[following][0])


def overlapping(tensors: Sequence[torch.Tensor], written: Iterable[int]) -> list[list[int]]:
    """The groups of tensors that overlap, where one of them, or another one in their storage, is written to."""
    spans = sorted((address, address + size, place) for place, tensor in enumerate(tensors)
                   if (size := extent(tensor)) and (address := _address(tensor)))  # fmt: skip
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
        return []
    numbers = frozenset(written)
    storages = {_storage(tensors[place]) for place in numbers}
    return [
        group for group in shared
        if not numbers.isdisjoint(group) or any(_storage(tensors[place]) in storages for place in group)
    ]  # fmt: skip


def sharing_storage(tensors: Sequence[torch.Tensor], written: Iterable[int]) -> list[list[int]]:
    """The groups of tensors that lie in one storage, one of which is written to."""
    groups: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        groups.setdefault(_storage(tensor), []).append(place)
    numbers = frozenset(written)
    return [group for group in groups.values() if len(group) > 1 and not numbers.isdisjoint(group)]


def storage_begin(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins.

    >>> x = torch.ones(4)
    >>> storage_begin(x[2:]) == x.data_ptr()
    True
    """
    return tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
