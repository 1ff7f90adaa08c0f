"""Seconds of compilation that each graph break made necessary: what continues after it is a frame of its own.

In:  a Recording. Out: `seconds_of_breaks(recording)`, by frame.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections import defaultdict

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording


def seconds_of_breaks(recording: Recording) -> dict[int, float]:
    """Frame -> the seconds that its resume functions took to compile for the first time; what recompiled costs by itself."""
    finished = {event.frame: event.seconds for event in recording.of(ev.FrameFinished)}
    again = {event.frame for event in recording.of(ev.Recompiled)}
    seconds: defaultdict[int, float] = defaultdict(float)
    for entered in recording.frames:
        if entered.parent is not None and entered.code.resumes >= 0 and entered.frame not in again:
            seconds[entered.parent] += finished.get(entered.frame, 0.0)
    return seconds
