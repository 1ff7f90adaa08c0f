"""Recorder: the interface between the engine and whoever watches it.

Which idea lives here: the engine emits frozen events (events.py) and does not know who takes them. A recorder takes events
one by one; a recorder with a method `note` gets most of them as a function and its arguments, because an event that nobody reads
need never be made. A recorder with a method `next_entry_number` numbers the cache entries that it hears of, from 1, as it
does frames: what a person reads in one recording has no gaps, whatever else the process compiles.

In:  events, or `DeferredEvent` ones. Out: nothing.

PyTorch's counterpart: `trace_structured` in torch/_logging/_internal.py, which writes to a log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dynexplore.engine import events as ev
from dynexplore.engine.numbering import Numbering

_UNRECORDED = Numbering(first=1)
"""The entries of those who do not number them."""

DeferredEvent = tuple[Any, ...]
"""A function that makes an event, and its arguments, which are plain data as the event is."""


class Recorder(Protocol):
    """What the engine needs of a recorder."""

    def record(self, event: ev.Event) -> None:
        """Take one event."""

    def next_frame_id(self) -> int:
        """Return a new frame number, from 1 up."""


def deferred_event_sink(recorder: Recorder) -> Callable[[DeferredEvent], None]:
    """How a recorder takes a `DeferredEvent`: by its own `note`, where it has one; any other gets the event at once.

    >>> class Printing:
    ...     def record(self, event): print(event)
    ...     def next_frame_id(self): return 1
    >>> deferred_event_sink(Printing())((ev.ValueView, 1, "ConstantVariable", "2"))
    ValueView(id=1, kind='ConstantVariable', text='2', source='', node='')
    """
    note: Callable[[DeferredEvent], None] | None = getattr(recorder, "note", None)
    return note if note is not None else lambda deferred: recorder.record(deferred[0](*deferred[1:]))


def entry_number(recorder: Recorder | None) -> int:
    """The number of a new cache entry, from 1 up: the recorder's, if it gives any.

    >>> first = entry_number(None)
    >>> entry_number(None) - first
    1
    """
    numbers: Callable[[], int] = getattr(recorder, "next_entry_number", _UNRECORDED.next)
    return numbers()


def unrecorded_entries_again() -> AbstractContextManager[None]:
    """The numbers that entries get inside the block while nobody records are given again after it."""
    return _UNRECORDED.rolled_back()
