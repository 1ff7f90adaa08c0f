"""The line of the program that led to a frame, where the compiled function is a library's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from recorded import recorded

from dynexplore.engine.events import GraphBroke
from dynexplore.views.break_places import place_words

LIBRARY = """
def halve(x):
    if x.sum() > 0:
        return x / 2
    return x
"""


@pytest.fixture
def library(tmp_path: Path) -> Iterator[ModuleType]:
    """A module in a folder of packages."""
    file = tmp_path / "site-packages" / "halves.py"
    file.parent.mkdir()
    file.write_text(LIBRARY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("halves", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["halves"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["halves"]


def test_a_break_in_a_compiled_library_function_prints_the_line_that_called_it(library: ModuleType) -> None:
    """The event holds the caller, so that it needs no recording to name it."""
    recording = recorded(library.halve, (torch.ones(3),))
    (broke,) = [event for event in recording.events if isinstance(event, GraphBroke)]
    assert broke.caller is not None
    assert f"from  {broke.caller.place}" in broke.report()
    assert place_words(broke).startswith("recorded.py:")


def own(x: torch.Tensor) -> torch.Tensor:
    return x / 2 if x.sum() > 0 else x


def test_a_break_in_the_program_needs_no_caller() -> None:
    """Its own stack has the line."""
    recording = recorded(own, (torch.ones(3),))
    (broke,) = [event for event in recording.events if isinstance(event, GraphBroke)]
    assert broke.caller is None
