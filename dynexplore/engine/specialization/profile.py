"""The profile of a code object: what earlier calls showed at each source.

Automatic dynamic shapes: the first call is compiled for the sizes it has. If a later call misses because a size differs, that
dimension becomes dynamic, so that one more graph serves all sizes. The same applies to numbers. Strides become dynamic where they
vary and no size does: a cache that keeps a window of its last states is a view into a tensor of another length in each call.

The profile only remembers; `decide.py` decides. It also remembers at which sources another object was seen, and which guards of a
skipped frame failed.

In:  sizes, strides, numbers, objects and failed guards of the calls that were translated, by source.
Out: one `Profile` per code object and backend, which the runtime keeps. torch/_dynamo/pgo.py (`FrameStateSizeEntry`) does the same
     job.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch

from dynexplore.engine.provenance.sources import ItemSource, Source
from dynexplore.engine.records import record


@record()
class Comparison:
    """Whether a size or number differs from earlier ones at its source; `before` is the latest other one."""

    differs: bool = False
    before: Any = None


NO_OTHER = Comparison()


_Layout = tuple[tuple[int, ...], tuple[tuple[int | None, ...], ...]]
"""The latest sizes, or strides, at a source, and for each the latest other one: () for none, (size,), or (None,) where it is known
to vary. Plain tuples: a profile is saved with a frame that failed.
"""


class Profile:
    """Sizes, numbers and objects seen at each source, over the translations of one code object."""

    def __init__(self) -> None:
        self._seen_sizes: dict[str, _Layout] = {}
        self._seen_strides: dict[str, _Layout] = {}
        self._sizes_of_strides: dict[str, tuple[int, ...]] = {}
        self._numbers: dict[str, Any] = {}
        self._dynamic_numbers: set[str] = set()
        self._overlaps: dict[str, object] = {}
        self._unstable: set[str] = set()
        self._failed_when_skipped: set[tuple[str, str]] = set()
        self.resume_was_skipped = False
        """A resume function of this code was skipped."""

    def observe(self, source: Source, value: object, depth: int = 3) -> None:
        """Note a value of a call that was not compiled: a later one of another size, or another number, is seen to vary."""
        where = source.text()
        if isinstance(value, torch.Tensor):
            self.observe_sizes(where, tuple(value.shape))
            self.observe_strides(where, value.stride())
        elif type(value) in (int, float):
            self.observe_number(where, value)
        elif type(value) in (tuple, list, dict) and depth:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):  # type: ignore[arg-type]
                if type(key) in (int, str):
                    self.observe(ItemSource(source, key), item, depth - 1)

    # -- layouts of tensors

    def observe_sizes(self, where: str, sizes: tuple[int, ...], varies: AbstractSet[int] = frozenset()) -> list[Comparison]:
        """Note the sizes of a tensor; how each compares with those of earlier calls. Those in `varies` are known to vary."""
        if varies and where not in self._seen_sizes:
            self._seen_sizes[where] = sizes, tuple((None,) if dim in varies else () for dim in range(len(sizes)))
        return _observe(self._seen_sizes, where, sizes)

    def observe_strides(self, where: str, strides: tuple[int, ...]) -> list[Comparison]:
        """The same of strides, of a tensor whose sizes were observed.

        Strides are compared where the sizes are those of the call before; while a size is a symbol they follow from the sizes. A
        size of 0 or 1 is none, even if it was another before: `tokens[:, -1:]` of a sequence that grows has the size 1 and a new
        stride in each call.
        """
        if where not in self._seen_sizes:
            return [NO_OTHER] * len(strides)
        sizes, others = self._seen_sizes[where]
        if any(other and size not in (0, 1) for size, other in zip(sizes, others, strict=True)):
            return [NO_OTHER] * len(strides)
        latest = self._seen_strides.get(where)
        if latest is not None and len(latest[0]) == len(strides) and self._sizes_of_strides.get(where) != sizes:
            self._seen_strides[where] = strides, latest[1]
        self._sizes_of_strides[where] = sizes
        return _observe(self._seen_strides, where, strides)

    # -- numbers

    def compare_number(self, where: str, value: Any) -> Comparison:
        """How a number compares with those that were taken as constants here."""
        if where not in self._numbers:
            return NO_OTHER
        before = self._numbers[where]
        return Comparison(where in self._dynamic_numbers or before != value, before)

    def observe_number(self, where: str, value: Any) -> None:
        """Note a number that is about to be taken as a constant; if another one was, the number is dynamic from now on."""
        if self.compare_number(where, value).differs:
            self._dynamic_numbers.add(where)
        else:
            self._numbers[where] = value

    def note_constant(self, where: str, value: Any) -> None:
        """A number was taken as a constant here, and no decision was made about it."""
        self._numbers.setdefault(where, value)

    def is_dynamic_number(self, where: str) -> bool:
        """Whether a number here was taken as a constant once, and was another one later."""
        return where in self._dynamic_numbers

    # -- memory

    def overlaps_otherwise(self, where: str, layout: object) -> bool:
        """Note how tensors overlap in memory; whether they did in another way when a graph was compiled before."""
        return self._overlaps.setdefault(where, layout) != layout

    # -- objects

    def note_unstable(self, where: str) -> None:
        """Another object is, or will be, at this source than the one an entry was made for, which may have died."""
        self._unstable.add(where)

    @property
    def unstable(self) -> AbstractSet[str]:
        """The sources at which objects come and go."""
        return self._unstable

    # -- guards of skipped frames

    def note_failed_when_skipped(self, where: str, kind: str) -> None:
        """A guard of this kind on this source failed for a frame that was skipped when it was translated before."""
        self._failed_when_skipped.add((where, kind))

    def has_failed_when_skipped(self, where: str, kind: str) -> bool:
        """Whether such a guard failed."""
        return (where, kind) in self._failed_when_skipped

    def has_failures_when_skipped(self) -> bool:
        """Whether any guard failed so."""
        return bool(self._failed_when_skipped)


def _observe(profile: dict[str, _Layout], where: str, numbers: tuple[int, ...]) -> list[Comparison]:
    """Merge the sizes or strides of a call into the profile. Those of a tensor of another rank begin anew."""
    latest, others = profile.get(where, (numbers, ((),) * len(numbers)))
    if len(latest) != len(numbers):
        latest, others = numbers, ((),) * len(numbers)
    others = tuple(
        other if before == latest_value else (before,) for before, latest_value, other in zip(latest, numbers, others, strict=True)
    )
    profile[where] = numbers, others
    return [Comparison(True, other[0]) if other else NO_OTHER for other in others]
