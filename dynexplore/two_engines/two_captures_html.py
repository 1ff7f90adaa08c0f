"""Two captures as static HTML: the headline, both sides at the place where they part first, and all causes.

In:  ComparisonModel. Out: `overview(comparison)`; `fragment(comparison)` for a notebook, with both reports below.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dynexplore.two_engines import two_captures_text
from dynexplore.two_engines.comparison_model import ComparisonModel
from dynexplore.views import html_report, html_text


def overview(comparison: ComparisonModel) -> str:
    """What is to be seen before anything is stepped, HTML already."""
    title, *more = two_captures_text.headline(comparison).lines
    parts = [f"<p><strong>{html_text.escape(title)}</strong></p>", *map(html_report.line, more)]
    parts += map(html_report.line, comparison.notices)
    parts.append(html_report.rows(*two_captures_text.engines(comparison)))
    if comparison.first is not None:
        parts.append(html_report.rows(*two_captures_text.around(comparison), title="Around the first difference"))
        table = html_report.rows(*two_captures_text.causes(comparison))
        parts.append(html_text.section("All differences by cause", table, is_open=False))
    return html_report.report(*parts)


def fragment(comparison: ComparisonModel) -> str:
    """The overview, and the report of each engine below it."""
    sections = [
        html_text.section(recording.engine, html_text.fragment(recording, html_text.next_prefix()), is_open=False)
        for recording in comparison.sides
    ]
    return f"{overview(comparison)}{html_report.report(*sections)}"
