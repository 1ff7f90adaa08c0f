"""The site as `make docs` built it, opened from the disk: nothing is asked of any host, nothing fails, and its explorers live.

`make docs` first; then `pytest -m soak tests/browser/test_site.py`, as .ci/run does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from browser.axe_core import found_by_axe
from browser.pages import Heard, status

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
ALL_PAGES = [page.relative_to(SITE) for page in sorted(SITE.rglob("*.html")) if page.parent.name != "explorers"]
# The pages of the registry of graph breaks are written by one function for each engine: the index and two of them stand for all.
PAGES = [str(page) for page in ALL_PAGES if page.parent.name != "breaks" or page.stem in ("index", "dx104", "gb0170")]
MOST_BYTES = 1_500_000

pytestmark = [pytest.mark.soak, pytest.mark.plain("a site that was built before")]


class Visit:
    """A page of the site, and what it asked for and complained of while it was open."""

    def __init__(self, page: Page) -> None:
        self.page, self.heard = page, Heard()
        self.heard.listen(page)

    def open(self, name: str) -> Page:
        self.page.goto((SITE / name).as_uri() if "?" not in name else SITE.as_uri() + "/" + name)
        self.page.wait_for_load_state("networkidle")
        return self.page

    @property
    def files(self) -> list[Path]:
        """The files of the site that were asked for."""
        return [Path(unquote(urlsplit(url).path)) for url in set(self.heard.requests) if url.startswith("file:")]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """At its end nothing was said in the console, and nothing was asked of a host."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    made = Visit(context.new_page())
    yield made
    context.close()
    assert made.heard.errors == []
    assert [url for url in made.heard.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def test_the_site_was_built() -> None:
    """`make docs` left it in docs/_build/html."""
    assert len(ALL_PAGES) > 140, f"{SITE} holds {len(ALL_PAGES)} pages: run make docs first"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_and_can_be_used_by_all(visit: Visit, name: str) -> None:
    """No error, no request of a host; axe-core finds nothing serious."""
    page = visit.open(name)
    assert page.evaluate("document.activeElement.tagName") == "BODY", "a frame took the keyboard"
    visit.heard.end()  # axe itself asks for style sheets and speaks to frames, which a browser refuses on a disk, some time later
    assert found_by_axe(page) == []


def test_the_front_page_is_small_and_its_explorer_steps(visit: Visit) -> None:
    """All that it loads is bounded, and in the frame the keys of the explorer work."""
    page = visit.open("index.html")
    assert sum(path.stat().st_size for path in visit.files) <= MOST_BYTES
    frame = page.frames[1]
    frame.locator(".dynexplore").click(position={"x": 5, "y": 5})
    frame.page.keyboard.press("Home")
    before = frame.locator(".dynx-status").inner_text()
    page.keyboard.press("b")
    assert "graph break: " in frame.locator(".dynx-status").inner_text() != before


def test_explorers_load_when_they_come_into_view(visit: Visit) -> None:
    """A page of many explorers asks only for those that a reader may see soon."""
    page = visit.open("gallery/models.html")
    assert page.locator("iframe").count() >= 2 and len(page.frames) - 1 <= page.locator("iframe").count()
    assert page.locator("iframe:not([loading=lazy])").count() == 0
    assert all(title for title in page.locator("iframe").evaluate_all("frames => frames.map(frame => frame.title)"))


def test_each_explorer_has_a_page_of_its_own(visit: Visit) -> None:
    """The link below a frame opens it, with the keyboard in it."""
    page = visit.open("gallery/models.html")
    page.locator(".dynx-live a").first.click()
    page.locator(".dynx-verdict-line").wait_for()  # no wait_for_function: these pages forbid the eval of its second try
    assert "explorers/decoder.html" in page.url
    page.keyboard.press("2")
    assert status(page)


def test_the_search_finds_words_of_tutorials_and_pages(visit: Visit) -> None:
    """From the disk, too: the index is a script."""
    page = visit.open("search.html?q=resume")
    page.wait_for_selector("#search-results li a")
    titles = page.locator("#search-results li a").all_inner_texts()
    assert any(title.startswith("05 ") for title in titles), titles
