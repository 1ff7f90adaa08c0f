"""A backend that compiles each function only once, and reports graph breaks and suppressed recompiles.

The idea: with a limit of one cache entry, everything that would recompile shows up as a failing guard. The profiler is both a
backend and a recorder: graphs run uncompiled, and it keeps only the events about breaks, misses and graphs.

In: `prof = CompilationProfiler()`, then `optimize(prof)(f)(...)`, any number of times. Out: `prof.report()`.

PyTorch's counterpart: none any more (once `CompileProfiler` in torch/_dynamo/utils.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import html_report
from dynexplore.views.break_places import place_words
from dynexplore.views.counts import plural

_Row = TypeVar("_Row")

_RECORDED_EVENTS = (
    ev.FrameEntered,
    ev.AttemptStarted,
    ev.GraphBroke,
    ev.SubgraphCompiled,
    ev.CacheEntryAdded,
    ev.GuardFailed,
    ev.FrameSkipped,
    ev.EngineFailed,
)


class _ProfileRecording(Recording):
    """A recording of the events that a profile needs."""

    def record(self, event: ev.Event) -> None:
        """Record an event if the profile needs it."""
        if isinstance(event, _RECORDED_EVENTS):
            super().record(event)


class CompilationProfiler:
    """A backend that reports graph breaks and the recompiles that would follow; it compiles each function only once.

    >>> import torch, dynexplore
    >>> prof = CompilationProfiler()
    >>> double = dynexplore.optimize(prof)(lambda x: x * 2)
    >>> double(torch.ones(2)), double(torch.ones(2, dtype=torch.int64))
    (tensor([2., 2.]), tensor([2, 2]))
    >>> print(prof.report().splitlines()[0])
    1 frame was compiled to 1 graph with 1 operator
    """

    entry_limit = 1
    """Read by the engine: the maximum number of entries per code object under this backend."""

    def __init__(self) -> None:
        self.recorder = _ProfileRecording(title="profile")
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Return the graph unchanged."""
        self.graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    @property
    def operator_count(self) -> int:
        """The number of operators in all graphs."""
        return sum(node.op.startswith("call_") for graph in self.graphs for node in graph.graph.nodes)

    def report(self) -> ProfileReport:
        """What was compiled; each graph break with place, reason and fix; each guard that required a recompile."""
        skipped = [(f"{frame.function} ({frame.file}:{frame.line})", frame.reason) for frame in self.recorder.of(ev.FrameSkipped)]
        return ProfileReport(
            len(self.recorder.of(ev.CacheEntryAdded)),
            len(self.graphs),
            self.operator_count,
            tuple(self._breaks()),
            tuple(self._recompiles()),
            tuple(skipped),
        )

    def _breaks(self) -> Iterator[ProfiledBreak]:
        places = [(place_words(broke, self.recorder, full=True) or "?", broke.kind) for broke in self.recorder.breaks]
        first = dict(zip(reversed(places), reversed(self.recorder.breaks), strict=True))
        for key, count in Counter(places).most_common():
            yield ProfiledBreak(count, key[0], key[1], first[key].reason, first[key].fix)

    def _recompiles(self) -> Iterator[ProfiledRecompile]:
        functions = {entered.frame: entered.code for entered in self.recorder.frames}
        frames = {added.entry: added.frame for added in self.recorder.of(ev.CacheEntryAdded)}
        missed = Counter(
            (frames.get(failed.entry, 0), failed.scope, failed.source, failed.kind, failed.expected, failed.actual)
            for failed in self.recorder.of(ev.GuardFailed)
        )
        for (frame, scope, source, kind, expected, actual), count in missed.most_common():
            code = functions.get(frame)
            where = f"{code.qualname} ({code.file}:{code.first_line})" if code is not None else "?"
            yield ProfiledRecompile(count, where, " ".join(filter(None, (scope, repr(source)))), kind, expected, actual)

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


@dataclass(frozen=True, slots=True)
class ProfiledBreak:
    """A place where graphs broke: how often, where, the kind, the reason, the fix."""

    count: int
    place: str
    kind: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class ProfiledRecompile:
    """A guard that required a recompile: how often, in which function, its source and kind, expected and actual value."""

    count: int
    function: str
    source: str
    kind: str
    expected: str
    actual: str


