"""The illustrated registry: its pages are those of the tables, and torch.compile breaks where they say so."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from docs.breaks.acceptable import ACCEPTABLE
from docs.breaks.torch_breaks import ROWS, TorchBreak
from dynexplore.engine import events as ev
from dynexplore.engine.graph_breaks import KINDS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "breaks"
REGISTRY = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
EVERY_TENTH = [pytest.param(row, id=row.id, marks=() if place % 10 == 0 else pytest.mark.soak) for place, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """scripts/break_pages.py, which writes the pages and runs the programs."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import break_pages

    yield break_pages
    sys.path.remove(str(ROOT / "scripts"))


def test_the_pages_are_up_to_date(script: Any) -> None:
    """Each page is what `python scripts/break_pages.py` writes, and there is no other."""
    written = {page.name: page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")}
    assert written == script.pages()


@pytest.mark.plain("the pages, and the tables they come from")
def test_each_kind_has_a_page_and_fifty_of_torch_compile() -> None:
    """Every id of the engine, and fifty of torch.compile, which reports link to."""
    ids = {*KINDS, *(row.id for row in ROWS)}
    assert {page.stem for page in FOLDER.glob("*.md")} == {"index", *(id.lower() for id in ids)}
    assert set(ACCEPTABLE) == set(KINDS)
    assert len(ROWS) == len({row.id for row in ROWS}) == 50
    for id in ids:
        page, _, anchor = ev.page_of_kind(id).partition("#")
        assert (ROOT / page).is_file() and (not anchor or f'id="{anchor}"' in (ROOT / page).read_text(encoding="utf-8"))
    assert ev.page_of_kind("GB0001") == ev.torch_page("GB0001") != ""


@pytest.mark.plain("the pages, and the tables they come from")
def test_the_titles_are_those_of_torch_and_the_programs_are_short() -> None:
    """A title is what torch's message says, a program fits on a few lines, and the most frequent come first."""
    titles = {id: {entry["Gb_type"] for entry in entries} for id, entries in json.loads(REGISTRY.read_text()).items()}
    assert [row.id for row in ROWS if row.title not in titles[row.id]] == []
    assert max(len(row.example.strip().splitlines()) for row in ROWS) <= 9
    hits = [(row.models, row.files) for row in ROWS]
    assert hits == sorted(hits, reverse=True)


@pytest.mark.lenses
@pytest.mark.plain("torch.compile captures here, and dynexplore only watches")
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of some of these breaks, and pytest makes errors of warnings
@pytest.mark.parametrize("row", EVERY_TENTH)
def test_torch_compile_breaks_there_and_not_after_the_fix(row: TorchBreak, script: Any) -> None:
    """The program breaks for the reason in the title; fixed, it is one graph with the same value and output as eager."""
    torch.compiler.reset()
    breaks = script.explained(row.id, row.example, "torch.compile").recording.breaks
    if row.version:
        assert not breaks
    else:
        assert any(broke.kind == row.id or row.title in broke.title for broke in breaks)
    torch.compiler.reset()
    with script.loaded("before.py", row.example) as before, script.loaded("after.py", row.fixed) as after:
        expected = result(before)
        with dynexplore.explain(after[row.compiled], engine="torch.compile") as after[row.compiled]:
            assert result(after) == expected
        explanation = after[row.compiled].explanation
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def result(program: dict[str, Any]) -> tuple[Any, str]:
    """What the program's `f` returns and prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = program["f"](*program.get("args", (torch.ones(3),)))
    return plain(value), printed.getvalue()


def plain(value: Any) -> Any:
    """A value to compare with that of another program."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value
