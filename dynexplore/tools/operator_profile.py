"""Which operators of a call run inside compiled graphs, which outside, and how long they take.

The idea: PyTorch's own profiler sees every operator with its parent; compiled graphs and guard checks are ranges of its
trace (profiler_ranges.py). An operator that no other operator called counts once, as inside if a graph's range is
among its parents. Work of the autograd engine is left out: it belongs to the backward.

Of torch's two profilers it is the older one, which knows the CPU alone: the other (Kineto) writes lines like
"USDT:... profiler_start" to standard error each time. They are of its level 5, so that KINETO_LOG_LEVEL=6 would end them; but that
is the program's to set, and is read only once.

In: a call to run. Out: `OperatorRun`s in the order in which they ran, each with the frame whose code called it.

torch/_dynamo/profiler.py did the same job by comparing two traces.
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
    """One operator that ran: its name, seconds, the graph that it ran in ("" for none), the latest frame that began; `stack`: the
    Python that called it, innermost first, as "file(line): function", where that was asked for.
    """

    name: str
    seconds: float
    graph: str
    frame: int
    stack: tuple[str, ...] = ()


class ProfilerRunning(DynexploreError, RuntimeError):
    """The program is being profiled already, and torch has one profiler for each thread."""


def profiled(call: Callable[[], Any], *, with_stack: bool = False) -> list[OperatorRun]:
    """Run the call once under the profiler. Raises ProfilerRunning where one is at work."""
    if _profiler_enabled():
        raise ProfilerRunning("operators are counted by torch's profiler, which is running already: ask after its block has ended")
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
