"""recording/clock.py: when each event was told, and by which thread, beside the events."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import RecordingError
from dynexplore.recording.clock import Clock
from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.text import report
from sample_recordings import toy

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked, saved and loaded")


def timed(seconds: float = 0.5) -> ev.Event:
    return ev.PhaseTimed(frame=1, phase="translate", seconds=seconds)


def test_moments_follow_each_other() -> None:
    """Each event has a moment, none before the one in front of it, and the time of day goes with it."""
    before = time.time()
    recording = Recording()
    for _ in range(5):
        recording.record(timed())
    recording.note((lambda: timed(1.0),))
    moments = [recording.moment(position) for position in range(6)]
    assert all(moment is not None for moment in moments)
    seconds = [moment.seconds for moment in moments if moment]
    assert seconds == sorted(seconds) and seconds[0] >= 0
    assert moments[0] is not None and moments[0].thread == threading.current_thread().name
    assert abs(moments[0].wall - before) < 60
    assert recording.moment(6) is None and recording.moment(-1) is None


def test_each_thread_is_named() -> None:
    """Two threads tell at once: every event is kept with the thread that told it; one that begins later has a name of its own."""
    recording = Recording()
    start = threading.Barrier(2)

    def tell(seconds: float) -> None:
        start.wait()
        for _ in range(200):
            recording.record(timed(seconds))

    pair = [threading.Thread(target=tell, args=(float(number),), name=f"teller {number}") for number in (1, 2)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    last = threading.Thread(target=recording.record, args=(timed(3.0),), name="teller 3")
    last.start()
    last.join()
    told = [(event.seconds, recording.moment(position)) for position, event in enumerate(recording.of(ev.PhaseTimed))]
    assert len(told) == 401
    for seconds, moment in told:
        assert moment is not None and moment.thread == f"teller {seconds:.0f}"


def test_what_is_left_out_has_no_moment() -> None:
    """Past the cap neither event nor moment is kept, so that positions stay right."""
    recording = Recording(max_steps=1)
    for _ in range(3):
        recording.record(ev.InstructionStepped(frame=1, attempt=1, step=0, op="NOP"))
    recording.record(timed())
    assert len(recording) == 2 and recording.moment(1) is not None and recording.moment(2) is None


def test_it_goes_to_json_and_back() -> None:
    """A loaded recording knows the same moments; what is told to it from then on comes later."""
    recording = toy()
    back = Recording.from_json(recording.to_json())
    assert [back.moment(at) for at in range(len(back))] == [recording.moment(at) for at in range(len(recording))]
    assert back.to_plain() == recording.to_plain()
    assert (back.process, back.rank, back.engine) == (recording.process, None, "dynexplore")
    back.record(timed())
    last, new = back.moment(len(back) - 2), back.moment(len(back) - 1)
    assert last is not None and new is not None and last.seconds <= new.seconds


def test_times_stay_out_where_they_would_differ() -> None:
    """Two recordings of one thing are equal, and so are their pages, texts and JSON without times."""
    first, second = toy(), toy()
    assert first == second and first.to_json() != second.to_json()
    assert first.to_json(times=False) == second.to_json(times=False)
    assert explorer_data(first) == explorer_data(second) and report(first) == report(second)
    silent = Recording.from_json(first.to_json(times=False))
    assert silent == first and silent.moment(0) is None and silent.process is None
    silent.record(timed())
    assert Recording.from_json(silent.to_json()) == silent


def with_clock(**changes: Any) -> str:
    plain = toy().to_plain()
    return json.dumps({**plain, "clock": {**plain["clock"], **changes}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (with_clock(steps=[1]), "the clock has the times of 1 events, not of"),
        (with_clock(steps=None), "damaged: 'NoneType' object is not iterable"),
        (with_clock(turns=[]), "does not know the thread of each event"),
        (with_clock(turns=[[2**40, 0]]), "does not know the thread of each event"),
        (with_clock(turns=[[1, 7]]), "the clock names no thread 7"),
        (with_clock(turns=[[1, "x"]]), "turns is str, not int"),
        (with_clock(threads=[3]), "the name of a thread is int, not str"),
        (with_clock(wall=-1), "wall is -1, not from 0"),
        (with_clock(wall=1.5), "wall is float, not int"),
    ],
    ids=lambda text: text if len(text) < 100 else "file",  # a recording as an id would differ between the processes of a run
)
def test_a_damaged_clock_gives_one_sentence(text: str, says: str) -> None:
    """A clock that cannot be is refused, in one line."""
    with pytest.raises(RecordingError, match=says) as caught:
        Recording.from_json(text)
    assert "\n" not in str(caught.value)


def test_times_that_run_for_longer_than_can_be_are_refused() -> None:
    """The sum of all distances is a number of nanoseconds, too."""
    count = len(toy())
    with pytest.raises(RecordingError, match="steps is a number of"):
        Recording.from_json(with_clock(steps=[2**62] * count))


def test_nobody_reads_the_clock_where_nobody_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock belongs to a recording: without one none ticks."""
    ticks: list[int] = []
    monkeypatch.setattr(Clock, "tick", lambda self: ticks.append(1))
    toy()
    told = len(ticks)
    dynexplore.optimize("eager")(lambda x: x + 1)(torch.ones(2))
    assert told and len(ticks) == told
