"""The log of events of a capture, in the order of emission, limited in steps and in bytes.

The idea: recording must be nearly free, so most events are stored as deferred constructor calls (class and arguments) and
created on the first query. The log is bounded: beyond the first limit only steps are dropped, beyond the second everything, and
`cut` says where. The time and thread of each event are stored separately (clock.py).

In: events, from the engine. Out: the events, their moments, and where the log was cut. PyTorch's counterpart: none; the nearest
is torch/_logging/structured.py, which writes immediately.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.recorder import DeferredEvent
from dynexplore.recording.clock import Clock, Moment
from dynexplore.recording.plain_records import names

DEFAULT_STEPS = 200_000
DEFAULT_BYTES = 200_000_000

LONGEST_TEXT = 20_000
"""The longest text of an event, in characters: a longer one (a guard on a huge string, say) is cut in the middle; code is kept
whole.
"""

_MOST_OF_A_NOTE = 1_000
"""The assumed size, in bytes, of a deferred event: texts of events are cut, most of them to 240 characters."""

_PIECES = frozenset(ev.PIECES.values())
_CODE_BEARERS = (
    ev.FrameEntered, ev.InlineEntered, ev.ResumeFunctionCreated, ev.CodeEmitted, ev.SubgraphCompiled, ev.ArtifactEmitted,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a recording was cut: which limit was reached, at which event, and how many events were dropped."""

    reason: str
    position: int
    frame: int
    left_out: int

    def __str__(self) -> str:
        where = f"cut at event {self.position} (frame {self.frame})"
        return f"{where}: {self.reason}; {self.left_out} events left out"


