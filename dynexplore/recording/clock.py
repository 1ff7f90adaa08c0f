"""The time and thread of each event of a recording, stored separately from the events.

The idea: an event says what happened, and two captures of the same call emit equal events. Times differ in every run, so they
are not part of events: the recorder reads the clock when it receives an event, and the engine reads none, so an unrecorded run
pays nothing. Times do not affect the equality of recordings, printouts, or the explorer's data.

The clock is monotonic: it counts nanoseconds since the beginning of the recording. The wall-clock time of that beginning is
stored as well, so that recordings of several processes can be aligned.

In: `tick()`, once per event, or `tick_all()`. Out: `Moment`s by position, and plain data for JSON. PyTorch's counterpart: the
timestamps of torch/_logging/structured.py and of `ChromiumEventLogger` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

import itertools
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dynexplore.recording import sanity

_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Moment:
    """The time and thread of an event: seconds since the recording began, seconds since 1970, and the name of the thread."""

    seconds: float
    wall: float
    thread: str


class Clock:
    """The moments of the events of one recording.

    >>> clock = Clock()
    >>> clock.tick()
    >>> clock.moment(0).thread, len(clock), clock.moment(1)
    ('MainThread', 1, None)
    """

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.wall = time.time_ns()
        self._zero = time.perf_counter_ns()
        self._times = array("q")
        self._numbers = array("I")
        self._here = threading.local()  # a new thread may reuse the identifier of a finished one, but must not get its number

    def _enter(self) -> int:
        self.threads.append(threading.current_thread().name)
        return len(self.threads) - 1

    def tick(self) -> None:
        """Record the time of one event in the current thread."""
        self._times.append(time.perf_counter_ns() - self._zero)
        self._numbers.append(self._number())

    def tick_all(self, count: int) -> None:
        """Record the time of `count` simultaneous events in the current thread."""
        self._times.extend([time.perf_counter_ns() - self._zero] * count)
        self._numbers.extend([self._number()] * count)

    def _number(self) -> int:
        try:
            number: int = self._here.number
        except AttributeError:
            number = self._here.number = self._enter()
        return number

    def __len__(self) -> int:
        return len(self._times)

    def moment(self, position: int) -> Moment | None:
        """The time and thread of the event at `position`; None if unknown."""
        if not 0 <= position < len(self):
            return None
        passed = self._times[position]
        return Moment(passed / _NANOSECONDS, (self.wall + passed) / _NANOSECONDS, self.threads[self._numbers[position]])

    # -- JSON -----------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """The clock as plain data: the time between successive events, and the run lengths of events per thread."""
        steps = [after - before for before, after in itertools.pairwise([0, *self._times])]
        return {"wall": self.wall, "threads": list(self.threads), "steps": steps, "turns": _runs(self._numbers)}

    @classmethod
    def from_plain(cls, data: dict[str, Any], events: int) -> Clock:
        """Restore a clock of `events` events from `to_plain` data. Raises ValueError, TypeError or LookupError if the data is
        invalid.
        """
        clock = cls()
        clock.wall = _countable("wall", data["wall"])
        clock.threads = [_text(name) for name in data["threads"]]
        steps = [_countable("steps", step) for step in data["steps"]]
        if len(steps) != events:
            raise ValueError(f"the clock has the times of {len(steps)} events, not of {events}")
        sanity.countable("steps", sum(steps), 0)
        clock._times = array("q", itertools.accumulate(steps))
        clock._numbers = array("I", itertools.islice(_numbers(data["turns"], len(clock.threads)), events + 1))
        if len(clock._numbers) != events:
            raise ValueError("the clock does not know the thread of each event")
        passed = max(time.time_ns() - clock.wall, clock._times[-1] if events else 0)  # for events recorded from now on
        clock._zero = time.perf_counter_ns() - passed
        return clock


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """The run-length encoding of thread numbers: pairs [count, number of the thread], in order."""
    return [[sum(1 for _ in run), number] for number, run in itertools.groupby(numbers)]


def _numbers(runs: list[Any], threads: int) -> Iterator[int]:
    for count, number in runs:
        if _countable("turns", number) >= threads:
            raise ValueError(f"the clock names no thread {number}")
        yield from itertools.repeat(number, _countable("turns", count))


def _countable(name: str, value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{name} is {type(value).__name__}, not int")
    return sanity.countable(name, value, 0)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"the name of a thread is {type(value).__name__}, not str")
    return value
