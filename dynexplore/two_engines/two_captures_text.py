"""Two captures as text: whether they are the same, where they part first, both sides at that place, and all causes.

In:  ComparisonModel. Out: `headline(comparison)`, `report(comparison)`; `around` and `causes` give the cells of its tables.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dynexplore.engine import events as ev
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.two_engines import calls
from dynexplore.two_engines.comparison_model import ComparisonModel
from dynexplore.two_engines.divergences import Divergence
from dynexplore.two_engines.visits import Visit
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.headline import Headline

AROUND = 4
"""So many instructions before the first divergence are shown, and as many from there on."""

MOST_CAUSES = 40

LONGEST_SOURCE = 60
"""A longer expression is cut in the middle."""

_KINDS = {"frame": "frames", "break": "graph breaks", "operator": "operators", "guard": "guards", "step": "instructions"}


def headline(comparison: ComparisonModel) -> Headline:
    """Whether the graphs are the same, and the first place where the captures part."""
    name = comparison.title or "This function"
    first = comparison.first
    if not comparison.torch_side.graphs and not comparison.engine_side.graphs:
        return Headline(f"{name}: neither engine captured a graph.", str(first or ""), "", "note")
    graphs = [divergence.kind for divergence in comparison.divergences if divergence.kind in ("frame", "break", "operator")]
    if graphs:
        assert first is not None
        return Headline(f"{name}: {TORCH} and {DYNEXPLORE} capture it differently.", f"{first}.", _rest(comparison), "break")
    operators = plural(sum(graph.op_count for graph in comparison.engine_side.graphs), "operator")
    same = f"{name}: the same {operators} in {plural(len(comparison.engine_side.graphs), 'graph')} from both engines"
    if first is None:
        return Headline(f"{same}, with the same guards.")
    level = "note" if first.kind == "guard" else "good"
    which = "the guards differ" if first.kind == "guard" else "the captures took different steps"
    return Headline(f"{same}; {which}.", f"{first}.", _rest(comparison), level)


def _rest(comparison: ComparisonModel) -> str:
    counts = {kind: sum(cause.count for cause in comparison.causes if cause.kind == kind) for kind in _KINDS}
    counted = [f"{count} of {_KINDS[kind]}" for kind, count in counts.items() if count]
    return f"Differences: {', '.join(counted)}." if len(comparison.divergences) > 1 else ""


def report(comparison: ComparisonModel) -> str:
    """All of it, as text."""
    parts = [str(headline(comparison)), *comparison.notices, text.table(*engines(comparison))]
    if comparison.first is not None:
        parts += [f"Around the first difference\n{text.table(*around(comparison))}"]
        parts += [f"All differences by cause\n{text.table(*causes(comparison))}"]
    return "\n\n".join(parts)


def engines(comparison: ComparisonModel) -> tuple[list[str], list[list[str]]]:
    """A row of counts for each engine."""
    header = ["engine", "graphs", "operators", "breaks", "guards", "instructions"]
    read = [
        sum(pair.torch_side is not None for pair in comparison.pairs),
        sum(pair.engine_side is not None for pair in comparison.pairs),
    ]
    return header, [_counts(TORCH, comparison.torch_side, read[0]), _counts(DYNEXPLORE, comparison.engine_side, read[1])]


def _counts(name: str, recording: Recording, read: int) -> list[str]:
    operators = sum(graph.op_count for graph in recording.graphs)
    breaks = len({(broke.user_stack[-1:], broke.kind) for broke in recording.breaks})  # callers of what breaks have it as well
    return [name, *map(str, (len(recording.graphs), operators, breaks, len(recording.guards), read))]


def around(comparison: ComparisonModel) -> tuple[list[str], list[list[str]]]:
    """The instructions around the first divergence, the two sides next to each other; `>` marks the place."""
    at = comparison.first_pair
    shown = range(max(0, at - AROUND), min(len(comparison.pairs), at + AROUND))
    rows = [[">" if number == at else "", *_sides(comparison, number)] for number in shown]
    return ["", "place", "instruction", TORCH, DYNEXPLORE], rows


def _sides(comparison: ComparisonModel, number: int) -> list[str]:
    pair = comparison.pairs[number]
    visit = pair.any
    place = f"{visit.function}:{visit.line}" if visit.line else visit.function
    is_first = number == comparison.first_pair
    sides = [side_words(visit, in_full=is_first) for visit in (pair.torch_side, pair.engine_side)]
    return [place, f"{visit.offset} {visit.op}", *sides]


def side_words(visit: Visit | None, *, in_full: bool = False) -> str:
    """What an engine made at an instruction: `relu = torch.relu`, `2 guards`, `graph break GB0059`; `-` where it never came.

    `in_full`: operators with their arguments and results.
    """
    if visit is None:
        return "-"
    if visit.graph_break is not None:
        return f"graph break {visit.graph_break.kind}"
    nodes = [node for node in visit.nodes if node.op not in ("placeholder", "output")]
    words = [_in_full(node) if in_full else f"{node.name} = {node.target}" for node in nodes]
    words += [plural(len(visit.guards), "guard")] if visit.guards else []
    return ", ".join(words) or (visit.stack[-1].text if visit.stack else "read")


def _in_full(node: ev.NodeAdded) -> str:
    result = calls.result(node)
    return f"{node.name} = {calls.name_of(node)}{calls.arguments(node)}{f' -> {result}' if result else ''}"


def causes(comparison: ComparisonModel) -> tuple[list[str], list[list[str]]]:
    """Each cause with how often it occurs, and where first."""
    rows = [[cause.kind, str(cause.count), cause.first.cause, _first_at(cause.first)] for cause in comparison.causes[:MOST_CAUSES]]
    remaining = len(comparison.causes) - MOST_CAUSES
    return ["of", "times", "cause", "first at"], rows + ([["", str(remaining), "more causes", ""]] if remaining > 0 else [])


def _first_at(first: Divergence) -> str:
    about = f"`{ev.clip(first.about, LONGEST_SOURCE)}`" if first.about else ""
    return ", ".join(filter(None, (about, first.where)))
