"""The results of the tools as HTML: sentences, tables, texts to copy, in the looks of the rest.

Which idea lives here: what `diagnose`, `minify`, `all_breaks` and the others find is shown in a notebook by a few parts put
one below the other. All of it is static, every text is escaped, and nothing is fetched; the one button copies the text
beside it, and without scripts the text is there to be selected.

In:  sentences and rows of plain text.
Out: HTML to put into a page, for `_repr_html_`.

PyTorch's counterpart: none; its tools write log files.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence

from dynexplore.views.html_text import STYLE, escape, section, table

__all__ = ["code", "drawing", "entry", "escape", "line", "report", "rows", "side_by_side", "table", "to_copy"]


def report(*parts: str) -> str:
    """Return the parts, HTML already, as one block.

    >>> report(line("a < b")).endswith("<p>a &lt; b</p></div>")
    True
    """
    return f'<div class="dynx"><style>{STYLE}</style>{"".join(parts)}</div>'


def line(sentence: str) -> str:
    """Return a sentence as a paragraph; "" is nothing."""
    return f"<p>{escape(sentence)}</p>" if sentence else ""


def rows(header: Sequence[str], cells: Iterable[Sequence[str]], title: str = "") -> str:
    """Return a table of plain text."""
    caption = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    return caption + table(header, [[escape(cell) for cell in row] for row in cells])


def code(shown: str) -> str:
    """Return text as it stands, in a fixed font."""
    return f"<pre>{escape(shown)}</pre>"


def entry(anchor: str, title: str, sentences: Iterable[str], example: str = "") -> str:
    """Return an entry of the docs that a link of the same page leads to: it is there where no site is."""
    paragraphs = "".join(map(line, sentences)) + (code(example) if example else "")
    return f'<div id="{escape(anchor)}"><p><strong>{escape(title)}</strong></p>{paragraphs}</div>'


def side_by_side(*parts: tuple[str, str]) -> str:
    """Return titled parts, HTML already, beside each other where there is room."""
    return (
        '<div class="side">'
        + "".join(f"<div><p><strong>{escape(title)}</strong></p>{part}</div>" for title, part in parts)
        + "</div>"
    )


def to_copy(title: str, text: str) -> str:
    """Return a text that opens on a click, with a button that copies it."""
    copies = "navigator.clipboard.writeText(this.nextElementSibling.textContent)"
    return section(title, f'<button type="button" onclick="{copies}">copy</button>{code(text)}', is_open=False)


def drawing(document: str) -> str:
    """Return an SVG document as a picture that brings its own names along: two on a page do not get in each other's way."""
    packed = base64.b64encode(document.encode()).decode()
    described = re.search(r"<desc>(.*?)</desc>", document)
    on_paper = "background: #fff; border-radius: 6px; padding: 4px"  # its lines are black, on dark pages too
    return f'<img alt="{described[1] if described else "drawing"}" style="{on_paper}" src="data:image/svg+xml;base64,{packed}">'
