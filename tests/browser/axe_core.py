"""axe-core, which finds what people with other eyes, ears and hands cannot use: run over a page, or over a part of it.

In:  a page. Out: `found_by_axe(page)`: what is serious or critical, a line each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).parent / "axe"
SOURCE = (AXE / "axe.min.js").read_text(encoding="utf-8")


def found_by_axe(page: Page, inside: str = "") -> list[str]:
    """What axe-core calls serious or critical, each with its first place; `inside`: a selector of what is looked at."""
    # JupyterLab has a module loader, into which axe would go instead of onto the page
    page.evaluate("(() => { const define = undefined, module = undefined, exports = undefined;\n" + SOURCE + "\n})()")
    where = {"include": [[inside]]} if inside else None
    result: dict[str, Any] = page.evaluate(
        "where => axe.run(where ?? document, {resultTypes: ['violations']})",
        where,
    )
    bad = [violation for violation in result["violations"] if violation["impact"] in ("serious", "critical")]
    assert result["passes"] is not None and len(result["passes"]) > 10, "axe did not run"
    return [f"{one['id']}: {one['nodes'][0]['html']} {one['nodes'][0]['failureSummary']}" for one in bad]


def set_apart(page: Page, inside: str) -> str:
    """Put what the selector finds on the page alone, in the page's theme; another selector for it.

    axe takes what stands in many boxes that clip, one in another, as in JupyterLab, for hidden, and says nothing of its colours.
    """
    page.locator(inside).first.evaluate(_SET_APART)
    return "#apart > *"


_SET_APART = """(found) => {
  for (const other of document.body.children) other.style.display = 'none';
  const apart = document.createElement('div');
  apart.id = 'apart';
  apart.append(found);
  document.body.append(apart);
  document.body.style.overflow = 'visible';
}"""
