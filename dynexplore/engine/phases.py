"""Timing of the phases of a conversion, per function: read, translate, guards, backend, assemble.

The idea: functions that do a phase's work are decorated with its name; while a frame is converted their time is recorded, each
phase without nested ones, so that the phases of a frame add up to its total. Outside a conversion (a view reads bytecode, for
example) nothing is recorded. It costs a microsecond per call, so it is always on.

In: `@timed("read")` above functions, `with times.of("f (model.py:3)")` around one conversion. Out: `times.records`, the latest of
them, until `times.clear()`; compile_times() displays them. PyTorch's counterpart: `dynamo_timed` and `compile_times` in
torch/_dynamo/utils.py.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from dynexplore.engine.records import record

P = ParamSpec("P")
R = TypeVar("R")

MAX_RECORDS = 100_000
"""The maximum number of records: the latest are kept."""


@record()
class PhaseRecord:
    """One interval of work: function, phase, start (perf_counter), duration in seconds, and duration without nested phases."""

    function: str
    phase: str
    start: float
    seconds: float
    own_seconds: float
    thread: int


class _Open(threading.local):
    """What a thread is doing: the function being converted, and the time taken by nested phases, innermost last."""

    function = ""

    def __init__(self) -> None:
        self.inner: list[float] = []


class PhaseTimes:
    """The records of this process."""

    def __init__(self) -> None:
        self.records: deque[PhaseRecord] = deque(maxlen=MAX_RECORDS)
        self._open = _Open()

    @contextlib.contextmanager
    def of(self, function: str) -> Iterator[None]:
        """Time a conversion of this function; the remaining time is recorded as "other"."""
        before = self._open.function, self._open.inner
        self._open.function, self._open.inner = function, []
        try:
            with self.phase("other"):
                yield
        finally:
            self._open.function, self._open.inner = before

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase of the current conversion."""
        inner = self._open.inner
        inner.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            own = seconds - inner.pop()
            if inner:
                inner[-1] += seconds
            self.records.append(PhaseRecord(self._open.function, name, start, seconds, own, threading.get_ident()))

    def is_converting(self) -> bool:
        """Whether this thread is converting a frame."""
        return bool(self._open.function)

    def clear(self) -> None:
        """Discard all records."""
        self.records.clear()


times = PhaseTimes()
"""The times of this process."""


def timed(phase: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare that calls of the decorated function belong to this phase.

    >>> @timed("read")
    ... def work():
    ...     return 1
    >>> work(), len(times.records)
    (1, 0)
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            if not times.is_converting():
                return function(*args, **kwargs)
            with times.phase(phase):
                return function(*args, **kwargs)

        return measured

    return declare
