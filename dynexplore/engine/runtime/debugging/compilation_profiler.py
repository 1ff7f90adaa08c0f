"""A backend that compiles nothing twice and tells what keeps breaking graphs and what would recompile.

The idea: with a limit of one cache entry, everything that would be compiled again shows as a guard that fails. The
profiler is a backend and a recorder at once: graphs run as they are, and of all events it keeps those that tell of
breaks, misses and graphs.

In: `prof = CompilationProfiler()`, then `optimize(prof)(f)(...)`, as often as you like. Out: `prof.report()`.

torch/_dynamo/utils.py (CompileProfiler) does the same job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.recording import Recording

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


class _Kept(Recording):
    """A recording of what a profile needs."""

    def record(self, event: ev.Event) -> None:
        """Take an event that is worth it."""
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
    1 frames were compiled to 1 graphs with 1 operators
    """

    entry_limit = 1
    """Read by the engine: how many entries a code object may have under this backend."""

    def __init__(self) -> None:
        self.recorder = _Kept(title="profile")
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

    def report(self) -> str:
        """What was compiled; each graph break with place, reason and cure; each guard that asked for a recompile."""
        frames = len(self.recorder.of(ev.CacheEntryAdded))
        lines = [f"{frames} frames were compiled to {len(self.graphs)} graphs with {self.operator_count} operators"]
        lines += _part("Graph breaks", list(self._breaks()))
        lines += _part("Recompiles that would have been", list(self._recompiles()))
        lines += _part("Left to plain Python", list(self._skipped()))
        return "\n".join(lines)

    def _breaks(self) -> Iterator[str]:
        times = Counter((broke.user_stack[-1].place if broke.user_stack else "?", broke.kind) for broke in self.recorder.breaks)
        first = {(broke.user_stack[-1].place if broke.user_stack else "?", broke.kind): broke for broke in self.recorder.breaks}
        for key, count in times.most_common():
            broke = first[key]
            yield f"{count} x {key[0]}  {broke.kind}: {broke.reason}"
            yield f"      fix: {broke.fix}"

    def _recompiles(self) -> Iterator[str]:
        functions = {entered.frame: entered.code for entered in self.recorder.frames}
        frames = {added.entry: added.frame for added in self.recorder.of(ev.CacheEntryAdded)}
        missed = Counter(
            (frames.get(failed.entry, 0), failed.scope, failed.source, failed.kind, failed.expected, failed.actual)
            for failed in self.recorder.of(ev.GuardFailed)
        )
        for (frame, scope, source, kind, expected, actual), count in missed.most_common():
            code = functions.get(frame)
            where = f"{code.qualname} ({code.file}:{code.first_line})" if code is not None else "?"
            yield f"{count} x {where}"
            yield f"      {' '.join(filter(None, (scope, repr(source))))} {kind}: expected {expected}, found {actual}"

    def _skipped(self) -> Iterator[str]:
        for skipped in self.recorder.of(ev.FrameSkipped):
            yield f"{skipped.function} ({skipped.file}:{skipped.line}): {skipped.reason}"

    def __str__(self) -> str:
        return self.report()


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else ["", f"{title}: none"]
