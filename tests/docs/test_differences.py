"""docs/differences.md: each known difference from plain Python has an id of its own."""

from __future__ import annotations

import re

import pytest

from source_tree import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")


@pytest.mark.plain("a list in a page")
def test_each_difference_has_an_id() -> None:
    """Ids are numbered without gaps, in any order, and each is an anchor that a link can name."""
    rows = re.findall(r"^- (.*)$", PAGE, re.MULTILINE)
    ids = [f"{number:02}" for number in range(1, len(rows) + 1)]
    assert sorted(row[: row.find("DIFF") + 6] for row in rows) == [f'<a id="diff{number}"></a>**DIFF{number}' for number in ids]
