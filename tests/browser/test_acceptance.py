"""What holds of every view at every size: nothing is cut at the foot, nothing is too small, nothing has an internal name.

The sizes are those of a page, of a JupyterLab cell, and of narrow windows.
"""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import expect

import dynexplore
from browser.pages import Opened, resize, tab
from dynexplore.recording.recording import Recording
from sample_recordings import toy, watched

SIZES = [(1440, 900), (1280, 720), (1040, 620), (914, 720), (700, 800)]

CUT = """() => {
  const { root } = dynexplore, [home, found] = [root.getBoundingClientRect(), []];
  const [foot, below] = [root.querySelector('.dynx-foot'), document.querySelector('footer')].map((e) => e.getBoundingClientRect());
  if (foot.bottom > home.bottom + 1) found.push('foot');
  if (below.bottom > innerHeight + 1 || below.top < home.bottom - 1) found.push('line below the page');
  if (root.scrollHeight > root.clientHeight + 1 || root.scrollWidth > root.clientWidth + 1) found.push('page');
  for (const e of root.querySelectorAll('*')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!text || !e.checkVisibility() || e.closest('svg, .dynx-unseen, option')) continue;
    if (parseFloat(getComputedStyle(e).fontSize) < 13) found.push('small: ' + e.textContent);
    const { left, right } = e.getBoundingClientRect();
    const scroller = e.closest('.dynx-body, .dynx-scrolls, .dynx-cost-detail, .dynx-strip, .dynx-aside, .dynx-differs');
    if (!scroller && (right > home.right + 1 || left < home.left - 1)) found.push('beside the page: ' + e.textContent);
  }
  return found;
}"""
"""What is cut, too small, or out of the page."""

INTERNAL = r"/___\w+|\b[A-Z]+_(?:MATCH|ENV|STATE)\b|\b[lg]_[a-z]\w*_\b|\b(?:DX|GB)\d{3,4}\b|\w+Variable\b/"
"""Names that the engine, PyTorch's guards and its graphs use, and that no person wrote."""


LEVELS = {"small": 1, "large": 2}


@dynexplore.disable
def size_of(x: torch.Tensor) -> str:
    return "large" if x.sum() > 6 else "small"


def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x + 1) * LEVELS[size_of(x)]


def recompiled() -> Recording:
    """A part after a graph break that recompiles, because a value from before the break is another."""
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(scaled) as fn:
        fn(torch.ones(4))
        fn(torch.full((4,), 2.0))
    recording: Recording = fn.explanation.recording
    return recording


RECORDINGS = {"toy": toy, "recompiled": recompiled, "watched": lambda: watched(toy())}


@pytest.mark.parametrize("name", RECORDINGS)
def test_five_views_at_five_sizes(opened: Opened, name: str) -> None:
    """No text is cut at the edges or under 13 pixels, and foot and last line are in sight; "Only misses" is reached at 700, too."""
    page = opened(RECORDINGS[name](), view="")
    for size in SIZES:
        resize(page, *size)
        for key in "12345":
            page.keyboard.press(key)
            assert page.evaluate(CUT) == [], (size, key)
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="Only misses")).to_be_in_viewport()


def test_no_internal_name_is_seen(opened: Opened) -> None:
    """Guards are conditions, and a value of the stack is one from before the break; names of kinds stand in reports only."""
    page = opened(recompiled(), view="")
    seen = f"view => [...(view.innerText.match({INTERNAL}g) ?? [])]"
    for key in "1345":
        page.keyboard.press(key)
        assert page.locator(".dynx-panel:visible").evaluate(seen) == [], key
        assert page.locator(".dynx-status").evaluate(seen) == []
    tab(page, "miss")
    failing = page.locator(".dynx-miss tbody tr").inner_text()
    assert "a value from before the graph break == 'small'" in " ".join(failing.split())
    expect(page.locator(".dynx-differs")).to_contain_text("a value from before the graph break == 'small'")
    tab(page, "guards")
    assert page.locator(".dynx-guards").evaluate(seen) == []