class EventLog:
    """Events in order: at most `max_steps` InstructionStepped events, and about `max_bytes` bytes.

    >>> log = EventLog(max_steps=0)
    >>> log.record(ev.PhaseTimed(frame=log.next_frame_id(), phase="translate", seconds=0.5))
    >>> len(log), log.cut
    (1, None)
    """

    def __init__(self, max_steps: int = DEFAULT_STEPS, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_steps = max_steps
        self.max_bytes = max_bytes
        self._events: list[Any] = []  # events; from `_materialized` on possibly deferred ones
        self._clock: Clock | None = Clock()  # None: loaded from a file without times
        self._lock = threading.RLock()  # an event and its moment go together; creating a deferred event may emit another one
        self._materialized = 0
        self._room = 0  # how many deferred events may be added before the limits are checked again
        self._frame_ids = itertools.count(1)
        self._entry_numbers = itertools.count(1)
        self._step_count = 0
        self._bytes = 0
        self._sized: set[int] = set()
        self._cut: Cut | None = None

    def note(self, deferred: DeferredEvent) -> None:
        """Append a deferred event, which is created on the first query: most events of a recording are added this way."""
        with self._lock:
            if self._room:
                self._room -= 1
                self._keep(deferred)
            else:
                self._note_near_the_cap(deferred)

    def note_all(self, deferred_events: Sequence[DeferredEvent]) -> None:
        """Append deferred events that were buffered elsewhere; all of them get the current moment."""
        with self._lock:
            if self._room < len(deferred_events):
                for deferred in deferred_events:
                    self.note(deferred)
                return
            self._room -= len(deferred_events)
            self._events.extend(deferred_events)
            if self._clock is not None:
                self._clock.tick_all(len(deferred_events))

    def _note_near_the_cap(self, deferred: DeferredEvent) -> None:
        self._settle()
        room = (self.max_steps - self._step_count, (self.max_bytes - self._bytes) // _MOST_OF_A_NOTE)
        self._room = max(0, min(room))
        if self._room:
            self.note(deferred)
        else:
            self.record(deferred[0](*deferred[1:]))

    def _settle(self) -> list[ev.Event]:
        """Create all deferred events, and return all events."""
        events = self._events
        if self._materialized == len(events):  # as in most queries
            return events
        with self._lock:
            for position in range(self._materialized, len(events)):
                deferred = events[position]
                if type(deferred) is tuple:
                    events[position] = self._counted(deferred[0](*deferred[1:]))
            self._materialized = len(events)
        return events

    def record(self, event: ev.Event) -> None:
        """Append one event, unless a limit is reached."""
        with self._lock:
            self._record(event)

    def _record(self, event: ev.Event) -> None:
        is_step = type(event) is ev.InstructionStepped
        if is_step:
            self._settle()
        if self._bytes >= self.max_bytes:
            self._leave_out(f"{self.max_bytes} bytes are reached", event)
        elif is_step and self._step_count >= self.max_steps:
            self._leave_out(f"{self.max_steps} steps are reached", event)
        else:
            self._keep(self._counted(event))

    def _keep(self, event: ev.Event | DeferredEvent) -> None:
        self._events.append(event)
        if self._clock is not None:
            self._clock.tick()

    def _append(self, event: ev.Event) -> None:
        """Append an event that was emitted earlier: its moment is already known, or never will be."""
        self._events.append(self._counted(event))

    def _counted(self, event: ev.Event) -> ev.Event:
        """Count an event towards the limits, and return it; a huge text is cut first."""
        if type(event) is ev.InstructionStepped and len(event.arg) < LONGEST_TEXT // 2:
            # most events are steps: estimate their size cheaply from the new value, which is on top of the stack
            stack = event.stack
            self._bytes += 160 + len(event.arg) + 8 * len(stack) + (len(stack[-1].text) if stack else 0)
            self._step_count += 1
            return event
        size = self._size(event)
        if size > LONGEST_TEXT and not isinstance(event, _CODE_BEARERS):
            event = _shortened(event)
            size = min(size, 2 * LONGEST_TEXT)
        self._bytes += size
        self._step_count += isinstance(event, ev.InstructionStepped)
        return event

    def next_frame_id(self) -> int:
        """Return a new frame number, counted from 1."""
        return next(self._frame_ids)

    def next_entry_number(self) -> int:
        """Return a new number for a cache entry, counted from 1."""
        return next(self._entry_numbers)

    def _leave_out(self, reason: str, event: ev.Event) -> None:
        if self._cut is None:
            self._cut = Cut(reason, len(self._events), event.frame, 1)
        else:
            self._cut = dataclasses.replace(self._cut, left_out=self._cut.left_out + 1)

    def _size(self, event: ev.Event) -> int:
        """The approximate size of an event in bytes; code and values that occurred before count as a pointer."""
        return sum(map(self._size_of, _fields_of(event)), 64)

    def _size_of(self, value: Any) -> int:
        kind = type(value)
        if kind is str:
            return len(value)
        if kind is int:
            return 8
        if kind is tuple:
            return 8 + sum([self._size_of(item) for item in value])
        if kind in _PIECES:
            # the events keep these objects alive, so no id in the set is ever reused
            if id(value) in self._sized:
                return 8
            self._sized.add(id(value))
            if kind is ev.CodeView:
                return 100 + len(value.source) + 100 * len(value.rows)
            return sum(map(self._size_of, _fields_of(value)), 48)
        return 8

    # -- queries ----------------------------------------------------------------------------------------------

    @property
    def events(self) -> Sequence[ev.Event]:
        """All events in order."""
        return self._settle()

    def moment(self, position: int) -> Moment | None:
        """The time and thread of the event at `position`; None if the recording has no times."""
        return self._clock.moment(position) if self._clock is not None else None

    def forget_times(self) -> None:
        """Discard the times, because the events did not happen now: no moment is known until `tell_times`."""
        self._clock = None

    def tell_times(self, clock: Clock) -> None:
        """Set the moments of all events so far."""
        self._clock = clock

    @property
    def cut(self) -> Cut | None:
        """Where the recording was cut, None if it is complete."""
        return self._cut

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[ev.Event]:
        return iter(self._settle())


def _fields_of(record: Any) -> tuple[Any, ...]:
    cls: Any = type(record)
    return _reader(cls)(record)


@functools.cache
def _reader(cls: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns all fields of a record, which has more than one."""
    return operator.attrgetter(*[field.name for field in dataclasses.fields(cls)])


def _shortened(value: Any) -> Any:
    """An event with its long texts cut."""
    if isinstance(value, str):
        return ev.clip(value, LONGEST_TEXT)
    if isinstance(value, tuple):
        return tuple([_shortened(item) for item in value])
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(**{name: _shortened(getattr(value, name)) for name in names(value)})
