"""A comparison as plain text: a table of methods and facts, failures with reasons, differences between graphs, and the graphs.

The idea: the summary comes first (which methods captured the function, which are correct, and on which calls), then the
reasons, then the graphs. The tables have the format of all other text views. Where the text would be long, as for a training step,
each method keeps its first remarks, and the graphs are counted.

In: `Compared`. Out: text without a trailing newline; `facts` returns the cells, which the HTML view shows as well. PyTorch's
counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynexplore.engine import events as ev
from dynexplore.lenses.outcome import LOSES, SAME, Compared, Graph, Outcome, Verdict
from dynexplore.views import text
from dynexplore.views.counts import plural

MARKS = {SAME: "same", LOSES: "same, side effects lost"}
"""The text of a verdict in a table cell, if it is not the verdict's name."""

Cells = tuple[str, ...]


def summary(compared: Compared) -> str:
    """A one-line summary without times or addresses, equal in every run."""
    captured = sum(not outcome.failed for outcome in compared.outcomes)
    sound = sum(outcome.sound for outcome in compared.outcomes)
    methods = plural(len(compared.outcomes), "method")
    calls = plural(len(compared.probes), "call")
    return f"Comparison({compared.title}: {methods}, {captured} captured, {sound} sound on {calls})"


def header(compared: Compared) -> Cells:
    """The column headers of the table of facts; calls in which eager does something else are marked."""
    calls = [f"{probe.name} {probe.mark}".rstrip() for probe in compared.probes]
    return ("method", "works on", "graphs", "operators", *calls, "capture", "a call")


_MARKS = {
    "*": "eager takes a different path than in the call as given",
    "**": "eager runs the operators of the call as given, with different constants",
}


def legend(compared: Compared) -> list[str]:
    """What the marks of the columns mean, those that are there."""
    marks = {probe.mark for probe in compared.probes}
    return [f"{mark} {words}" for mark, words in _MARKS.items() if mark in marks]


def facts(compared: Compared) -> list[Cells]:
    """One row per method, below one for eager."""
    eager = ("eager", "", "", "", *(["same"] * len(compared.probes)), "", time(compared.probes[0].seconds))
    return [eager, *(_facts(outcome, len(compared.probes)) for outcome in compared.outcomes)]


def _facts(outcome: Outcome, calls: int) -> Cells:
    if outcome.failed:
        return (outcome.name, outcome.works_on, "failed", "", *([""] * calls), "", "")
    counts = (str(len(outcome.graphs)), str(len(outcome.operators)))
    verdicts = [cell(verdict) for verdict in outcome.verdicts]
    return (outcome.name, outcome.works_on, *counts, *verdicts, time(outcome.capture_seconds), time(outcome.call_seconds))


def cell(verdict: Verdict) -> str:
    """The text of a verdict in a table cell: `WRONG`, `same`, `same (recaptured)`."""
    word = MARKS.get(verdict.outcome, verdict.outcome.upper() if verdict.outcome == "wrong" else verdict.outcome)
    return f"{word} (recaptured)" if verdict.captured_anew else word


def time(seconds: float | None) -> str:
    """A time with its unit, two digits.

    >>> time(0.0421), time(3.1e-5), time(0.0997), time(None)
    ('42 ms', '31 us', '100 ms', '')
    """
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds < 99.5 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.0f} us"


def remarks(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Pairs of (subject, text): failure, wrong answers, breaks, warnings, notes, differences."""
    if outcome.failed:
        yield "failed", outcome.failure
        if outcome.message:
            yield "message", " ".join(outcome.message.split())
    worded = [verdict for verdict in outcome.verdicts if verdict.words]
    for words in dict.fromkeys(verdict.words for verdict in worded):
        yield ", ".join(verdict.call for verdict in worded if verdict.words == words), words
    for label, texts in (("break", outcome.breaks), ("warning", outcome.warnings), ("note", outcome.notes)):
        yield from ((label, words) for words in texts)
    yield from (("differs", str(difference)) for difference in outcome.differences)


def columns(graph: Graph) -> tuple[Cells, list[Cells]]:
    """The table of a graph, header and rows; `result` is dtype and shape, if the method knows them."""
    has_kwargs = any(node.kwargs not in ("", "{}") for node in graph.nodes)
    header = ("opcode", "name", "target", "args", *(("kwargs",) if has_kwargs else ()), "result")
    rows = [
        (node.op, node.name, node.target, node.args, *((node.kwargs,) if has_kwargs else ()), f"{node.dtype}{node.shape}")
        for node in graph.nodes
    ]
    return header, rows


def graph_table(graph: Graph) -> str:
    """The table of a graph as text."""
    return text.table(*columns(graph))


LONG = text.MOST_LINES
"""The most lines that a comparison prints without being asked for all: one screen."""

_REMARKS = 2


def comparison(compared: Compared, most_lines: int = 0) -> str:
    """The complete text; if it is longer than `most_lines` (0: no limit), the short one."""
    blocks = [
        f"{compared.title}, captured in {plural(len(compared.outcomes), 'way')}",
        text.table(header(compared), facts(compared)),
    ]
    blocks += ["\n".join(marked)] if (marked := legend(compared)) else []
    blocks += [compared.note] if compared.note else []
    whole = "\n\n".join([*blocks, *map(_about, compared.outcomes)])
    if not most_lines or whole.count("\n") < most_lines:
        return whole
    texts = (_in_screen(compared, blocks, most) for most in range(_REMARKS, -1, -1))
    return next((short for short in texts if short.count("\n") < most_lines), _in_screen(compared, blocks, 0))


def _in_screen(compared: Compared, blocks: list[str], most: int) -> str:
    """The table, and at most so many remarks of each method."""
    about = [line for outcome in compared.outcomes for line in _in_short(outcome, most)]
    return "\n\n".join([*blocks, "\n".join(about), "All remarks and the graphs: --full, in Python comparison.text()"])


def _in_short(outcome: Outcome, most: int) -> Iterator[str]:
    """The method, its first remarks, and the number of the others."""
    worded = list(remarks(outcome))
    cut = worded[most:]
    yield f"{outcome.name}, {plural(len(cut), 'more remark')}" if cut else outcome.name
    yield from (f"  {label:<8} {ev.clip(words, ev.WIDTH)}" for label, words in worded[:most])


def _about(outcome: Outcome) -> str:
    lines = [outcome.name, f"  how      {outcome.how}"]
    lines.append(f"  for      {outcome.purpose}")
    lines += [f"  {label:<8} {words}" for label, words in remarks(outcome)]
    for graph in outcome.graphs:
        lines += [f"  {graph.name}", *("    " + line for line in graph_table(graph).splitlines())]
    return "\n".join(lines)
