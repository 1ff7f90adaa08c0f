"""What the pages of the site lack for those who read them with other eyes and hands: named by axe-core, mended here.

Which idea lives here: Sphinx gives the captions of its navigation the role of a heading and no level, and puts code and tables
that are too wide into boxes that scroll, but only for a mouse. All are small texts of each page.

In:  the HTML of each page, before it goes into the theme. Out: the same, with a level for captions, and boxes that the tab key
reaches.
"""

from __future__ import annotations

from typing import Any

CHANGES = (
    ('role="heading">', 'role="heading" aria-level="2">'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
)


def accessible(text: str) -> str:
    """The HTML with what it lacked.

    >>> accessible("<div><pre>x = 1</pre></div>")
    '<div><pre tabindex="0">x = 1</pre></div>'
    """
    for before, after in CHANGES:
        text = text.replace(before, after)
    return text


def _mend(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            context[part] = accessible(context[part])


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("html-page-context", _mend, priority=900)  # after the theme has made its navigation
    return {"parallel_read_safe": True}
