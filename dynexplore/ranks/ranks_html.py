"""Several ranks as HTML: the headline, the picture of the lanes, the table, the differences, and each rank's own report.

In:  SideBySide. Out: `overview(beside)`, all but the reports; `fragment(beside)` for a notebook.

PyTorch's counterpart: the landing page of tlparse --all-ranks-html.
"""

from __future__ import annotations

from dynexplore.ranks import lanes, ranks_text
from dynexplore.ranks.side_by_side import SideBySide
from dynexplore.views import html_report, html_text

MOST_REPORTS = 4
"""So many ranks have their own report in a notebook's output, those that differ first."""

_LEGEND = (
    "Blue: compiled; orange: compiled again; red edge: not alike on all ranks; grey: at a collective before the last rank came."
)


def overview(beside: SideBySide) -> str:
    """What is to be seen before a rank is picked, HTML already."""
    what, *more = ranks_text.headline(beside).lines
    parts = [f"<style>{lanes.STYLE}</style><p><strong>{html_text.escape(what)}</strong></p>", *map(html_report.line, more)]
    parts += [html_report.line(ranks_text.how(beside))]
    parts += map(html_report.line, beside.notices)
    drawn = lanes.picture(beside)
    parts += [drawn, html_report.line(_LEGEND if drawn else "")]
    if beside.rows:
        parts.append(html_report.rows(*ranks_text.cells(beside)))
    if beside.differences:
        told = [
            (html_text.escape(one.kind), html_text.escape(str(one)), html_text.escape(one.remedy))
            for one in beside.differences[: ranks_text.MOST_DIFFERENCES]
        ]
        parts += [html_report.line("Differences, the worst first"), html_report.table(("of", "what", "what to do"), told)]
    split = ranks_text.buckets(beside)
    return html_report.report(*parts, html_report.code(split) if split else "")


def fragment(beside: SideBySide) -> str:
    """The overview, and the reports of some ranks below it."""
    chosen = chosen_ranks(beside, MOST_REPORTS)
    reports = [
        html_text.section(f"Rank {rank}", html_text.fragment(beside.recordings[rank], html_text.next_prefix()), is_open=False)
        for rank in chosen
    ]
    left = len(beside.recordings) - len(chosen)
    more = html_report.line(f"{left} more: ranks[N] is the recording of rank N." if left else "")
    return f"{overview(beside)}{html_report.report(*reports, more)}"


def chosen_ranks(beside: SideBySide, most: int) -> list[int]:
    """At most so many ranks: those that differ, and the first that does not."""
    unlike = beside.unlike_ranks
    usual = [rank for rank in beside.recordings if rank not in unlike]
    order = [*usual[:1], *sorted(unlike), *usual[1:]]
    return sorted(order[:most])
