"""Links to anchors that a page writes as HTML: `<a id="diff24"></a>`.

GitHub, where the pages are read too, gives an item of a list no anchor of its own, so pages write them as HTML. MyST knows only the
anchors of headings, and takes a link to another one for a mistake. The anchors of each page are told to it here.

In:  a page, as Sphinx has read it, with its raw HTML.
Out: the page's entry in the table in which MyST looks up local ids.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

_ANCHOR = re.compile(r'<a id="([\w-]+)">')


def anchors_of(html: str) -> list[str]:
    """The ids of the anchors in a piece of HTML."""
    return _ANCHOR.findall(html)


def _tell_myst(app: Any, page: Any) -> None:
    known = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in page.findall(nodes.raw):
        for anchor in anchors_of(raw.astext()):
            known.setdefault(anchor, (raw.line or 0, anchor, anchor))


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("doctree-read", _tell_myst)
    return {"parallel_read_safe": True}
