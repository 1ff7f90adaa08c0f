"""Several ranks as HTML: the headline, the timeline, the table, the differences, and each rank's own report.

The idea: render the one comparison, computed by side_by_side.py, as static HTML without scripts.

In: SideBySide. Out: `overview(comparison)`, all but the reports; `fragment(comparison)` for a notebook.

PyTorch's counterpart: the landing page of tlparse --all-ranks-html.
"""

from __future__ import annotations

from dynexplore.ranks import lanes, ranks_text
from dynexplore.ranks.side_by_side import SideBySide
from dynexplore.views import html_report, html_text

MOST_REPORTS = 4
"""The maximum number of ranks with their own report in a notebook's output, those that differ first."""

_LEGEND = (
    "Blue: compiled; orange: recompiled; red outline: different on some ranks; gray: waiting at a collective for the last rank."
)


def overview(comparison: SideBySide) -> str:
    """The part above the choice of a rank, as HTML."""
    title, *more = ranks_text.headline(comparison).lines
    parts = [f"<style>{lanes.STYLE}</style><p><strong>{html_report.with_code(title)}</strong></p>", *map(html_report.line, more)]
    parts += [html_report.line(ranks_text.how(comparison))]
    parts += map(html_report.line, comparison.notices)
    drawn = lanes.picture(comparison)
    parts += [drawn, html_report.line(_LEGEND if drawn else "")]
    if comparison.rows:
        parts.append(html_report.rows(*ranks_text.cells(comparison)))
    if comparison.differences:
        cells = [
            (difference.kind, html_report.with_code(str(difference)), html_report.with_code(difference.remedy))
            for difference in comparison.differences[: ranks_text.MOST_DIFFERENCES]
        ]
        parts += [html_report.line("Differences, the worst first"), html_report.table(("kind", "what", "what to do"), cells)]
    split = ranks_text.buckets(comparison)
    return html_report.report(*parts, html_report.code(split) if split else "")


def fragment(comparison: SideBySide) -> str:
    """The overview, followed by the reports of some ranks."""
    chosen = chosen_ranks(comparison, MOST_REPORTS)
    reports = [
        html_text.section(f"Rank {rank}", html_text.fragment(comparison.recordings[rank], html_text.next_prefix()), is_open=False)
        for rank in chosen
    ]
    remaining = len(comparison.recordings) - len(chosen)
    more = html_report.line(f"{remaining} more: ranks[N] is the recording of rank N." if remaining else "")
    return f"{overview(comparison)}{html_report.report(*reports, more)}"


def chosen_ranks(comparison: SideBySide, most: int) -> list[int]:
    """The given number of ranks at most: those that differ, and the first that does not."""
    unlike = comparison.unlike_ranks
    typical = [rank for rank in comparison.recordings if rank not in unlike]
    order = [*typical[:1], *sorted(unlike), *typical[1:]]
    return sorted(order[:most])
