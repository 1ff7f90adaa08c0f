"""Live explorers in the pages of the site: each in a frame of its own, which loads when it comes into view.

Which idea lives here: scripts/gallery.py makes a page for each explorer, and such a page needs nothing but itself: it opens from a
disk, where one page may not fetch another. So a page of the site holds frames, which the browser loads lazily, and stays small.

In:  `docs/_live/explorers/NAME.html`; in a page a directive,

         ```{explorer} NAME
         A sentence that says what is seen, for those who do not see it.
         ```

     and in a tutorial each output that is an explorer; {thumbnail}`NAME`, a role.
Out: a frame with a title, and links to the explorer on a page of its own and in the viewer; a picture that leads to the explorer.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

PAGES = Path(__file__).parent / "_live" / "explorers"

_FRAME = """\
<figure class="dynx-live"><iframe src="{folder}explorers/{name}.html" loading="lazy" title="{title}"></iframe>
<figcaption><a href="{folder}explorers/{name}.html">This explorer on a page of its own</a>; <a
href="{folder}explorers/viewer.html?rec={name}.html">in the viewer</a>, to compare it with a file of yours</figcaption></figure>
"""


def frame(name: str, title: str, page: str) -> str:
    """The frame of one explorer, in a page of the site. ValueError where the explorer was not made."""
    if not (PAGES / f"{name}.html").is_file():
        raise ValueError(f"there is no explorer {name!r}: scripts/gallery.py makes them, and `make docs` runs it")
    return _FRAME.format(folder="../" * page.count("/"), name=name, title=html.escape(title, quote=True))


class LiveExplorer(Directive):
    """One explorer; its text is the frame's title."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        page = self.state.document.settings.env.docname
        try:
            return [nodes.raw("", frame(self.arguments[0], " ".join(self.content), page), format="html")]
        except ValueError as error:
            raise self.error(str(error)) from None


def thumbnail(_role: str, _raw: str, name: str, line: int, inliner: Any, *_more: Any) -> tuple[list[Any], list[Any]]:
    """The role: the picture of an explorer, which leads to it; its colors are those of the page."""
    page = inliner.document.settings.env.docname
    try:
        picture = (PAGES / f"{name}.svg").read_text(encoding="utf-8")
    except OSError:
        return [], [inliner.reporter.error(f"there is no picture of {name!r}: scripts/gallery.py makes them", line=line)]
    link = f'<a class="dynx-thumbnail" href="{"../" * page.count("/")}explorers/{name}.html">{picture}</a>'
    return [nodes.raw("", link, format="html")], []


def _live_outputs(app: Any, page: str, source: list[str]) -> None:
    """A tutorial's saved outputs hold an explorer as it looks without scripts; the site shows it alive."""
    if not page.startswith("tutorials/"):
        return
    notebook = json.loads(source[0])
    number, made = Path(page).name[:2], 0
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            shown = "".join(output.get("data", {}).get("text/plain", ""))
            if shown.startswith("Explorer("):
                made += 1
                output["data"] = {"text/html": frame(f"{number}-{made}", shown, page)}
    source[0] = json.dumps(notebook)


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_directive("explorer", LiveExplorer)
    app.add_role("thumbnail", thumbnail)
    app.connect("source-read", _live_outputs)
    return {"parallel_read_safe": True}
