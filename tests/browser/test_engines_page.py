"""The page of two engines: it opens where they part, a step in one explorer moves the other, buttons lead to all differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import dynexplore
from browser.axe_core import found_by_axe
from browser.pages import Heard
from dynamo_ban import lifted

pytestmark = pytest.mark.lenses


def asks_for_a_break(x: Any, n: Any) -> Any:
    """Asks this engine alone for a break."""
    y = torch.relu(x) * n
    dynexplore.graph_break()
    return (y + 1).sum()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page."""
    path = tmp_path_factory.mktemp("two") / "two.html"
    with lifted():
        dynexplore.compare_engines(asks_for_a_break, torch.ones(2), 2).save_html(path)
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The page, in which nothing may go wrong, and which asks for nothing."""
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    heard = Heard()
    heard.listen(page)
    page.goto(file.as_uri())
    page.wait_for_function("'dynexplore' in globalThis")
    yield page
    page.close()
    assert heard.errors == []
    assert heard.requests == [file.as_uri()]


def places(page: Page) -> Any:
    """The line that each explorer shows as the one at hand."""
    return page.evaluate("dynexplore.explorers.map(({ frame, position }) => frame.states[position].offset)")


def test_it_opens_where_the_two_part(page: Page) -> None:
    """Both explorers stand at the instruction before which only this engine ends the graph, and the sentence says so."""
    theirs, ours = places(page)
    assert theirs == ours
    expect(page.locator(".dynx-together-said")).to_contain_text("dynexplore ends the graph here")
    names = page.locator(".dynx-together > section > h2").all_inner_texts()
    assert names == ["torch.compile", "dynexplore"]


def test_a_step_in_one_moves_the_other(page: Page) -> None:
    """Back by the keyboard in one explorer, and both stand at the instruction before; where only one came, the other waits."""
    before = places(page)[0]
    page.locator(".dynexplore").nth(1).press("ArrowLeft")
    theirs, ours = places(page)
    assert theirs == ours < before
    expect(page.locator(".dynx-together-said")).to_have_text("Both engines reached this step.")
    alone = page.evaluate("dynexplore.beside.pairs.findIndex(([, state, , other]) => state >= 0 && other < 0)")
    assert alone > 0
    page.evaluate("dynexplore.explorers[0].show(dynexplore.explorers[0].frame, dynexplore.beside.pairs[%d][1])" % alone)
    expect(page.locator(".dynx-together-said")).to_contain_text("torch.compile alone came here.")
    assert places(page)[1] == ours or places(page)[1] == before


def test_buttons_lead_from_difference_to_difference(page: Page) -> None:
    """Each press says the next difference; behind the last one there is none, and that is said."""
    said = page.locator(".dynx-together-said")
    first = said.inner_text()
    page.get_by_role("button", name="Next difference").click()
    expect(said).not_to_have_text(first)
    for _ in range(100):
        page.get_by_role("button", name="Next difference").click()
    expect(said).to_have_text("No differences after this step.")


def test_nothing_is_out_of_reach(page: Page) -> None:
    """axe-core finds nothing serious."""
    assert found_by_axe(page) == []
