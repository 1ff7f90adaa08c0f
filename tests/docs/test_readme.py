"""README.md: its blocks run and print what it says, its pictures are those that its commands draw, and it is short."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from doc_pages import is_as_said, read, run
from source_tree import ROOT

README = ROOT / "README.md"


def test_blocks_print_what_the_readme_says(tmp_path: Path) -> None:
    """In order, in one process: the functions of one block are known in the next."""
    blocks = read(README)
    assert len(blocks) >= 3
    for block, output in zip(blocks, run(blocks, tmp_path), strict=True):
        if block.says is not None:
            assert is_as_said(block.says, output), f"line {block.line} prints\n{output}\nand says\n{block.says}"


def test_pictures_are_those_that_the_script_draws() -> None:
    """From recordings made now, and from the table that holds the numbers; all are light."""
    text = README.read_text(encoding="utf-8")
    for name, draw in runpy.run_path(str(ROOT / "scripts" / "readme_pictures.py"))["PICTURES"].items():
        picture = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert picture == draw()
        assert len(picture) < 200_000 and f"docs/pictures/{name}.svg" in text
    screenshot = ROOT / "docs" / "pictures" / "overview.png"
    assert screenshot.stat().st_size < 300_000 and "docs/pictures/overview.png" in text


@pytest.mark.plain("compares two texts")
def test_the_chart_is_described_in_its_numbers() -> None:
    """Who does not see the chart reads the same numbers."""
    chart = (ROOT / "docs" / "pictures" / "beside_torch_compile.svg").read_text(encoding="utf-8")
    (words,) = re.findall(r"!\[([^\]]*)\]\(docs/pictures/beside_torch_compile\.svg\)", README.read_text(encoding="utf-8"))
    assert set(re.findall(r"([\d.]+) µs", words)) == set(re.findall(r">([\d.]+) µs<", chart))


@pytest.mark.plain("the form of a page")
def test_it_is_short() -> None:
    """Under 120 lines, and no table has more than ten rows."""
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") < 120
    assert all(len(table.splitlines()) <= 12 for table in re.findall(r"(?:^\|.*\n)+", text, re.M))
