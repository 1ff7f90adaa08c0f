"""Recorder: the interface between the engine and whoever watches it.

The idea: the engine emits frozen events (events.py) and does not know who consumes them. A recorder receives events one by one; a
recorder with a method `note` receives most of them as a function and its arguments, because an event that is never read need not
be created. A recorder with a method `next_entry_number` numbers the cache entries reported to it, from 1, as it does frames: the
numbers in one recording have no gaps, whatever else the process compiles.

In: events, or `DeferredEvent`s. Out: nothing. PyTorch's counterpart: `trace_structured` in torch/_logging/_internal.py, which
writes to a log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dynexplore.engine import events as ev
from dynexplore.engine.numbering import Numbering

_UNRECORDED = Numbering(first=1)
"""Numbers of cache entries without a recorder that numbers them."""

DeferredEvent = tuple[Any, ...]
"""A function that creates an event, and its arguments, which are plain data like the event."""


class Recorder(Protocol):
    """The recorder methods that the engine calls."""

    def record(self, event: ev.Event) -> None:
        """Receive one event."""

    def next_frame_id(self) -> int:
        """Return a new frame number, from 1 up."""


def deferred_event_sink(recorder: Recorder) -> Callable[[DeferredEvent], None]:
    """How a recorder receives a `DeferredEvent`: by its own `note`, if it has one; otherwise the event is created at once.

    >>> class Printing:
    ...     def record(self, event): print(event)
    ...     def next_frame_id(self): return 1
    >>> deferred_event_sink(Printing())((ev.ValueView, 1, "ConstantVariable", "2"))
    ValueView(id=1, kind='ConstantVariable', text='2', source='', node='')
    """
    note: Callable[[DeferredEvent], None] | None = getattr(recorder, "note", None)
    return note if note is not None else lambda deferred: recorder.record(deferred[0](*deferred[1:]))


def entry_number(recorder: Recorder | None) -> int:
    """The number of a new cache entry, from 1 up: from the recorder, if it numbers entries.

    >>> first = entry_number(None)
    >>> entry_number(None) - first
    1
    """
    numbers: Callable[[], int] = getattr(recorder, "next_entry_number", _UNRECORDED.next)
    return numbers()


def unrecorded_entries_again() -> AbstractContextManager[None]:
    """Reuse the numbers of unrecorded entries created inside the block after it."""
    return _UNRECORDED.rolled_back()
