"""Links to the tutorials: a page of docs/ names a notebook where it lies, and the site has it among its own pages.

`docs/tutorials` is a link to `notebooks/`. On GitHub, where the pages are read too, a path through such a link leads nowhere, so
pages write `../notebooks/NN.ipynb#section`. The site knows the same notebook as `tutorials/NN`, and is told so here.

In:  a page, as Sphinx has read it, with references to documents that are not among its own.
Out: the same page, whose references to notebooks name the site's pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx import addnodes

NOTEBOOKS = (Path(__file__).parent / "tutorials").resolve()


def document(target: str) -> str:
    """The site's name of a document: another one than `target` where that is a notebook's path."""
    path = Path(target)
    return f"tutorials/{path.name}" if path.parent == NOTEBOOKS else target


def _to_pages_of_the_site(app: Any, page: Any) -> None:
    for reference in page.findall(addnodes.pending_xref):
        reference["reftarget"] = document(reference["reftarget"])


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("doctree-read", _to_pages_of_the_site)
    return {"parallel_read_safe": True}
