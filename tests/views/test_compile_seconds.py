"""views/compile_seconds.py: what each break made necessary to compile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views.compile_seconds import seconds_by_frame, seconds_of_breaks


def breaks(x: torch.Tensor) -> torch.Tensor:
    """Breaks once."""
    x = x + 1
    print(end="")
    return x * 2


def test_a_break_costs_what_its_resume_function_took_to_compile() -> None:
    """The seconds of the resume function, for the first time only: a recompile costs by itself."""
    recording = dynexplore.explain(breaks).calls(torch.ones(2), torch.ones(2, dtype=torch.float64)).recording
    first, resumed = (one.frame for one in recording.frames[:2])
    spent = sum(one.seconds for one in recording.of_frame(resumed, ev.FrameFinished))
    assert spent > 0
    assert {frame: seconds.all for frame, seconds in seconds_of_breaks(recording).items()} == {first: spent}


def test_a_compilation_is_split_into_tracing_and_the_backend() -> None:
    """Both are told of each frame, and together they are all of it."""
    recording = dynexplore.explain(breaks, torch.ones(2), backend=_sleepy).recording
    for frame, seconds in seconds_by_frame(recording).items():
        assert 0.05 <= seconds.backend <= seconds.all and seconds.trace + seconds.backend == pytest.approx(seconds.all)
        assert recording.of_frame(frame, ev.FrameFinished)[0].seconds == seconds.all


def _sleepy(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A backend that takes its time."""
    time.sleep(0.05)
    return graph.forward
