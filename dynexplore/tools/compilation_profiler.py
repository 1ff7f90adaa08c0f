"""A backend that compiles nothing twice and reports which graphs break and what would recompile.

The idea: with a limit of one cache entry, everything that would be compiled again shows as a guard that fails. The
profiler is a backend and a recorder at once: graphs run uncompiled, and of all events it keeps those about
breaks, misses and graphs.

In: `prof = CompilationProfiler()`, then `optimize(prof)(f)(...)`, as often as you like. Out: `prof.report()`.

torch/_dynamo/utils.py (CompileProfiler) does the same job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import html_report
from dynexplore.views.counts import plural

_KEPT = (
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
    """A recording of what a profile needs."""

    def record(self, event: ev.Event) -> None:
        """Take an event that the profile needs."""
        if isinstance(event, _KEPT):
            super().record(event)


class CompilationProfiler:
    """A backend for finding graph breaks and recompiles; see the head of this file.

    >>> import torch, dynexplore
    >>> prof = CompilationProfiler()
    >>> double = dynexplore.optimize(prof)(lambda x: x * 2)
    >>> double(torch.ones(2)), double(torch.ones(2, dtype=torch.int64))
    (tensor([2., 2.]), tensor([2, 2]))
    >>> print(prof.report().splitlines()[0])
    1 frame was compiled to 1 graph with 1 operator
    """

    entry_limit = 1
    """Read by the engine: how many entries a code object may have under this backend."""

    def __init__(self) -> None:
        self.recorder = _ProfileRecording(title="profile")
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The graph as it is."""
        self.graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    @property
    def operator_count(self) -> int:
        """How many operators the graphs call."""
        return sum(node.op.startswith("call_") for graph in self.graphs for node in graph.graph.nodes)

    def report(self) -> ProfileReport:
        """What was compiled; each graph break with place, reason and fix; each guard that asked for a recompile."""
        skipped = [(f"{one.function} ({one.file}:{one.line})", one.reason) for one in self.recorder.of(ev.FrameSkipped)]
        return ProfileReport(
            len(self.recorder.of(ev.CacheEntryAdded)),
            len(self.graphs),
            self.operator_count,
            tuple(self._breaks()),
            tuple(self._recompiles()),
            tuple(skipped),
        )

    def _breaks(self) -> Iterator[ProfiledBreak]:
        places = [(broke.user_stack[-1].place if broke.user_stack else "?", broke.kind) for broke in self.recorder.breaks]
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
    """A place where graphs broke: how often, where, which kind, why, how to fix it."""

    count: int
    place: str
    kind: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class ProfiledRecompile:
    """A guard that asked for a recompile: how often, in which function, of which source and kind, expected and found."""

    count: int
    function: str
    source: str
    kind: str
    expected: str
    actual: str


class ProfileReport(str):
    """What a profiler found: a text, with the findings as attributes; in a notebook it is a few tables."""

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
        """The text of these findings."""
        compiled = f"{plural(frames, 'frame was', 'frames were')} compiled to {plural(graphs, 'graph')}"
        lines = [f"{compiled} with {plural(operators, 'operator')}"]
        broken = ((f"{one.count} x {one.place}  {one.kind}: {one.reason}", f"      fix: {one.fix}") for one in breaks)
        again = (
            (f"{one.count} x {one.function}", f"      {one.source} {one.kind}: expected {one.expected}, found {one.actual}")
            for one in recompiles
        )
        lines += _part("Graph breaks", [line for both in broken for line in both])
        lines += _part("Recompiles that would have been", [line for both in again for line in both])
        lines += _part("Left to plain Python", [f"{function}: {reason}" for function, reason in skipped])
        made = super().__new__(cls, "\n".join(lines))
        made.frames, made.graphs, made.operators = frames, graphs, operators
        made.breaks, made.recompiles, made.skipped = breaks, recompiles, skipped
        return made

    frames: int
    graphs: int
    operators: int
    breaks: tuple[ProfiledBreak, ...]
    recompiles: tuple[ProfiledRecompile, ...]
    skipped: tuple[tuple[str, str], ...]

    def _repr_html_(self) -> str:
        first, _, _ = self.partition("\n")
        broken = [(str(one.count), one.place, one.kind, one.reason, one.fix) for one in self.breaks]
        again = [(str(one.count), one.function, one.source, one.kind, one.expected, one.actual) for one in self.recompiles]
        parts = (
            ("Graph breaks", ("times", "where", "kind", "why", "how to fix"), broken),
            ("Recompiles that would have been", ("times", "function", "source", "guard", "expected", "found"), again),
            ("Left to plain Python", ("function", "why"), list(self.skipped)),
        )
        tables = (
            html_report.rows(head, rows, title) if rows else html_report.line(f"{title}: none") for title, head, rows in parts
        )
        return html_report.report(html_report.line(first), *tables)


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else ["", f"{title}: none"]
