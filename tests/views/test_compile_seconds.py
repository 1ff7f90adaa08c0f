"""views/compile_seconds.py: what each break made necessary to compile."""

from __future__ import annotations

import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views.compile_seconds import seconds_of_breaks


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
    assert dict(seconds_of_breaks(recording)) == {first: spent}
