"""Two captures as text: whether they are the same, where they part first, both sides at that place, and all causes.

In:  Beside. Out: `headline(beside)`, `report(beside)`; `around(beside)` and `causes(beside)` are the cells of its tables.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dynexplore.engine import events as ev
from dynexplore.recording.engines import OURS
from dynexplore.recording.engines import TORCH as THEIRS
from dynexplore.recording.recording import Recording
from dynexplore.two_engines import calls
from dynexplore.two_engines.beside import Beside
from dynexplore.two_engines.partings import Parting
from dynexplore.two_engines.visits import Visit
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.headline import Headline

AROUND = 4
"""So many instructions before the first parting are shown, and as many from there on."""

MOST_CAUSES = 40

LONGEST_SOURCE = 60
"""A longer expression is cut in the middle."""

_KINDS = {"frame": "frames", "break": "graph breaks", "operator": "operators", "guard": "guards", "step": "instructions"}


def headline(beside: Beside) -> Headline:
    """Whether the graphs are the same, and the first place where the captures part."""
    name = beside.title or "This function"
    first = beside.first
    if not beside.theirs.graphs and not beside.ours.graphs:
        return Headline(f"{name}: neither engine captured a graph.", str(first or ""), "", "note")
    graphs = [one.kind for one in beside.partings if one.kind in ("frame", "break", "operator")]
    if graphs:
        assert first is not None
        return Headline(f"{name}: {THEIRS} and {OURS} capture it differently.", f"{first}.", _rest(beside), "break")
    operators = plural(sum(graph.op_count for graph in beside.ours.graphs), "operator")
    same = f"{name}: the same {operators} in {plural(len(beside.ours.graphs), 'graph')} from both engines"
    if first is None:
        return Headline(f"{same}, with the same guards.")
    level = "note" if first.kind == "guard" else "good"
    which = "the guards differ" if first.kind == "guard" else "only the way there differs"
    return Headline(f"{same}; {which}.", f"{first}.", _rest(beside), level)


def _rest(beside: Beside) -> str:
    counts = {kind: sum(one.count for one in beside.causes if one.kind == kind) for kind in _KINDS}
    said = [f"{count} of {_KINDS[kind]}" for kind, count in counts.items() if count]
    return f"Differences: {', '.join(said)}." if len(beside.partings) > 1 else ""


def report(beside: Beside) -> str:
    """All of it, as text."""
    parts = [str(headline(beside)), *beside.notices, text.table(*engines(beside))]
    if beside.first is not None:
        parts += [f"Around the first place where they part\n{text.table(*around(beside))}"]
        parts += [f"All differences by cause\n{text.table(*causes(beside))}"]
    return "\n\n".join(parts)


def engines(beside: Beside) -> tuple[list[str], list[list[str]]]:
    """A row of counts for each engine."""
    header = ["engine", "graphs", "operators", "breaks", "guards", "instructions"]
    read = [sum(pair.theirs is not None for pair in beside.pairs), sum(pair.ours is not None for pair in beside.pairs)]
    return header, [_counts(THEIRS, beside.theirs, read[0]), _counts(OURS, beside.ours, read[1])]


def _counts(name: str, recording: Recording, read: int) -> list[str]:
    operators = sum(graph.op_count for graph in recording.graphs)
    breaks = len({(one.user_stack[-1:], one.kind) for one in recording.breaks})  # callers of what breaks have it as well
    return [name, *map(str, (len(recording.graphs), operators, breaks, len(recording.guards), read))]


def around(beside: Beside) -> tuple[list[str], list[list[str]]]:
    """The instructions around the first parting, both sides beside each other; `>` marks the place."""
    at = beside.first_pair
    shown = range(max(0, at - AROUND), min(len(beside.pairs), at + AROUND))
    rows = [[">" if number == at else "", *_sides(beside, number)] for number in shown]
    return ["", "place", "instruction", THEIRS, OURS], rows


def _sides(beside: Beside, number: int) -> list[str]:
    pair = beside.pairs[number]
    visit = pair.any
    place = f"{visit.function}:{visit.line}" if visit.line else visit.function
    is_first = number == beside.first_pair
    sides = [side_words(visit, in_full=is_first) for visit in (pair.theirs, pair.ours)]
    return [place, f"{visit.offset} {visit.op}", *sides]


def side_words(visit: Visit | None, *, in_full: bool = False) -> str:
    """What an engine made at an instruction: `relu = torch.relu`, `2 guards`, `graph break GB0059`; `-` where it never came.

    `in_full`: operators with their arguments and results.
    """
    if visit is None:
        return "-"
    if visit.broke is not None:
        return f"graph break {visit.broke.kind}"
    nodes = [node for node in visit.nodes if node.op not in ("placeholder", "output")]
    made = [_in_full(node) if in_full else f"{node.name} = {node.target}" for node in nodes]
    made += [plural(len(visit.guards), "guard")] if visit.guards else []
    return ", ".join(made) or (visit.stack[-1].text if visit.stack else "read")


def _in_full(node: ev.NodeAdded) -> str:
    made = calls.result(node)
    return f"{node.name} = {calls.name_of(node)}{calls.arguments(node)}{f' -> {made}' if made else ''}"


def causes(beside: Beside) -> tuple[list[str], list[list[str]]]:
    """Each cause with how often it occurs, and where first."""
    rows = [[one.kind, str(one.count), one.first.cause, _first_at(one.first)] for one in beside.causes[:MOST_CAUSES]]
    left = len(beside.causes) - MOST_CAUSES
    return ["of", "times", "cause", "first at"], rows + ([["", str(left), "more causes", ""]] if left > 0 else [])


def _first_at(first: Parting) -> str:
    about = f"`{ev.clip(first.about, LONGEST_SOURCE)}`" if first.about else ""
    return ", ".join(filter(None, (about, first.where)))
