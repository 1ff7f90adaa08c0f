"""Several ranks as text: the headline, compilations and times in columns, the differences, DDP's buckets, what is missing.

The idea: render the one comparison, computed by side_by_side.py, as text and as table cells.

In: SideBySide. Out: `headline(comparison)`, `report(comparison)`, `cells(comparison)` for the table of the page.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dynexplore.engine import events as ev
from dynexplore.ranks.compilations import Compilation
from dynexplore.ranks.differences import Difference, rank_words
from dynexplore.ranks.side_by_side import Row, SideBySide
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.headline import Headline
from dynexplore.views.names import plain_name
from dynexplore.views.ranked_costs import Cost, block, costs_of

MOST_COLUMNS = 8
"""The maximum number of columns; with more ranks, equal ones share a column."""

MOST_ROWS = 60
"""The maximum number of compilations in the text; all that differ come first."""

MOST_DIFFERENCES = 30
"""The maximum number of differences in the text."""

MOST_COSTS = 12
"""The maximum number of graph breaks and recompiles in the text."""

_SHOWN = 0.005

_LEVELS = {"collectives": "bad", "failure": "bad", "recompile": "break", "graph": "break", "break": "break"}


def headline(comparison: SideBySide) -> Headline:
    """The worst difference, its place and cause, and the fix; a positive summary if the ranks agree."""
    who = f"{plain_name(comparison.title) or 'This job'} on {plural(len(comparison.recordings), 'rank')}"
    compiled = [compilation for of_rank in comparison.compilations.values() for compilation in of_rank if compilation.is_compiled]
    if not compiled:
        return Headline(f"{who}: nothing was compiled.", " ".join(comparison.notices[:1]), "", "note")
    if comparison.differences:
        first, *others = comparison.differences
        more = f" {plural(len(others), 'more difference')}." if others else ""
        where = [f"{first.where}:" if first.where else "", _sentence(first) if first.cause else "", first.waited]
        return Headline(
            f"{who}: {first.message}.{more}", " ".join(filter(None, where)), first.remedy, _LEVELS.get(first.kind, "note")
        )
    each = Counter(compilation.rank for compilation in compiled).most_common(1)[0][1]
    if len(comparison.recordings) < 2:
        return Headline(f"{who}: there is no other rank to compare it with.", " ".join(comparison.notices[:1]), "", "note")
    return Headline(f"{who}: all ranks compiled the same, {plural(each, 'frame')} each.")


def _sentence(first: Difference) -> str:
    return f"{first.cause}." if not first.cause.endswith(".") else first.cause


def report(comparison: SideBySide) -> str:
    """The whole report as text."""
    parts = [str(headline(comparison)), *filter(None, ["\n".join(filter(None, [how(comparison), *comparison.notices]))])]
    if comparison.rows:
        parts.append(text.table(*cells(comparison)))
    if comparison.differences:
        parts.append("\n".join(["Differences", *(f"  {difference}" for difference in comparison.differences[:MOST_DIFFERENCES])]))
        remaining = len(comparison.differences) - MOST_DIFFERENCES
        if remaining > 0:
            parts[-1] += f"\n  and {remaining} more"
    parts += filter(None, ["\n".join(costs(comparison)), buckets(comparison)])
    return "\n\n".join(parts)


def how(comparison: SideBySide) -> str:
    """How the clock was determined, and its zero."""
    seconds = "Each cell shows start and duration in seconds; the start is counted from the first compilation."
    return f"{comparison.clock.how} {seconds}" if comparison.clock.how and comparison.rows else ""


def cells(comparison: SideBySide) -> tuple[list[str], list[list[str]]]:
    """The table: a row for each compilation, a column for each rank: start and duration."""
    columns = _columns(comparison)
    header = ["function", *(rank_words(ranks) for ranks in columns), ""]
    rows = comparison.rows
    if len(rows) > MOST_ROWS:
        numbers = sorted(range(len(rows)), key=lambda at: (not rows[at].differs, at))[:MOST_ROWS]
        rows = [rows[at] for at in sorted(numbers)]
    table = [[f"{row.name}, {row.any.place}", *(_cell(comparison, row, ranks) for ranks in columns), _remark(row)] for row in rows]
    if len(rows) < len(comparison.rows):
        table.append([f"... and {plural(len(comparison.rows) - len(rows), 'compilation')} more", *("" for _ in columns), ""])
    return header, table


def _columns(comparison: SideBySide) -> list[tuple[int, ...]]:
    """The ranks of each column: one, or all those with equal compilations."""
    if len(comparison.recordings) <= MOST_COLUMNS:
        return [(rank,) for rank in comparison.recordings]
    alike: dict[tuple[Difference, ...], list[int]] = {}
    for rank in comparison.recordings:
        alike.setdefault(tuple(difference for difference in comparison.differences if rank in difference.ranks), []).append(rank)
    return [tuple(ranks) for ranks in alike.values()]


def _cell(comparison: SideBySide, row: Row, ranks: Sequence[int]) -> str:
    """`0.31 s +0.12`; for several ranks the earliest start and the longest duration."""
    compilations = [row.of[rank] for rank in ranks if rank in row.of]
    if not compilations:
        return "-"
    took = f"+{max(compilation.seconds for compilation in compilations):.2f}"
    return (
        f"{min(comparison.begins(compilation) for compilation in compilations):.2f} {took}"
        if all(compilation.begins is not None for compilation in compilations)
        else took
    )


def _remark(row: Row) -> str:
    """The outcome, or the reason of a recompile."""
    causes = list(dict.fromkeys(compilation.cause for compilation in row.of.values() if compilation.cause))
    if causes:
        return causes[0] + (f" (other causes on {plural(len(causes) - 1, 'other rank')})" if len(causes) > 1 else "")
    return "differs" if row.differs else _result_words(row.any)


def _result_words(compilation: Compilation) -> str:
    if compilation.failure:
        return compilation.failure
    words = plural(compilation.operators, "operator") if compilation.graphs else "no graph"
    return f"{words}, {plural(len(compilation.breaks), 'break')}" if compilation.breaks else words


def costs(comparison: SideBySide) -> list[str]:
    """Graph breaks and recompiles of all ranks in one list: each once, with its ranks, ordered by the slowest of them."""
    of_ranks: dict[str, dict[int, Cost]] = {}
    for rank, recording in comparison.recordings.items():
        for cost in costs_of(recording):
            of_ranks.setdefault(cost.id, {})[rank] = cost
    slowest = {key: max(of_rank.values(), key=lambda cost: cost.seconds) for key, of_rank in of_ranks.items()}
    ranked = sorted(slowest, key=lambda key: (slowest[key].is_expected, -slowest[key].seconds))
    lines = ["Graph breaks and recompiles, costliest first"] if ranked else []
    shown_advice: set[str] = set()
    for number, key in enumerate(ranked[:MOST_COSTS], 1):
        cost, seconds = slowest[key], [cost.seconds for cost in of_ranks[key].values()]
        lines += [f"  {line}" for line in block(number, cost, ev.WIDTH - 2, shown_advice)]
        spent = f", {min(seconds):.2f} s to {max(seconds):.2f} s" if len(seconds) > 1 and max(seconds) >= _SHOWN else ""
        lines.append(f"     on {rank_words(tuple(of_ranks[key]))}{spent}")
        shown_advice |= {cost.advice, cost.page}
    if len(ranked) > MOST_COSTS:
        lines.append(f"  and {len(ranked) - MOST_COSTS} more")
    return lines


def buckets(comparison: SideBySide) -> str:
    """How DistributedDataParallel's buckets split the graphs, once if all ranks agree."""
    lines = []
    for row in comparison.rows:
        for graph in row.any.graphs:
            if graph.pieces:
                alike = "" if row.differs else " on all ranks" if len(row.of) == len(comparison.recordings) else ""
                lines.append(f"DDP's buckets split {row.name} ({row.any.place}) into {plural(len(graph.pieces), 'piece')}{alike}")
                lines += [f"  {line}" for line in text.piece_lines(graph)]
    return "\n".join(lines)
