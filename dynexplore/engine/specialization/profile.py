"""The profile of a code object: the sizes, numbers and objects that earlier calls had at each source.

The idea: automatic dynamic shapes. The first call is compiled for its sizes. If a later call misses because a size differs, that
dimension becomes dynamic, so that one more graph serves all sizes. The same applies to numbers. Strides become dynamic if they vary
while no size does: a cache that keeps a window of its last states is, in each call, a view into a tensor of a different length.

The profile only records; a row of `tables.py` decides, on facts that `decide.py` collects. The profile also has the sources at
which different objects were seen, and which guards of a skipped frame failed.

In: sizes, strides, numbers, objects and failed guards of the calls that were translated, by source. Out: one `Profile` per code
object and backend, kept by the runtime. PyTorch's counterpart: `FrameStateSizeEntry` in torch/_dynamo/pgo.py.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch

from dynexplore.engine.provenance.sources import ItemSource, Source
from dynexplore.engine.records import record


@record()
class Comparison:
    """Whether a size or number differs from earlier ones at its source; `before` is the latest different one."""

    differs: bool = False
    before: Any = None


NO_OTHER = Comparison()


_Layout = tuple[tuple[int, ...], tuple[tuple[int | None, ...], ...]]
"""The latest sizes, or strides, at a source, and for each the latest different one: () for none, (size,), or (None,) if it is
known to vary. Plain tuples, because a profile is saved with a frame that failed.
"""


class Profile:
    """Sizes, numbers and objects seen at each source, over all translations of one code object."""

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
        """Record a value of a call that was not compiled, so that a later different size or number is known to vary."""
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
        """Record the sizes of a tensor, and compare each with those of earlier calls. Those in `varies` are known to vary."""
        if varies and where not in self._seen_sizes:
            self._seen_sizes[where] = sizes, tuple((None,) if dim in varies else () for dim in range(len(sizes)))
        return _observe(self._seen_sizes, where, sizes)

    def observe_strides(self, where: str, strides: tuple[int, ...]) -> list[Comparison]:
        """The same for the strides of a tensor whose sizes were recorded.

        Strides are compared only if the sizes equal those of the previous call; while a size is a symbol, strides follow from
        the sizes. A dimension of size 0 or 1 is ignored, even if it had another size before: `tokens[:, -1:]` of a growing
        sequence has size 1 and a new stride in each call.
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
        """How a number compares with those that were specialized here."""
        if where not in self._numbers:
            return NO_OTHER
        before = self._numbers[where]
        return Comparison(where in self._dynamic_numbers or before != value, before)

    def observe_number(self, where: str, value: Any) -> None:
        """Record a number that is about to be specialized; if a different one was before, the number is dynamic from now on."""
        if self.compare_number(where, value).differs:
            self._dynamic_numbers.add(where)
        else:
            self._numbers[where] = value

    def note_constant(self, where: str, value: Any) -> None:
        """Record that a number was specialized here without a decision about it."""
        self._numbers.setdefault(where, value)

    def is_dynamic_number(self, where: str) -> bool:
        """Whether a number was specialized here, and differed later."""
        return where in self._dynamic_numbers

    # -- storage overlap

    def observe_overlap(self, where: str, layout: object) -> bool:
        """Record how tensors overlap in memory; returns whether they overlapped differently when a graph was compiled before."""
        return self._overlaps.setdefault(where, layout) != layout

    # -- objects

    def note_unstable(self, where: str) -> None:
        """Record that the object at this source is, or will be, a different one from
        that which an entry guards (which may be dead).
        """
        self._unstable.add(where)

    @property
    def unstable(self) -> AbstractSet[str]:
        """The sources whose objects change."""
        return self._unstable

    # -- guards of skipped frames

    def note_failed_when_skipped(self, where: str, kind: str) -> None:
        """Record that a guard of this kind on this source failed for a frame that was skipped in an earlier translation."""
        self._failed_when_skipped.add((where, kind))

    def has_failed_when_skipped(self, where: str, kind: str) -> bool:
        """Whether such a guard has failed."""
        return (where, kind) in self._failed_when_skipped

    def has_failures_when_skipped(self) -> bool:
        """Whether any such guard has failed."""
        return bool(self._failed_when_skipped)


def _observe(profile: dict[str, _Layout], where: str, numbers: tuple[int, ...]) -> list[Comparison]:
    """Merge the sizes or strides of a call into the profile. A tensor of another rank starts over."""
    latest, others = profile.get(where, (numbers, ((),) * len(numbers)))
    if len(latest) != len(numbers):
        latest, others = numbers, ((),) * len(numbers)
    others = tuple(
        other if before == latest_value else (before,) for before, latest_value, other in zip(latest, numbers, others, strict=True)
    )
    profile[where] = numbers, others
    return [Comparison(True, other[0]) if other else NO_OTHER for other in others]