class ProfileReport(str):
    """A profiler's findings: a text, causes first, each with some of its places; all findings are attributes, and tables in a
    notebook.
    """

    __slots__ = ("breaks", "frames", "graphs", "operators", "recompiles", "skipped")

    def __new__(
        cls,
        frames: int,
        graphs: int,
        operators: int,
        breaks: tuple[ProfiledBreak, ...],
        recompiles: tuple[ProfiledRecompile, ...],
        skipped: tuple[tuple[str, str], ...],
    ) -> ProfileReport:
        """Create the text from the findings."""
        compiled = f"{plural(frames, 'frame was', 'frames were')} compiled to {plural(graphs, 'graph')}"
        lines = [f"{compiled} with {plural(operators, 'operator')}"]
        lines += _part("Graph breaks", list(_causes_of_breaks(breaks)))
        lines += _part("Suppressed recompiles", list(_causes_of_recompiles(recompiles)))
        lines += _part("Running as plain Python", list(_reasons(skipped)))
        report = super().__new__(cls, "\n".join(ev.wrapped(line, 10) for line in lines))
        report.frames, report.graphs, report.operators = frames, graphs, operators
        report.breaks, report.recompiles, report.skipped = breaks, recompiles, skipped
        return report

    frames: int
    graphs: int
    operators: int
    breaks: tuple[ProfiledBreak, ...]
    recompiles: tuple[ProfiledRecompile, ...]
    skipped: tuple[tuple[str, str], ...]

    def _repr_html_(self) -> str:
        first, _, _ = self.partition("\n")
        broken = [(str(row.count), row.place, row.kind, row.reason, row.fix) for row in self.breaks]
        again = [(str(row.count), row.function, row.source, row.kind, row.expected, row.actual) for row in self.recompiles]
        parts = (
            ("Graph breaks", ("times", "where", "kind", "why", "how to fix"), broken),
            ("Suppressed recompiles", ("times", "function", "source", "guard", "expected", "found"), again),
            ("Running as plain Python", ("function", "why"), list(self.skipped)),
        )
        tables = (
            html_report.rows(head, rows, title) if rows else html_report.line(f"{title}: none") for title, head, rows in parts
        )
        return html_report.report(html_report.line(first), *tables)


_CAUSES = 10  # causes listed per part
_PLACES = 3  # places listed per cause


def _causes_of_breaks(breaks: tuple[ProfiledBreak, ...]) -> Iterator[list[str]]:
    """Each cause with its places, the most frequent first."""
    for (kind, reason), group in _grouped(breaks, lambda row: (row.kind, row.reason)):
        fix = f"      fix: {group[0].fix}"
        if len(group) == 1:
            yield [f"{group[0].count} x {group[0].place}  {kind}: {reason}", fix]
        else:
            yield [f"{_times(group)} x {kind}: {reason}", fix, *_some([f"{row.count} x {row.place}" for row in group], "place")]


def _causes_of_recompiles(recompiles: tuple[ProfiledRecompile, ...]) -> Iterator[list[str]]:
    """Each equal guard failure with its functions, the most frequent first."""
    for (source, kind, expected, actual), group in _grouped(
        recompiles, lambda row: (row.source, row.kind, row.expected, row.actual)
    ):
        guard = f"{source} {kind}: expected {expected}, found {actual}"
        if len(group) == 1:
            yield [f"{group[0].count} x {group[0].function}", f"      {guard}"]
        else:
            yield [f"{_times(group)} x {guard}", *_some([f"{row.count} x {row.function}" for row in group], "function")]


def _reasons(skipped: tuple[tuple[str, str], ...]) -> Iterator[list[str]]:
    """Each reason with its functions."""
    for reason, group in _grouped(skipped, lambda row: row[1]):
        if len(group) == 1:
            yield [f"{group[0][0]}: {reason}"]
        else:
            yield [f"{len(group)} x {reason}", *_some([function for function, _ in group], "function")]


def _grouped(rows: Sequence[_Row], key: Callable[[_Row], Any]) -> list[tuple[Any, list[_Row]]]:
    """The rows grouped by key, the most frequent first."""
    groups: dict[Any, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return sorted(groups.items(), key=lambda group: -_times(group[1]))


def _times(group: Sequence[Any]) -> int:
    return sum(1 if isinstance(row, tuple) else row.count for row in group)


def _some(texts: list[str], noun: str) -> list[str]:
    more = len(texts) - _PLACES
    return [f"      {text}" for text in texts[:_PLACES]] + [f"      and {plural(more, f'more {noun}')}"] * (more > 0)


def _part(title: str, causes: list[list[str]]) -> list[str]:
    if not causes:
        return ["", f"{title}: none"]
    more = len(causes) - _CAUSES
    lines = [line for cause in causes[:_CAUSES] for line in cause] + [f"and {plural(more, 'more cause')}"] * (more > 0)
    return ["", f"{title}:", *(f"  {line}" for line in lines)]
