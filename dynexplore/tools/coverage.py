"""How much of a program runs inside graphs: the share of its operators, and of their time.

In: a function and its arguments. Out: `Coverage`.

torch/_dynamo/profiler.py (ProfileMetrics) did the same job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.starting_state import StartingState
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.tools.operator_profile import OperatorRun, profiled
from dynexplore.views import html_report
from dynexplore.views.counts import plural


@dataclass(frozen=True, slots=True)
class Coverage:
    """Operators and seconds, inside graphs and in all; `outside` counts the operators that no graph holds, by
    name; `notice` says what the backend lacked ("": nothing), so that its graphs ran as they are.
    """

    operators_inside: int
    operators: int
    seconds_inside: float
    seconds: float
    graphs: int
    outside: tuple[tuple[str, int], ...]
    notice: str = ""

    @property
    def of_operators(self) -> float:
        """The share of operators inside graphs, 0 to 1; 1 for a program without any."""
        return self.operators_inside / self.operators if self.operators else 1.0

    @property
    def of_time(self) -> float:
        """The share of the operators' time inside graphs."""
        return self.seconds_inside / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        share = f"{self.operators_inside} of {self.operators} operators ({self.of_operators:.1%})"
        lines = [f"{share} and {self.of_time:.1%} of their time run inside {plural(self.graphs, 'graph')}"]
        lines += [f"  outside: {count} x {name}" for name, count in self.outside]
        lines += [self.notice] * bool(self.notice)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, _, _ = str(self).partition("\n")
        rows = html_report.rows(("outside of graphs", "times"), [(name, str(count)) for name, count in self.outside])
        return html_report.report(html_report.line(first), rows if self.outside else "", html_report.line(self.notice))


def coverage(fn: Callable[..., Any], /, *args: Any, backend: str | CompilerFn = "eager", **kwargs: Any) -> Coverage:
    """Measure the share of operators, and of their time, that run inside graphs.

    The call runs twice, on copies of its arguments: once to compile, once under PyTorch's profiler. With a backend that
    fuses operators, the fused ones are counted.

    >>> print(coverage(lambda x: (x + 1) * 2, torch.ones(2)).of_operators)
    1.0
    """
    store = make_store(resolve(backend), Options())
    store.observers.notices = {}
    ran = measured(fn, StartingState(fn, args, kwargs), store)
    inside = [run for run in ran if run.graph]
    outside = Counter(run.name for run in ran if not run.graph)
    return Coverage(
        len(inside),
        len(ran),
        sum(run.seconds for run in inside),
        sum(run.seconds for run in ran),
        len({run.graph for run in inside}),
        tuple(outside.most_common()),
        " ".join(store.observers.notices),
    )


def measured(fn: Any, start: StartingState, store: Store) -> list[OperatorRun]:
    """Compile in a store of its own, then run once more under the profiler."""
    outer = native.enter(None)  # of nested regions the outer wins: be in none
    try:
        with config.patch(profiler_ranges=True, log_level="ERROR"):
            called = optimized.wrap(fn, store.region)
            args, kwargs = start.fresh()
            called(*args, **kwargs)
            args, kwargs = start.fresh()
            return profiled(lambda: called(*args, **kwargs))
    finally:
        native.leave(outer)
        start.fresh()
