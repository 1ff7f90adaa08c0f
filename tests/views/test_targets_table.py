"""views/targets_table.py: which frames belong to which captured function."""

from __future__ import annotations

import torch

from dynexplore import config, explain
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import Targets
from dynexplore.views.targets_table import functions_of


def outer(x: torch.Tensor) -> torch.Tensor:
    """Calls another function behind a break."""
    print(end="")
    return inner(x + 1)


def inner(x: torch.Tensor) -> torch.Tensor:
    """Breaks, too."""
    print(end="")
    return x * 2


def test_all_frames_of_a_call_belong_to_its_target() -> None:
    """Resume functions and callees behind a break count for the function that the program called."""
    capture = ProgramCapture("p.py", Targets())
    capture.run(lambda: outer(torch.ones(2)))
    (only,) = functions_of(capture.recording)
    assert (only.name, only.calls, only.graphs, only.operators) == ("outer", 1, len(capture.recording.graphs), 2)
    assert only.place == f"test_targets_table.py:{outer.__code__.co_firstlineno}"
    assert set(only.frames) == {entered.frame for entered in capture.recording.frames}
    assert only.breaks == len(capture.recording.breaks) and only.seconds > 0


def test_without_targets_frames_belong_to_the_function_that_they_resume() -> None:
    """In a recording of one function, or of torch.compile, each function that was entered has a row."""
    with config.patch(nested_graph_breaks=False):
        recording = explain(outer, torch.ones(2)).recording
    rows = {one.name: one for one in functions_of(recording)}
    assert set(rows) == {"outer", "inner"} and all(one.calls == 0 for one in rows.values())
    assert rows["inner"].file == __file__ and rows["inner"].first_line == inner.__code__.co_firstlineno
    part = recording.only_frames(set(rows["inner"].frames))
    assert [one.name for one in functions_of(part)] == ["inner"] and len(part.graphs) == rows["inner"].graphs
