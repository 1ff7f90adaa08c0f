"""docs/names.md: what people write for torch.compile has the name here that the table says, and it runs."""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore

PAGE = Path(__file__).parents[2] / "docs" / "names.md"
ROW = re.compile(r"^\| .* \| `([^`]*(?:x\)|f\(x\)|\(x\))[^`]*)`.* \|$", re.MULTILINE)
TABLE = PAGE.read_text(encoding="utf-8").partition("A test runs each row")[2].partition("has no counterpart")[0]


def undecorated(x: Any) -> Any:
    return x * 2


@pytest.fixture(autouse=True)
def _stance_of_before() -> Any:
    yield
    dynexplore.stance("default")


@pytest.mark.plain("a table in a page")
def test_the_table_is_found() -> None:
    """Every row of the tables holds a program, so none is left out below."""
    assert len(ROW.findall(TABLE)) == TABLE.count("\n|") - 2 * TABLE.count("|---|---|") > 10


@pytest.mark.plain("that names exist and take what people give; what they do is tested where they live")
@pytest.mark.parametrize("program", ROW.findall(TABLE))
def test_a_row_runs(program: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """The right column, as it stands there."""
    f = dynexplore.optimize("eager")(undecorated)
    names = {"dynexplore": dynexplore, "torch": torch, "logging": logging, "pickle": pickle}
    exec(program, {**names, "f": f, "x": torch.ones(4, 3), "model": torch.nn.Linear(3, 2)})
