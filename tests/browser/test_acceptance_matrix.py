"""The screen at every size and in every theme, for twelve recordings: five views, with pixels, geometry and axe-core.

Which idea lives here: test_acceptance.py looks at three recordings in one theme in seconds, and this at all of them in minutes.
`pytest -m soak tests/browser/test_acceptance_matrix.py` runs it. With `DYNEXPLORE_SCREENSHOTS=FOLDER`, it saves a screenshot of
each view at each size.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.axe_core import found_by_axe
from browser.pages import Opened, resize
from browser.test_acceptance import CUT, DRAWN, INTERNAL, SIZES
from browser.test_diagram import BEHIND as BEHIND_IN_DIAGRAM
from browser.test_story_view import BEHIND, PLACES
from browser.twelve import RECORDINGS

pytestmark = pytest.mark.soak

PICTURES = os.environ.get("DYNEXPLORE_SCREENSHOTS")

THEMES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "high contrast": {"forced_colors": "active"},
}

CLIPPED = """() => [...dynexplore.root.querySelectorAll('*')].filter((e) => {
  const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!text || !e.checkVisibility() || e.closest('svg, .dynx-unseen, option') || e.matches('input, select')) return false;
  const { overflowX, overflowY } = getComputedStyle(e), hides = (how) => how === 'hidden' || how === 'clip';
  const isCut = hides(overflowX) && e.scrollWidth > e.clientWidth + 1 || hides(overflowY) && e.scrollHeight > e.clientHeight + 3;
  return isCut && e.clientHeight && !e.closest('[title]');
}).map((e) => e.className + ': ' + e.textContent)"""
"""Texts that are cut, and that no pointer tells as a whole."""

EDGES = {"2": (".dynx-growing svg", BEHIND), "3": (".dynx-figure svg", BEHIND_IN_DIAGRAM)}
"""Key of a view -> its drawing, and where edges run behind boxes of it."""


def seen(page: Page, key: str) -> dict[str, Any]:
    """What is wrong with the view that this key opens."""
    page.keyboard.press(key)
    page.wait_for_timeout(50)
    problems = {"cut": page.evaluate(CUT), "small": page.evaluate(DRAWN), "clipped": page.evaluate(CLIPPED)}
    drawing, behind = EDGES.get(key, ("", ""))
    if drawing and page.locator(drawing).count():
        problems["edges"] = page.evaluate(behind)
    if key != "2":  # the story shows instructions and the program's own text
        problems["names"] = page.evaluate(f"() => [...(dynexplore.root.innerText.match({INTERNAL}g) ?? [])]")
    return {name: wrong for name, wrong in problems.items() if wrong}


def moved(page: Page) -> list[str]:
    """Keys of the story after which a pane stands elsewhere."""
    page.keyboard.press("2")
    page.keyboard.press("Home")
    before = page.evaluate(PLACES)
    moving: list[str] = []
    for key in [*["ArrowRight"] * 8, "b", "End"]:
        page.keyboard.press(key)
        moving += [key] if page.evaluate(PLACES) != before else []
    return moving


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_view_at_every_size(opened: Opened, name: str, theme: str) -> None:
    """No text is cut or under 13 pixels, no edge runs behind a box, no pane moves on a step, and axe-core finds nothing."""
    page = opened(RECORDINGS[name](), view="", graphviz=True, **THEMES[theme])
    wrong: dict[Any, Any] = {}
    for size in SIZES:
        resize(page, *size)
        for key in "12345":
            wrong[size, key] = seen(page, key)
            if PICTURES:
                page.screenshot(path=Path(PICTURES, f"{name}-{theme}-{size[0]}-{key}.png"))
        wrong[size, "moved"] = moved(page)
    for key in "12345":
        page.keyboard.press(key)
        wrong["axe", key] = found_by_axe(page, ".dynexplore")
    assert {place: problems for place, problems in wrong.items() if problems} == {}
