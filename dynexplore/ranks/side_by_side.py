"""The comparison model of several ranks: everything that is shown, computed once, for the text, the picture and the page.

The idea: all views need the same derived facts, so one object computes and holds them.

In: the recordings of the ranks, what could not be read. Out: `SideBySide`, and its `rows`: a function on all ranks.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynexplore.ranks.compilations import Compilation, Key, compilations
from dynexplore.ranks.differences import Difference, differences
from dynexplore.ranks.shared_clock import SharedClock
from dynexplore.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class Row:
    """One compilation of a function on each rank; ranks that did not compile it are missing."""

    key: Key
    number: int
    of: Mapping[int, Compilation]
    differs: bool

    @property
    def any(self) -> Compilation:
        """The compilation of an arbitrary rank."""
        return next(iter(self.of.values()))

    @property
    def name(self) -> str:
        """The display name: `step`, `step (compilation 2)`."""
        return self.any.name if self.number == 1 else f"{self.any.name} (compilation {self.number})"


class SideBySide:
    """The comparison of several ranks; see the module docstring."""

    def __init__(self, recordings: Mapping[int, Recording], notices: Sequence[str], title: str) -> None:
        self.recordings = dict(sorted(recordings.items()))
        self.notices = list(notices)
        self.title = title or next((recording.title for recording in self.recordings.values() if recording.title), "")

    @functools.cached_property
    def clock(self) -> SharedClock:
        """The clock that the ranks share."""
        return SharedClock.of(self.recordings)

    @functools.cached_property
    def compilations(self) -> Mapping[int, Sequence[Compilation]]:
        """The compilations of each rank, in order."""
        return {rank: compilations(rank, recording) for rank, recording in self.recordings.items()}

    @functools.cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The differences between the ranks, the worst first."""
        return tuple(differences(self.compilations, self.recordings, self.clock))

    @functools.cached_property
    def unlike_ranks(self) -> list[int]:
        """The ranks that deviate from most others, that of the worst difference first."""
        return list(dict.fromkeys(rank for difference in self.differences for rank in difference.ranks))

    @functools.cached_property
    def unlike_frames(self) -> frozenset[tuple[int, int]]:
        """The frames that differences are about: rank, and frame number in its recording."""
        return frozenset(frame for difference in self.differences for frame in difference.frames)

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The compilations, grouped by function and number, in the order in which the first rank began them.

        Library code that resulted in no graph is left out if all ranks agree on it.
        """
        by_key: dict[tuple[Key, int], dict[int, Compilation]] = {}
        for rank, of_rank in self.compilations.items():
            for compilation in of_rank:
                if compilation.is_compiled:
                    by_key.setdefault((compilation.key, compilation.number), {})[rank] = compilation
        rows = [
            Row(key, number, of, any((rank, compilation.frame) in self.unlike_frames for rank, compilation in of.items()))
            for (key, number), of in by_key.items()
        ]
        shown = [row for row in rows if row.differs or not row.any.is_library or row.any.graphs or row.any.failure]
        return sorted(shown, key=lambda row: min(self.begins(compilation) for compilation in row.of.values()))

    @functools.cached_property
    def zero(self) -> float:
        """The time on the shared clock at which the first rank began to compile."""
        times = [
            self._at(compilation)
            for of_rank in self.compilations.values()
            for compilation in of_rank
            if compilation.begins is not None and compilation.is_compiled
        ]
        return min(times, default=0.0)

    def begins(self, compilation: Compilation) -> float:
        """When a compilation began, in seconds since the first one of all; 0 if unknown."""
        return self._at(compilation) - self.zero if compilation.begins is not None else 0.0

    def _at(self, compilation: Compilation) -> float:
        return self.clock.at(compilation.rank, compilation.begins or 0.0)
