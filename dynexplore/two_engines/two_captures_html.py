"""Two captures as static HTML: the headline, both sides at the place where they part first, and all causes.

In:  Beside. Out: `overview(beside)`; `fragment(beside)` for a notebook, with both reports below.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dynexplore.two_engines import two_captures_text
from dynexplore.two_engines.beside import Beside
from dynexplore.views import html_report, html_text


def overview(beside: Beside) -> str:
    """What is to be seen before anything is stepped, HTML already."""
    what, *more = two_captures_text.headline(beside).lines
    parts = [f"<p><strong>{html_text.escape(what)}</strong></p>", *map(html_report.line, more)]
    parts += map(html_report.line, beside.notices)
    parts.append(html_report.rows(*two_captures_text.engines(beside)))
    if beside.first is not None:
        parts.append(html_report.rows(*two_captures_text.around(beside), title="Around the first place where they part"))
        table = html_report.rows(*two_captures_text.causes(beside))
        parts.append(html_text.section("All differences by cause", table, is_open=False))
    return html_report.report(*parts)


def fragment(beside: Beside) -> str:
    """The overview, and the report of each engine below it."""
    sections = [
        html_text.section(one.engine, html_text.fragment(one, html_text.next_prefix()), is_open=False)
        for one in (beside.theirs, beside.ours)
    ]
    return f"{overview(beside)}{html_report.report(*sections)}"
