"""One clock for all ranks: the times of each rank's host, shifted so that they agree; or the statement that they do not.

The idea: processes of one host read one clock. Clocks of two hosts may be seconds apart, but both hosts know when they began the
same collectives, and no rank is far ahead of the others there. So the median of these differences is the best estimate of the clock
offset, and their spread shows its uncertainty. If neither hosts nor collectives are known, times are shown as each host recorded
them, and marked as not aligned.

In: the recordings of all ranks. Out: `SharedClock.of(recordings)`: `at(rank, wall)`, `how`; `arrivals()`, who came when.

PyTorch's counterpart: none; the analyzer in torch/distributed/flight_recorder compares the order of collectives, not their times.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.job import Collective
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural

_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Arrival:
    """A collective that all ranks began: each rank's start time, on the shared clock."""

    group: str
    sequence: int
    operation: str
    seconds: Mapping[int, float]

    @property
    def waited(self) -> dict[int, float]:
        """How many seconds each rank waited there for the last one."""
        last = max(self.seconds.values())
        return {rank: last - at for rank, at in self.seconds.items()}


@dataclass(frozen=True, slots=True)
class SharedClock:
    """The shared clock; see the module docstring. `how` is a sentence; `is_aligned`: whether times of two ranks are comparable."""

    how: str
    is_aligned: bool
    shifts: Mapping[int, float] = field(default_factory=dict)
    shared: tuple[tuple[str, int, Mapping[int, Collective]], ...] = ()

    @classmethod
    def of(cls, recordings: Mapping[int, Recording]) -> SharedClock:
        """The shared clock of these ranks."""
        shared = tuple(_shared(recordings))
        still = dict.fromkeys(recordings, 0.0)
        hosts = {recording.job.host if recording.job is not None else "" for recording in recordings.values()}
        if any(recording.moment(0) is None for recording in recordings.values() if len(recording)):
            return cls("The times of some ranks are unknown.", False, still, shared)
        if len(recordings) < 2:
            return cls("", True, still, shared)
        if len(hosts) == 1 and "" not in hosts:
            return cls("All ranks ran on one host, so their times share one clock.", True, still, shared)
        if shared:
            shifts, apart = _shifts(recordings, shared)
            where = f"{plural(len(shared), 'collective')} that all ranks began"
            sure = f", accurate to about {apart * 1000:.0f} ms" if len(shared) > 1 else ""
            return cls(f"The clocks of the hosts are aligned by {where}{sure}.", True, shifts, shared)
        return cls(_NOT_ALIGNED, False, still)

    def at(self, rank: int, wall: float) -> float:
        """A time of a rank's host, converted to the shared clock."""
        return wall - self.shifts.get(rank, 0.0)

    def arrivals(self) -> list[Arrival]:
        """When each rank reached the collectives that all began, in chronological order; none if the clocks are not aligned."""
        if not self.is_aligned:
            return []
        return [self._arrival(*shared) for shared in self.shared]

    def _arrival(self, group: str, number: int, by_rank: Mapping[int, Collective]) -> Arrival:
        seconds = {rank: self.at(rank, collective.wall / _NANOSECONDS) for rank, collective in by_rank.items()}
        return Arrival(group, number, next(iter(by_rank.values())).signature, seconds)


_NOT_ALIGNED = "Times are not aligned: each rank uses its host's clock, and no collective is known to have run on all ranks."


def _shared(recordings: Mapping[int, Recording]) -> Iterator[tuple[str, int, Mapping[int, Collective]]]:
    """The collectives that each rank began, aligned by number."""
    jobs = {rank: recording.job for rank, recording in recordings.items() if recording.job is not None}
    if len(jobs) < len(recordings) or len(jobs) < 2:
        return
    collectives = {rank: job.shared for rank, job in jobs.items()}
    first, job = next(iter(jobs.items()))
    for number in sorted(collectives[first]):
        by_rank = {rank: by_number[number] for rank, by_number in collectives.items() if number in by_number}
        if len(by_rank) == len(collectives) and len({collective.signature for collective in by_rank.values()}) == 1:
            yield job.everyones_group, number, by_rank


def _shifts(
    recordings: Mapping[int, Recording], shared: tuple[tuple[str, int, Mapping[int, Collective]], ...]
) -> tuple[dict[int, float], float]:
    """The offset of each rank's clock from the first one's, and its uncertainty."""
    first, *others = recordings
    shifts, apart = {first: 0.0}, 0.0
    for rank in others:
        distances = sorted((by_rank[rank].wall - by_rank[first].wall) / _NANOSECONDS for _, _, by_rank in shared)
        shifts[rank] = statistics.median(distances)
        apart = max(apart, _middle_half(distances))
    return shifts, apart


def _middle_half(distances: list[float]) -> float:
    """Half the interquartile range of the differences."""
    quarter = len(distances) // 4
    middle = list(itertools.islice(distances, quarter, len(distances) - quarter))
    return (middle[-1] - middle[0]) / 2


keep_old_names(globals())
