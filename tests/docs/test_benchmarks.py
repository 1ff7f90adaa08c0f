"""docs/reference/benchmarks.md: its table has what `dynexplore bench` offers, no more and no less."""

from __future__ import annotations

import re

import pytest

from source_tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.plain("a table in a page")
def test_each_benchmark_has_a_row() -> None:
    """A benchmark is a file of benchmarks/, and says in the table what it measures."""
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
