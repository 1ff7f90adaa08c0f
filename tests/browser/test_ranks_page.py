"""The page of several ranks: the overview, and the explorer of the rank that is picked."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from ranks.made_up import made_up_ranks

from browser.pages import Heard

pytestmark = pytest.mark.plain("it shows recordings that are made up")


def test_the_rank_that_is_picked_is_explored(browser: Browser, tmp_path: Path) -> None:
    """The page opens at the rank that differs; another one can be picked; nothing goes wrong, and nothing is fetched."""
    made_up_ranks().save_html(tmp_path / "ranks.html")
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    heard = Heard()
    heard.listen(page)
    page.goto((tmp_path / "ranks.html").as_uri())
    expect(page.locator("#explorer")).to_contain_text("1 recompile")
    expect(page.locator(".verdict .summary")).to_contain_text("rank 1")
    expect(page.locator(".verdict")).to_contain_text("What to do:")
    assert page.locator("svg.lanes rect.again.odd").count() == 1
    assert page.locator("#rank").input_value() == "1"
    explorer = page.locator("#explorer")
    page.get_by_label("Look into").select_option("0")
    expect(explorer).to_contain_text("no recompiles")
    page.close()
    assert heard.errors == []
    assert heard.requests == [(tmp_path / "ranks.html").as_uri()]
