"""Lists of the explorer that are long: only the rows in view stand in the page, and nothing else is different."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from browser.large import large
from browser.pages import Opened, pane, tab

ROWS = ".dynx-graph tbody tr:not(.dynx-gap)"


@pytest.fixture
def page(opened: Opened) -> Page:
    """A graph of 3,000 nodes."""
    page = opened(large(nodes=3000))
    tab(page, "graph")
    return page


def in_view(page: Page, text: str) -> bool:
    """Whether the row that begins with this name stands where it can be seen."""
    row = page.locator(ROWS).filter(has=page.get_by_role("cell", name=text, exact=True))
    inside = "e => { const r = e.getBoundingClientRect(), b = e.closest('.dynx-body').getBoundingClientRect();"
    return row.count() == 1 and bool(row.evaluate(inside + "return r.top >= b.top && r.bottom <= b.bottom; }"))


def test_few_rows_stand_in_the_page(page: Page) -> None:
    """Of 3,000 rows less than 200, and whoever asks hears how many there are."""
    assert page.locator(ROWS).count() < 200
    assert pane(page, "graph", " table").get_attribute("aria-rowcount") == "3000"
    assert page.locator(ROWS).nth(5).get_attribute("aria-rowindex") == "6"


def test_scrolling_brings_the_others(page: Page) -> None:
    """At any place of the list the rows that belong there are drawn, to its end."""
    body = pane(page, "graph", " .dynx-body")
    for part, name in ((0.5, "n1500"), (0, "n0"), (1, "n2999")):
        body.evaluate("(e, part) => { e.scrollTop = part * (e.scrollHeight - e.clientHeight); }", part)
        expect(page.locator(ROWS).filter(has=page.get_by_role("cell", name=name, exact=True))).to_have_count(1)
        assert page.locator(ROWS).count() < 200
    assert in_view(page, "n2999")


def test_what_is_chosen_comes_into_view(page: Page) -> None:
    """A row that does not stand in the page is drawn, lit and scrolled to when it is chosen elsewhere."""
    page.evaluate("dynexplore.choose('node:1:n2345')")
    assert in_view(page, "n2345")
    expect(pane(page, "graph", " .dynx-chosen")).to_contain_text("n2345")
    page.evaluate("dynexplore.choose('node:1:n7')")
    assert in_view(page, "n7")
    expect(pane(page, "graph", " .dynx-chosen")).to_have_count(1)


def test_no_row_is_cut_by_the_tables_head(page: Page) -> None:
    """A row that is brought into view stands below whole rows: none is half hidden by the head, which stays."""
    cut = """() => {
      const head = document.querySelector('.dynx-graph th').getBoundingClientRect();
      return [...document.querySelectorAll('.dynx-graph tbody tr:not(.dynx-gap)')].filter((row) => {
        const { top, bottom } = row.getBoundingClientRect();
        return top < head.bottom - 1.5 && bottom > head.bottom + 1.5;
      }).length;
    }"""
    for height, name in ((300, "n2345"), (307, "n1201"), (313, "n777")):  # panes of a file and of JupyterLab differ in height
        page.evaluate("height => dynexplore.root.style.setProperty('--dynx-tab-height', `${height}px`)", height)
        page.evaluate("name => dynexplore.choose(`node:1:${name}`)", name)
        assert in_view(page, name)
        assert page.evaluate(cut) == 0


def test_marks_are_there_after_scrolling(page: Page) -> None:
    """Rows that come into the page later have the marks of what was chosen before."""
    page.evaluate("dynexplore.choose('node:1:n7')")
    body = pane(page, "graph", " .dynx-body")
    body.evaluate("e => { e.scrollTop = e.scrollHeight; }")
    expect(pane(page, "graph", " .dynx-chosen")).to_have_count(0)
    body.evaluate("e => { e.scrollTop = 0; }")
    expect(pane(page, "graph", " .dynx-chosen")).to_contain_text("n7")


def test_search_finds_rows_that_are_not_drawn(page: Page) -> None:
    """All rows are counted, and Enter leads to them one after the other."""
    page.get_by_role("searchbox").fill("n277")
    expect(page.locator(".dynx-hits")).to_have_text("11 found")  # n277, n2770 to n2779
    page.keyboard.press("Enter")
    expect(page.locator(".dynx-hits")).to_have_text("1 of 11")
    assert in_view(page, "n277")
    page.keyboard.press("Enter")
    assert in_view(page, "n2770")


def test_keys_stay_inside_when_the_row_goes(page: Page) -> None:
    """A row with the focus that is scrolled away leaves it to the pane: keys do not reach the notebook."""
    page.locator(ROWS).nth(3).click()
    page.locator(ROWS).nth(3).focus()
    pane(page, "graph", " .dynx-body").evaluate("e => { e.scrollTop = e.scrollHeight; }")
    expect(page.locator(ROWS).last).to_contain_text("n2999")
    assert page.evaluate("document.activeElement.closest('.dynexplore') !== null")
