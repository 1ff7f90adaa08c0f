"""Several ranks as HTML: the headline, the timeline, the table, the differences, and each rank's own report.

The idea: render the one comparison, computed by side_by_side.py, as static HTML without scripts.

In: SideBySide. Out: `overview(comparison)`, all but the reports; `fragment(comparison)` for a notebook.

PyTorch's counterpart: the landing page of tlparse --all-ranks-html.
"""

from __future__ import annotations

from dynexplore.ranks import lanes, ranks_text
from dynexplore.ranks.side_by_side import SideBySide
from dynexplore.views import html_report, html_text
from dynexplore.views.headline import Headline

MOST_REPORTS = 4
"""The maximum number of ranks with their own report in a notebook's output, those that differ first."""

_LEGEND = (
    "Blue: compiled; orange: recompiled; red outline: different on some ranks; gray: waiting at a collective for the last rank."
)

STYLE = """
.dynx .verdict { border-left: 6px solid var(--level); padding: 4px 12px; margin: 0 0 12px; }
.dynx .verdict p { font-size: 15px; margin: 2px 0; }
.dynx .verdict .summary { font-size: 20px; font-weight: 600; }
.dynx .verdict.bad { --level: #d1242f; }
.dynx .verdict.break, .dynx .verdict.note { --level: #e08a00; }
.dynx .verdict.good { --level: #2da44e; }
.dynx h2 { font-size: 15px; margin: 12px 0 4px; }
.dynx .in-sentences.in-sentences.in-sentences td { font: 13px/1.5 system-ui, sans-serif; padding-bottom: 4px; }
.dynx .in-sentences.in-sentences.in-sentences td:first-child { white-space: nowrap; font-weight: 600; }
""".strip()

_NAMES_OF_KINDS = {"only": "some ranks only", "break": "graph break", "cause": "recompile"}
"""What the table shows for kinds of differences whose short names do not explain themselves."""


def overview(comparison: SideBySide) -> str:
    """The part above the choice of a rank, as HTML: what differs and what to do, the timeline, further differences, the times."""
    return html_report.report(
        f"<style>{lanes.STYLE} {STYLE}</style>",
        _verdict(ranks_text.headline(comparison)),
        *map(html_report.line, comparison.notices),
        *_timeline(comparison),
        *_differences(comparison),
        *_times(comparison),
        *_buckets(comparison),
    )


def _verdict(headline: Headline) -> str:
    where = html_report.line(headline.where)
    remedy = f"<p><strong>What to do:</strong> {html_report.with_code(headline.remedy)}</p>" if headline.remedy else ""
    summary = f'<p class="summary">{html_report.with_code(headline.summary)}</p>'
    return f'<div class="verdict {headline.level}">{summary}{where}{remedy}</div>'


def _timeline(comparison: SideBySide) -> list[str]:
    drawn = lanes.picture(comparison)
    return [drawn, html_report.line(_LEGEND)] if drawn else []


def _differences(comparison: SideBySide) -> list[str]:
    cells = [
        (
            _NAMES_OF_KINDS.get(difference.kind, difference.kind),
            html_report.with_code(str(difference)),
            html_report.with_code(difference.remedy),
        )
        for difference in comparison.differences[: ranks_text.MOST_DIFFERENCES]
    ]
    table = html_report.table(("kind", "what", "what to do"), cells)
    return ["<h2>Differences, the worst first</h2>", f'<div class="in-sentences">{table}</div>'] if cells else []


def _times(comparison: SideBySide) -> list[str]:
    if not comparison.rows:
        return []
    how = html_report.line(ranks_text.how(comparison))
    header, cells = ranks_text.cells(comparison)
    table = html_report.table(header, [[html_report.with_code(cell) for cell in row] for row in cells])
    return ["<h2>Compilations of each rank</h2>", how, table]


def _buckets(comparison: SideBySide) -> list[str]:
    split = ranks_text.buckets(comparison)
    return [html_report.code(split)] if split else []


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
