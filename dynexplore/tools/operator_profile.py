"""Operator profile of a call: which operators run inside compiled graphs, which outside, and how long they take.

The idea: PyTorch's own profiler sees every operator with its parent; compiled graphs and guard checks are ranges of its trace
(profiler_ranges.py). A top-level operator counts once, as inside if one of its parents is a graph's range. Work of the autograd
engine is excluded: it belongs to the backward.

Of torch's two profilers this is the legacy one, which covers only the CPU: the other (Kineto) writes lines like "USDT:...
profiler_start" to standard error each time. They have log level 5, so that KINETO_LOG_LEVEL=6 would suppress them; but that
variable belongs to the user, and is read only once.

In: a call to run. Out: `OperatorRun`s in execution order, each with the frame whose code called it.

PyTorch's counterpart: `Profiler` in torch/_dynamo/profiler.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch._C._autograd import _profiler_enabled
from torch.autograd.profiler_legacy import profile
from torch.autograd.profiler_util import FunctionEvent

from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.runtime.profiler_ranges import GRAPH, GUARDS


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """One operator that ran: its name, seconds, the graph that it ran in ("" for none), the latest frame that began; `stack`: its
    Python call stack, innermost first, as "file(line): function", if requested.
    """

    name: str
    seconds: float
    graph: str
    frame: int
    stack: tuple[str, ...] = ()


class ProfilerRunning(DynexploreError, RuntimeError):
    """The program is already being profiled, and torch has one profiler per thread."""


def profiled(call: Callable[[], Any], *, with_stack: bool = False) -> list[OperatorRun]:
    """Run the call once under the profiler. Raises ProfilerRunning if one is active."""
    if _profiler_enabled():
        raise ProfilerRunning("operators are counted by torch's profiler, which is already running: call this outside its block")
    with profile(with_stack=with_stack) as watching:  # type: ignore[no-untyped-call]
        call()
    events = sorted(watching.function_events, key=lambda event: event.time_range.start)
    return list(_operators(events))


def _operators(events: list[FunctionEvent]) -> Iterator[OperatorRun]:
    frame = 0
    for event in events:
        if event.name.startswith(GUARDS):
            frame = int(event.name.removeprefix(GUARDS).partition(" ")[0])
        elif "::" in event.name and not event.name.startswith(("autograd::", "torch::")):
            above = list(_parents(event))
            if not any("::" in name for name in above):
                graph = next((name.removeprefix(GRAPH) for name in above if name.startswith(GRAPH)), "")
                yield OperatorRun(event.name, event.cpu_time_total / 1e6, graph, frame, tuple(event.stack or ()))


def _parents(event: FunctionEvent) -> Iterator[str]:
    parent = event.cpu_parent
    while parent is not None:
        yield parent.name
        parent = parent.cpu_parent
