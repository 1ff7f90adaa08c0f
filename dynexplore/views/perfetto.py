"""Compile time by function as a trace for Perfetto: each frame, the functions inlined in it, and the backend.

The idea: a flame chart shows whose code is slow to trace. A frame is a slice from its first event to its last; an inlined
function is a nested slice, and so is the backend's compilation of a graph, or each phase that a log of torch.compile times. Each
slice has a source location. The format is Chrome's trace event JSON, which Perfetto (https://ui.perfetto.dev) and chrome://tracing
read.

In: a Recording; without times, as from a log, compilations are laid out one after the other. Out: `trace(recording)`, plain
data; `as_json(recording)`, its text. PyTorch's counterpart: `ChromiumEventLogger` in torch/_dynamo/utils.py, which records
phases, but no function of the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.names import frame_code, frame_name, plain_name, short_file

Plain = dict[str, Any]


@dataclass(slots=True)
class Slice:
    """A span of seconds in a thread, with its name and source location."""

    name: str
    kind: str
    begin: float
    end: float
    thread: str = "MainThread"
    facts: Plain = field(default_factory=dict)


def trace(recording: Recording) -> Plain:
    """The trace in Chrome's format, in microseconds.

    >>> recording = Recording(title="train.py")
    >>> [event["name"] for event in trace(recording)["traceEvents"]]
    ['process_name']
    """
    slices = slices_of(recording)
    threads = {name: number for number, name in enumerate(dict.fromkeys(each.thread for each in slices), 1)}
    events: list[Plain] = [_named("process_name", recording.title or recording.engine, 0)]
    events += [_named("thread_name", name, number) for name, number in threads.items()]
    events += [
        {
            "name": each.name,
            "cat": each.kind,
            "ph": "X",
            "ts": round(1e6 * each.begin, 3),
            "dur": round(1e6 * (each.end - each.begin), 3),
            "pid": 1,
            "tid": threads[each.thread],
            "args": each.facts,
        }
        for each in slices
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"engine": recording.engine, "versions": recording.versions},
    }


def as_json(recording: Recording) -> str:
    """The text of the trace."""
    return json.dumps(trace(recording), separators=(",", ":")) + "\n"


def _named(kind: str, name: str, thread: int) -> Plain:
    return {"name": kind, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def slices_of(recording: Recording) -> list[Slice]:
    """Every slice, outer ones before those they contain."""
    slices = [each for _, frame in sorted(_frames(recording).items()) for each in frame.slices()]
    threads: dict[str, list[Slice]] = {}
    for each in slices:
        threads.setdefault(each.thread, []).append(each)
    return [each for _, own in sorted(threads.items()) for each in nested(own)]


def nested(slices: Sequence[Slice]) -> list[Slice]:
    """Slices of one thread, each cut off where one that began before it ends: clocks of a log differ by a millisecond, and a
    viewer drops slices that overlap without nesting.
    """
    around: list[Slice] = []
    shown = []
    for each in sorted(slices, key=lambda each: (each.begin, -each.end)):
        while around and around[-1].end <= each.begin:
            around.pop()
        end = min(each.end, around[-1].end) if around else each.end
        shown.append(replace(each, end=end))
        around.append(shown[-1])
    return shown


class _Frame:
    """The events of a frame with their moments."""

    def __init__(self, recording: Recording, entered: ev.FrameEntered, begin: float, thread: str) -> None:
        self.name, code = frame_name(recording, entered), frame_code(recording, entered)
        self.place = f"{short_file(code.file)}:{code.first_line}"
        self.begin = self.end = begin
        self.thread = thread
        self.facts: Plain = {"place": self.place, "frame": entered.frame}
        self.inside: list[Slice] = []
        self._open: dict[tuple[int, int], Slice] = {}
        self._phases: list[Slice] = []

    def take(self, event: ev.Event, moment: float) -> None:
        """Add one more event of this frame; events after its end belong to the real run."""
        if "outcome" in self.facts:
            return
        self.end = max(self.end, moment)
        if isinstance(event, ev.InlineEntered):
            place = f"{short_file(event.code.file)}:{event.code.first_line}"
            callee = Slice(plain_name(event.code.qualname), "inlined", moment, moment, self.thread, {"place": place})
            self._open[event.attempt, event.callee] = callee
            self.inside.append(callee)
        elif isinstance(event, ev.InlineLeft):
            if (event.attempt, event.callee) in self._open:
                self._open.pop((event.attempt, event.callee)).end = moment
        elif isinstance(event, ev.PhaseSpan):
            begin = self.begin + event.begin
            self._phases.append(Slice(event.phase, "phase", begin, begin + event.seconds, self.thread, {"place": self.place}))
        elif isinstance(event, ev.SubgraphCompiled):
            self._leave(moment - event.seconds)
            begin = max(moment - event.seconds, self.begin)
            facts = {"place": self.place, "graph": event.graph}
            self.inside.append(Slice(f"backend {event.backend}", "backend", begin, moment, self.thread, facts))
        elif isinstance(event, ev.Recompiled):
            self.facts["recompiled"] = event.reason
        elif isinstance(event, ev.FrameFinished):
            self.facts["outcome"] = event.outcome

    def _leave(self, moment: float) -> None:
        """Close callees that broke, or whose attempt was abandoned: they ended before the backend began."""
        for callee in self._open.values():
            callee.end = max(callee.begin, moment)
        self._open.clear()

    def slices(self) -> Iterator[Slice]:
        """The slice of the frame, and the nested ones."""
        self._leave(self.end)
        yield Slice(self.name, "frame", self.begin, self.end, self.thread, self.facts)
        yield from self._phases or self.inside  # with phases, it is known when the backend ran


def _frames(recording: Recording) -> dict[int, _Frame]:
    frames: dict[int, _Frame] = {}
    passed = 0.0
    seconds = {event.frame: event.seconds for event in recording.of(ev.FrameFinished)}
    for position, event in recording.besides_steps:
        moment = recording.moment(position)
        if isinstance(event, ev.FrameEntered):
            begin, thread = (moment.seconds, moment.thread) if moment is not None else (passed, "MainThread")
            frames[event.frame] = _Frame(recording, event, begin, thread)
            passed += seconds.get(event.frame, 0.0) if moment is None else 0.0
        elif event.frame in frames:
            frame = frames[event.frame]
            if moment is None:  # only the duration of the whole is known
                frame.end = max(frame.end, frame.begin + seconds.get(event.frame, 0.0))
                if isinstance(event, ev.PhaseSpan) and frame.begin + event.begin >= frame.end:
                    continue  # of a backward graph, compiled while others were
            if moment is not None or not isinstance(event, ev.InlineEntered | ev.InlineLeft):
                frame.take(event, moment.seconds if moment is not None else frame.end)
    return frames
