"""views/cuda_graphs.py: what became of CUDA graphs, in a line for each reason, and as plain data."""

from __future__ import annotations

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.cuda_graphs import cuda_graph_lines, cuda_graphs_of

pytestmark = pytest.mark.plain("events made by hand are shown")


def logged(*outcomes: tuple[str, str]) -> Recording:
    """A recording with an event for each outcome and reason."""
    recording = Recording(title="made by hand")
    for outcome, reason in outcomes:
        recording.record(ev.CudaGraphLogged(frame=0, outcome=outcome, reason=reason))
    return recording


def test_reasons_are_counted() -> None:
    """The first line counts, each reason follows once, the most frequent first."""
    many = ("warned", "9 sizes")
    recording = logged(("recorded", ""), ("skipped", "cpu device"), many, many, ("re-recorded", "moved"))
    assert cuda_graph_lines(recording) == [
        "CUDA graphs: 1 recorded, 1 skipped.",
        "  Expensive: 9 sizes (2 times)",
        "  Skipped: cpu device",
        "  Recorded again: moved",
    ]
    assert cuda_graph_lines(recording, 1)[-1] == "  ... and 2 more reasons (--full)"
    assert [(row["outcome"], row["times"]) for row in cuda_graphs_of(recording)] == [
        ("recorded", 1), ("skipped", 1), ("warned", 2), ("re-recorded", 1),
    ]  # fmt: skip


def test_a_single_call_only_warms_up() -> None:
    """A program that calls its function once is told when torch records; without any message there is nothing to say."""
    assert cuda_graph_lines(logged(("warmed up", ""))) == [
        "CUDA graphs: 0 recorded, 0 skipped. 1 part only warmed up: torch records in the second call."
    ]
    assert cuda_graph_lines(logged()) == []
