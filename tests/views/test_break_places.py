"""views/break_places.py: the user's line first, a library's line after it, in whatever shows a break."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore import explain
from dynexplore.recording.recording import Recording
from dynexplore.tools.compilation_profiler import CompilationProfiler
from dynexplore.views import text
from dynexplore.views.break_places import place_words
from dynexplore.views.capture_difference import difference
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.split_picture import split_text

LIBRARY = """
from torch import nn

def shown(x):
    print(end='')
    return x + 1

class Shows(nn.Module):
    def forward(self, x):
        return shown(x)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package with a function that breaks graphs, and a module that calls it."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "prints_tensors.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(__import__("sys").modules, "prints_tensors", raising=False)
    return importlib.import_module("prints_tensors")


def _calls(shown: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def calls(x: Any) -> Any:
        return shown(x * 2)

    return calls


SHOWS = {
    "records": lambda recording, calls: repr(recording.breaks),
    "report": lambda recording, calls: text.explanation(recording),
    "difference": lambda recording, calls: str(difference(Recording(), 1, recording, _breaking_frame(recording))),
    "split": lambda recording, calls: split_text(recording),
    "explorer": lambda recording, calls: str(explorer_data(recording)["overview"]["rows"]),
    "breaks": lambda recording, calls: str(dynexplore.all_breaks(calls, torch.ones(2))),
    "profiler": lambda recording, calls: _profiled(calls),
}
"""What shows a break -> its words."""


def _breaking_frame(recording: Recording) -> int:
    return recording.breaks[0].frame


def _profiled(calls: Callable[[Any], Any]) -> str:
    profiler = CompilationProfiler()
    dynexplore.optimize(profiler)(calls)(torch.ones(2))
    return str(profiler.report())


@pytest.mark.parametrize("where", SHOWS)
def test_the_users_line_stands_before_that_of_a_library(library: Any, where: str) -> None:
    """Of a library's function that breaks the line that calls it comes first."""
    calls = _calls(library.shown)
    words = SHOWS[where](explain(calls, torch.ones(2)).recording, calls)
    own = calls.__code__.co_firstlineno + 1
    assert str(own) in words, words
    before = words.partition("prints_tensors.py")[0]
    assert f"{Path(__file__).name}:{own}" in before or f'{Path(__file__).name}", line {own}' in before or f"line {own}" in before


@pytest.mark.parametrize("where", ["records", "report", "difference", "explorer"])
def test_of_a_module_of_a_library_the_line_that_calls_it(library: Any, where: str) -> None:
    """No line of the user's stands in the frame: the one that made the call is named."""
    model: nn.Module = library.Shows()
    explanation = explain(model, torch.ones(2))
    words = SHOWS[where](explanation.recording, model)
    assert Path(__file__).name in words.partition("prints_tensors.py")[0], words


def test_a_table_of_breaks_is_copied_without_its_recording(library: Any) -> None:
    """The records are the same, and no recording is dragged along."""
    breaks = explain(_calls(library.shown), torch.ones(2)).recording.breaks
    assert breaks.recording is not None  # type: ignore[attr-defined]
    for again in (copy.copy(breaks), pickle.loads(pickle.dumps(breaks))):
        assert again == breaks and type(again) is type(breaks) and again.recording is None


def test_an_event_alone_names_the_line_that_called_the_library(library: Any) -> None:
    """It holds the caller, and needs no recording for it."""
    breaks = explain(library.Shows(), torch.ones(2)).recording.breaks
    for words in map(place_words, breaks):
        assert words.startswith("test_break_places.py:") and "(prints_tensors.py:5 in shown)" in words
    assert breaks
