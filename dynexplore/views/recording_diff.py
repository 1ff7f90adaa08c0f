"""Two recordings compared: before and after a change, two ranks, or two engines.

The idea: after a change one question remains: is it better, and what is different now. So the first line is the verdict, the second
the first difference in the order in which things were captured, and a table has the counts of both. Graph breaks and recompiles are
matched by function and cause and not by line, because a change moves lines. Times are shown, and never decide the verdict.

In: two Recordings. Out: `RecordingDiff`: `verdict`, `first`, `rows`; its text.

PyTorch's counterpart: none; tlparse pages are compared by eye.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views import text
from dynexplore.views.compile_seconds import seconds_by_frame
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_name
from dynexplore.views.ranked_costs import Cost, costs_of

Row = tuple[str, str, str]


class RecordingDiff:
    """How `after` differs from `before`.

    >>> RecordingDiff(Recording(title="a"), Recording(title="b")).verdict
    'The same graphs, graph breaks and recompiles.'
    """

    def __init__(self, before: Recording, after: Recording) -> None:
        self.before, self.after = before, after
        self._costs = _by_cause(costs_of(before)), _by_cause(costs_of(after))

    @property
    def verdict(self) -> str:
        """What became of graphs, graph breaks and recompiles, in one sentence."""
        words = ("graph", "graph break", "recompile")
        pairs = list(zip(_counts(self.before), _counts(self.after), words, strict=True))
        changes = [f"{plural(was, noun)} became {now}" for was, now, noun in pairs if was != now]
        if changes:
            return f"{', '.join(changes)}."
        if self.first:
            return "The same counts, but not the same graphs or causes."
        return "The same graphs, graph breaks and recompiles."

    @property
    def first(self) -> str:
        """The first difference, in the order of capture: of graphs, then of causes; "" if there is none."""
        return next(itertools.chain(self._of_graphs(), self._of_causes()), "")

    def rows(self) -> list[Row]:
        """What is counted, before and after."""
        names = ("graphs", "graph breaks", "recompiles")
        rows = [(name, str(was), str(now)) for name, was, now in zip(names, _counts(self.before), _counts(self.after), strict=True)]
        operators = (str(sum(graph.op_count for graph in each.graphs)) for each in (self.before, self.after))
        seconds = (f"{sum(spent.all for spent in seconds_by_frame(each).values()):.2f} s" for each in (self.before, self.after))
        return [*rows, ("operators", *operators), ("compile time", *seconds)]  # type: ignore[list-item]

    def __str__(self) -> str:
        parts = [self.verdict]
        parts += [f"First difference: {self.first}"] if self.first else []
        parts.append(text.table(("", self.before.title or "before", self.after.title or "after"), self.rows()))
        for title, causes, others in (("Gone", *self._costs), ("New", *reversed(self._costs))):
            lines = [f"  {cause}" for cause in causes if cause not in others]
            parts += ["\n".join([f"{title}:", *(ev.wrapped(line, 4) for line in lines)])] if lines else []
        return "\n\n".join(parts)

    def _of_graphs(self) -> Iterator[str]:
        for number, (was, now) in enumerate(itertools.zip_longest(self.before.graphs, self.after.graphs), 1):
            if was is None or now is None:
                recording, graph = (self.before, was) if now is None else (self.after, now)
                which = "earlier" if now is None else "later"
                yield f"graph {number}, of {_function(recording, graph)}, is only in the {which} recording."
                continue
            pairs = itertools.zip_longest(_operators(was), _operators(now), fillvalue="")
            for operator, (earlier, later) in enumerate(pairs, 1):
                if earlier != later:
                    yield f"graph {number}, of {_function(self.after, now)}: {_operator_change(operator, earlier, later)}."
                    break

    def _of_causes(self) -> Iterator[str]:
        causes, others = self._costs
        yield from (f"gone: {cause}." for cause in causes if cause not in others)
        yield from (f"new: {cause}." for cause in others if cause not in causes)


def _counts(recording: Recording) -> tuple[int, int, int]:
    return len(recording.graphs), len(recording.breaks), len(recording.of(ev.Recompiled))


def _by_cause(costs: list[Cost]) -> Counter[str]:
    """The costs by function and cause: a line may have moved."""
    counted: Counter[str] = Counter()
    for cost in costs:
        function = cost.place.rpartition(" in ")[2] if cost.kind == "graph break" else cost.place.partition(" (")[0]
        counted[f"{cost.kind} in {function}: {cost.cause}"] += cost.times
    return counted


def _function(recording: Recording, graph: GraphView) -> str:
    entered = next((frame for frame in recording.frames if frame.frame == graph.frame), None)
    return frame_name(recording, entered) if entered is not None else graph.name


def _operator_change(number: int, before: str, after: str) -> str:
    if not before or not after:
        return f"operator {number}, {before or after}, was {'removed' if before else 'added'}"
    return f"operator {number} changed from {before} to {after}"


def _operators(graph: GraphView) -> list[str]:
    return [f"{node.target} -> {node.dtype}{node.shape}" for node in graph.nodes if node.op.startswith("call_")]
