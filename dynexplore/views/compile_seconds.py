"""Compile time: of each frame, by phase, and of the code that graph breaks made necessary.

The idea: the backend's time is recorded per graph. The rest of a frame's compile time is the engine's own work: tracing,
guards, code generation.

In: a Recording. Out: `seconds_by_frame(recording)`; `seconds_of_breaks(recording)`, by the frame that broke;
`frames_after_breaks(recording)`, the frames that these seconds are of. PyTorch's counterpart: `compile_times` in
torch/_dynamo/utils.py, which does not relate times to the program.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording


@dataclass(frozen=True, slots=True)
class Seconds:
    """The compile time in total, and of the backend."""

    all: float = 0.0
    backend: float = 0.0

    @property
    def trace(self) -> float:
        """The engine's own time."""
        return max(self.all - self.backend, 0.0)

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.all + other.all, self.backend + other.backend)


def seconds_by_frame(recording: Recording) -> dict[int, Seconds]:
    """Frame -> its compile time.

    >>> recording = Recording()
    >>> recording.record(ev.FrameFinished(frame=1, outcome="compiled", seconds=3.0))
    >>> recording.record(ev.PhaseTimed(frame=1, phase="backend", seconds=2.0))
    >>> seconds_by_frame(recording)[1].trace
    1.0
    """
    backend: defaultdict[int, float] = defaultdict(float)
    phases = {timed.frame: timed.seconds for timed in recording.of(ev.PhaseTimed) if timed.phase == "backend"}
    for compiled in recording.of(ev.SubgraphCompiled):
        backend[compiled.frame] += compiled.seconds
    finished = recording.of(ev.FrameFinished)
    return {event.frame: Seconds(event.seconds, phases.get(event.frame, backend[event.frame])) for event in finished}


def seconds_of_breaks(recording: Recording) -> dict[int, Seconds]:
    """Frame -> the time of first compiling its resume functions; recompiles are counted separately."""
    of_frames = seconds_by_frame(recording)
    seconds: defaultdict[int, Seconds] = defaultdict(Seconds)
    for parent, frames in frames_after_breaks(recording).items():
        for frame in frames:
            seconds[parent] += of_frames.get(frame, Seconds())
    return seconds


def frames_after_breaks(recording: Recording) -> dict[int, list[int]]:
    """Frame -> the frames in which its resume functions were first compiled."""
    again = {event.frame for event in recording.of(ev.Recompiled)}
    frames: defaultdict[int, list[int]] = defaultdict(list)
    for entered in recording.frames:
        if entered.parent is not None and entered.code.resumes >= 0 and entered.frame not in again:
            frames[entered.parent].append(entered.frame)
    return frames
