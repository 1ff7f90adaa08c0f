"""recording/event_log.py: events are kept in order up to the caps, and most are made when they are asked for."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from dynexplore.engine import events as ev
from dynexplore.engine.recorder import deferred_event_sink
from dynexplore.engine.records import quick
from dynexplore.recording.event_log import LONGEST_TEXT
from dynexplore.recording.recording import Recording
from sample_recordings import toy

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked, saved and loaded")


def test_past_the_cap_on_steps_only_steps_are_left_out() -> None:
    """The recording says where it was cut, and still has every other event."""
    r = Recording(max_steps=5)
    for event in toy():
        r.record(event)
    assert len(r.steps) == 5 and len(r) == len(toy()) - 33 and len(r.graphs) == 2
    assert r.cut is not None
    assert (r.cut.frame, r.cut.left_out) == (1, 33)
    assert str(r.cut) == f"cut at event {r.cut.position} (frame 1): 5 steps are reached; 33 events left out"


def test_past_the_cap_on_bytes_everything_is_left_out() -> None:
    """A recording does not grow without bound, whatever is recorded."""
    r = Recording(max_bytes=100_000)
    for number in range(100_000):
        view = ev.ValueView(number, "StringVariable", "x" * 1000)
        r.record(
            ev.FrameEntered(
                frame=1,
                parent=None,
                code=toy().frames[0].code if not number else r.frames[0].code,
                arguments=(("a", view),),
            )
        )
        if number > 200:
            break
    assert len(r) < 110 and r.cut is not None and r.cut.reason == "100000 bytes are reached"


def test_a_huge_text_is_cut() -> None:
    """A text of an event that is far too long is kept by its ends; other texts and code stay whole."""
    r = Recording()
    r.record(ev.GuardInstalled(frame=1, index=0, scope="local", source="s", kind="EQUALS", expected="x" * 10**7))
    source = "y = 1\n" * 50_000
    r.record(ev.FrameEntered(frame=1, parent=None, code=ev.CodeView(1, "f", "f.py", 1, source, ())))
    assert len(r.guards[0].expected) == LONGEST_TEXT and r.guards[0].source == "s"
    assert r.frames[0].code.source == source and r.cut is None


def test_a_cut_survives_json() -> None:
    """Where a recording was cut is part of what is saved."""
    r = Recording(max_steps=1)
    for event in toy():
        r.record(event)
    assert Recording.from_json(r.to_json()).cut == r.cut != None


def test_what_is_noted_is_made_when_asked_for() -> None:
    """A note becomes an event at the first question, in its place, and counts for the caps like any other event."""
    made: list[float] = []

    def make(seconds: float) -> ev.Event:
        made.append(seconds)
        return ev.PhaseTimed(frame=1, phase="translate", seconds=seconds)

    recording = Recording()
    note = deferred_event_sink(recording)
    note((make, 1.0))
    recording.record(ev.PhaseTimed(frame=1, phase="guards", seconds=2.0))
    note((make, 3.0))
    assert len(recording) == 3
    assert not made
    assert [event.seconds for event in typing.cast(Any, recording)] == [1.0, 2.0, 3.0]
    assert [event.seconds for event in recording.of(ev.PhaseTimed)] == [1.0, 2.0, 3.0]
    assert made == [1.0, 3.0]


def test_notes_are_cut_at_the_cap_of_steps() -> None:
    """Of ten noted steps a recording of at most four keeps the first four, and says so."""
    recording = Recording(max_steps=4)
    note = deferred_event_sink(recording)
    for index in range(10):
        note((quick(ev.InstructionStepped), 1, index, "NOP"))
    assert [step.step for step in recording.steps] == [0, 1, 2, 3]
    assert recording.cut is not None
    assert recording.cut.left_out == 6


def test_another_recorder_gets_a_note_as_an_event_at_once() -> None:
    """A recorder that only knows `record` is given the event itself."""

    class Plain:
        def __init__(self) -> None:
            self.events: list[Any] = []

        def record(self, event: ev.Event) -> None:
            self.events.append(event)

        def next_frame_id(self) -> int:
            return 1

    plain = Plain()
    deferred_event_sink(plain)((quick(ev.InstructionStepped), 1, 0, "NOP"))
    assert [event.op for event in plain.events] == ["NOP"]
