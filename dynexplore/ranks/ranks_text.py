"""Several ranks as text: the headline, who compiled what and when in columns, the differences, DDP's buckets, what is missing.

In:  SideBySide. Out: `headline(beside)`, `report(beside)`, `cells(beside)` for the table of the page.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dynexplore.ranks.compilations import Compilation
from dynexplore.ranks.differences import Difference, rank_words
from dynexplore.ranks.side_by_side import Row, SideBySide
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.headline import Headline
from dynexplore.views.names import plain_name

MOST_COLUMNS = 8
"""With more ranks, those that are alike share a column."""

MOST_ROWS = 60
"""So many compilations stand in the text; all that differ come first."""

MOST_DIFFERENCES = 30
"""So many differences stand in the text."""

_LEVELS = {"collectives": "bad", "failure": "bad", "recompile": "break", "graph": "break", "break": "break"}


def headline(beside: SideBySide) -> Headline:
    """What is worst, where and why, and what to do; what is good, where the ranks are alike."""
    who = f"{plain_name(beside.title) or 'This job'} on {plural(len(beside.recordings), 'rank')}"
    made = [one for ours in beside.compilations.values() for one in ours if one.is_compiled]
    if not made:
        return Headline(f"{who}: nothing was compiled.", " ".join(beside.notices[:1]), "", "note")
    if beside.differences:
        first, *others = beside.differences
        more = f" {plural(len(others), 'more difference')}." if others else ""
        where = [f"{first.where}:" if first.where else "", _sentence(first) if first.cause else "", first.waited]
        return Headline(f"{who}: {first.what}.{more}", " ".join(filter(None, where)), first.remedy, _LEVELS.get(first.kind, "note"))
    each = Counter(one.rank for one in made).most_common(1)[0][1]
    if len(beside.recordings) < 2:
        return Headline(f"{who}: there is no other rank to compare it with.", " ".join(beside.notices[:1]), "", "note")
    return Headline(f"{who}: all ranks compiled the same, {plural(each, 'frame')} each.")


def _sentence(first: Difference) -> str:
    return f"{first.cause}." if not first.cause.endswith(".") else first.cause


def report(beside: SideBySide) -> str:
    """All of it, as text."""
    parts = [str(headline(beside)), *filter(None, ["\n".join(filter(None, [how(beside), *beside.notices]))])]
    if beside.rows:
        parts.append(text.table(*cells(beside)))
    if beside.differences:
        parts.append("\n".join(["Differences", *(f"  {one}" for one in beside.differences[:MOST_DIFFERENCES])]))
        left = len(beside.differences) - MOST_DIFFERENCES
        if left > 0:
            parts[-1] += f"\n  and {left} more"
    parts += filter(None, [buckets(beside)])
    return "\n\n".join(parts)


def how(beside: SideBySide) -> str:
    """How the clock was found, and from when it counts."""
    return f"{beside.clock.how} Seconds count from the first compilation." if beside.clock.how and beside.rows else ""


def cells(beside: SideBySide) -> tuple[list[str], list[list[str]]]:
    """The table: a row for each compilation, a column for each rank: when it began and how long it took."""
    columns = _columns(beside)
    header = ["function", *(rank_words(ranks) for ranks in columns), ""]
    rows = beside.rows
    if len(rows) > MOST_ROWS:
        kept = sorted(range(len(rows)), key=lambda at: (not rows[at].differs, at))[:MOST_ROWS]
        rows = [rows[at] for at in sorted(kept)]
    table = [[f"{row.name}, {row.any.place}", *(_cell(beside, row, ranks) for ranks in columns), _remark(row)] for row in rows]
    if len(rows) < len(beside.rows):
        table.append([f"... and {plural(len(beside.rows) - len(rows), 'compilation')} more", *("" for _ in columns), ""])
    return header, table


def _columns(beside: SideBySide) -> list[tuple[int, ...]]:
    """The ranks of each column: one, or all those that compiled alike."""
    if len(beside.recordings) <= MOST_COLUMNS:
        return [(rank,) for rank in beside.recordings]
    alike: dict[tuple[Difference, ...], list[int]] = {}
    for rank in beside.recordings:
        alike.setdefault(tuple(one for one in beside.differences if rank in one.ranks), []).append(rank)
    return [tuple(ranks) for ranks in alike.values()]


def _cell(beside: SideBySide, row: Row, ranks: Sequence[int]) -> str:
    """`0.31 s +0.12`; of several ranks the earliest beginning and the longest time."""
    ours = [row.of[rank] for rank in ranks if rank in row.of]
    if not ours:
        return "-"
    took = f"+{max(one.seconds for one in ours):.2f}"
    return f"{min(beside.begins(one) for one in ours):.2f} {took}" if all(one.begins is not None for one in ours) else took


def _remark(row: Row) -> str:
    """What it became, or why it was compiled again."""
    causes = list(dict.fromkeys(one.cause for one in row.of.values() if one.cause))
    if causes:
        return causes[0] + (f" (other causes on {plural(len(causes) - 1, 'other rank')})" if len(causes) > 1 else "")
    return "differs" if row.differs else _made(row.any)


def _made(one: Compilation) -> str:
    if one.failure:
        return one.failure
    said = plural(one.operators, "operator") if one.graphs else "no graph"
    return f"{said}, {plural(len(one.breaks), 'break')}" if one.breaks else said


def buckets(beside: SideBySide) -> str:
    """How DistributedDataParallel's buckets split the graphs, once where all ranks are alike."""
    lines = []
    for row in beside.rows:
        for graph in row.any.graphs:
            if graph.pieces:
                alike = "" if row.differs else " on all ranks" if len(row.of) == len(beside.recordings) else ""
                lines.append(f"DDP's buckets split {row.name} ({row.any.place}) into {plural(len(graph.pieces), 'piece')}{alike}")
                lines += [f"  {line}" for line in text.piece_lines(graph)]
    return "\n".join(lines)
