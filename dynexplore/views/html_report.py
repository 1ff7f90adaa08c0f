"""Building blocks for HTML reports of the tools: sentences, tables, copyable texts, in the common style.

The idea: the results of `diagnose`, `minify`, `all_breaks` and other tools are displayed in a notebook as a sequence of a few
kinds of elements. All of it is static, every text is escaped, and nothing is fetched; the one button copies the text beside it,
which can be selected if scripts are disabled.

In: sentences and rows of plain text. Out: HTML fragments, for `_repr_html_`. PyTorch's counterpart: none; its tools write log
files.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence

from dynexplore.views.html_text import STYLE, escape, section, table

__all__ = ["code", "drawing", "entry", "escape", "line", "report", "rows", "side_by_side", "table", "to_copy", "with_code"]


def report(*parts: str) -> str:
    """Return the elements, which are HTML already, as one block.

    >>> report(line("a < b")).endswith("<p>a &lt; b</p></div>")
    True
    """
    return f'<div class="dynx"><style>{STYLE}</style>{"".join(parts)}</div>'


def line(sentence: str) -> str:
    """Return a sentence as a paragraph; nothing for ""."""
    return f"<p>{with_code(sentence)}</p>" if sentence else ""


def with_code(sentence: str) -> str:
    """Return a sentence with what stands between backticks as code.

    >>> with_code("`x < y` is new")
    '<code>x &lt; y</code> is new'
    """
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(sentence))


def rows(header: Sequence[str], cells: Iterable[Sequence[str]], title: str = "") -> str:
    """Return a table of plain text."""
    caption = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    return caption + table(header, [[escape(cell) for cell in row] for row in cells])


def code(shown: str) -> str:
    """Return preformatted text in a fixed-width font."""
    return f"<pre>{escape(shown)}</pre>"


def entry(anchor: str, title: str, sentences: Iterable[str], example: str = "") -> str:
    """Return an entry of the docs as the target of a link on the same page, so that it works offline."""
    paragraphs = "".join(map(line, sentences)) + (code(example) if example else "")
    return f'<div id="{escape(anchor)}"><p><strong>{escape(title)}</strong></p>{paragraphs}</div>'


def side_by_side(*parts: tuple[str, str]) -> str:
    """Return titled elements, which are HTML already, side by side if there is room."""
    return (
        '<div class="side">'
        + "".join(f"<div><p><strong>{escape(title)}</strong></p>{part}</div>" for title, part in parts)
        + "</div>"
    )


def to_copy(title: str, text: str) -> str:
    """Return a text that expands on a click, with a button that copies it."""
    copies = "navigator.clipboard.writeText(this.nextElementSibling.textContent)"
    return section(title, f'<button type="button" onclick="{copies}">copy</button>{code(text)}', is_open=False)


def drawing(document: str) -> str:
    """Return an SVG document as an image with its own id namespace, so that two on one page do not conflict."""
    packed = base64.b64encode(document.encode()).decode()
    described = re.search(r"<desc>(.*?)</desc>", document)
    on_paper = "background: #fff; border-radius: 6px; padding: 4px"  # its lines are black, even on dark pages
    return f'<img alt="{described[1] if described else "drawing"}" style="{on_paper}" src="data:image/svg+xml;base64,{packed}">'
