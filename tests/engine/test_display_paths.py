"""engine/display_paths.py: cells of a notebook go by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import dynexplore
from dynexplore.engine.display_paths import shown_file


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """IPython, as a notebook's kernel has it."""
    made = InteractiveShell.instance(history_length=0)
    made.history_manager.enabled = False
    yield made
    InteractiveShell.clear_instance()


def test_a_cell_is_told_by_its_number(shell: InteractiveShell) -> None:
    """Code, breaks and nodes of a cell's function name the cell; other files are as they were."""
    shell.user_ns["torch"] = torch
    shell.run_cell("def f(x):\n    x = x + 1\n    print('in between')\n    return x * 2", store_history=True)
    recording = dynexplore.explain(shell.user_ns["f"], torch.ones(2)).recording
    assert {entered.code.file for entered in recording.frames} == {"In [1]"}
    assert recording.breaks[0].user_stack[-1].place == "In [1]:3 in f"
    assert {node.file for graph in recording.graphs for node in graph.nodes if node.op == "call_function"} == {"In [1]"}
    assert recording.frames[0].code.source.startswith("def f(x):")
    assert shown_file(__file__) == __file__


@pytest.mark.plain("asks for the name of a file")
def test_without_a_notebook_nothing_changes() -> None:
    """Where no shell runs a path stays a path."""
    assert shown_file("<ipython-input-1-abc>") == "<ipython-input-1-abc>"
