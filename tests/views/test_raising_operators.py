"""views/raising_operators.py: the operators of the line at which a compiled graph raised, as the explorer marks them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.events import ProgramEnded
from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.raising_operators import raising_operators


def looks_up(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    rows = table * 2
    picked = torch.index_select(rows, 0, index)
    return picked.sum(-1) + 1


def only_looks_up(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.index_select(table, 0, index)


def raised(fn: Any) -> Recording:
    """The recording of a call whose graph raises."""
    with dynexplore.explain(fn) as explained, pytest.raises(IndexError):
        explained(torch.ones(4, 8), torch.tensor([0, 9]))
    recording: Recording = explained.explanation.recording
    return recording


def names(recording: Recording) -> list[str]:
    return [node.name for node in raising_operators(recording, 1)]


def test_the_line_of_the_error_names_its_operators() -> None:
    """Nothing is known before the program says where it ended; then it is each operator of that line."""
    recording = raised(looks_up)
    assert names(recording) == []
    line = next(node.line for node in recording.graphs[0].nodes if node.name == "index_select")
    recording.record(ProgramEnded(frame=0, status=1, error="IndexError: index out of range in self", file=__file__, line=line))
    assert names(recording) == ["index_select"]
    (frame,) = explorer_data(recording)["frames"]
    assert frame["raised"]["error"].startswith("IndexError: ") and len(frame["raised"]["at"]) == 1


def test_a_graph_of_one_operator_needs_no_line() -> None:
    """It can only be that one."""
    assert names(raised(only_looks_up)) == ["index_select"]


def test_a_graph_that_ran_marks_nothing() -> None:
    """No run of it failed."""
    recording = dynexplore.explain(looks_up, torch.ones(4, 8), torch.tensor([0, 1])).recording
    assert raising_operators(recording, 1) == []
    assert all("raised" not in frame for frame in explorer_data(recording)["frames"])
