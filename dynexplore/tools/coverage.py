"""Coverage: the share of a program's operators, and of their time, inside graphs.

The idea: run the call under the profiler (operator_profile.py), and divide the operators inside graphs by all operators.

In: a function and its arguments. Out: `Coverage`.

PyTorch's counterpart: `ProfileMetrics` in torch/_dynamo/profiler.py.
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
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.session import torch_compiled
from dynexplore.tools import torch_runs
from dynexplore.tools.operator_profile import OperatorRun, profiled
from dynexplore.views import html_report
from dynexplore.views.counts import plural


@dataclass(frozen=True, slots=True)
class Coverage:
    """Operators and seconds, inside graphs and in total; `outside` counts the operators outside of graphs, by name; `notice`
    describes what the backend is missing ("": nothing), so that its graphs ran uncompiled. `engine`: whose graphs.
    """

    operators_inside: int
    operators: int
    seconds_inside: float
    seconds: float
    graphs: int
    outside: tuple[tuple[str, int], ...]
    notice: str = ""
    engine: str = DYNEXPLORE

    @property
    def of_operators(self) -> float:
        """The share of operators inside graphs, 0 to 1; 1 for a program without operators."""
        return self.operators_inside / self.operators if self.operators else 1.0

    @property
    def of_time(self) -> float:
        """The share of operator time inside graphs."""
        return self.seconds_inside / self.seconds if self.seconds else 1.0

    def __str__(self) -> str:
        return self.text()

    def text(self, most_lines: int = 0) -> str:
        """The report; if it has more than `most_lines` (0: no limit), the most frequent operators, and the number of the others."""
        share = f"{self.operators_inside} of {self.operators} operators ({self.of_operators:.1%})"
        share += f", which take {self.of_time:.1%} of the operator time,"
        lines = [f"{share} run inside {plural(self.graphs, 'graph')}{self._whose}"]
        most = max(most_lines - len(lines) - bool(self.notice) - 1, 0)
        cut = self.outside[most:] if most_lines and len(self.outside) > most + 1 else ()
        lines += [f"  outside: {count} x {name}" for name, count in self.outside[: len(self.outside) - len(cut)]]
        lines += [f"  ... and {plural(len(cut), 'more operator')} (--full)"] if cut else []
        lines += [self.notice] * bool(self.notice)
        return "\n".join(lines)

    @property
    def _whose(self) -> str:
        return "" if self.engine == DYNEXPLORE else f" of {self.engine}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, _, _ = str(self).partition("\n")
        rows = html_report.rows(("outside of graphs", "times"), [(name, str(count)) for name, count in self.outside])
        return html_report.report(html_report.line(first), rows if self.outside else "", html_report.line(self.notice))


def coverage(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn = "eager",
    engine: str | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Coverage:
    """Measure the share of operators, and of their time, that run inside graphs.

    The call runs twice, on copies of its arguments: once to compile, once under PyTorch's profiler. With a backend that fuses
    operators, the fused ones are counted. The graphs are those of this engine, or torch.compile's for a function or module compiled
    by torch.compile; `engine` ("dynexplore", "torch.compile") overrides this. dynamic: as for `optimize`; None: the setting that fn
    was compiled with.

    >>> print(coverage(lambda x: (x + 1) * 2, torch.ones(2)).of_operators)
    1.0
    """
    chosen_engine, inside = torch_compiled.chosen(engine, fn), torch_compiled.original_of(fn)
    dynamic = torch_compiled.dynamic_of(fn) if dynamic is None else dynamic
    store = make_store(resolve(backend), Options(dynamic=dynamic))
    store.observers.notices = {}
    with torch_compiled.uncompiled(fn):
        start = CallSnapshot(inside, args, kwargs)
        if chosen_engine == DYNEXPLORE:
            ran = measured(inside, start, store)
        else:
            ran = measured_twice(torch_runs.compiled_in_ranges(fn, backend, dynamic), start)
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
        chosen_engine,
    )


def measured(fn: Any, start: CallSnapshot, store: Store) -> list[OperatorRun]:
    """Compile in a separate store, then run again under the profiler."""
    with config.patch(profiler_ranges=True, log_level="ERROR"):
        return measured_twice(optimized.wrap(fn, store.region), start)


def measured_twice(called: Callable[..., Any], start: CallSnapshot) -> list[OperatorRun]:
    """Call once, which compiles, and again under the profiler."""
    outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
    try:
        args, kwargs = start.fresh()
        called(*args, **kwargs)
        args, kwargs = start.fresh()
        return profiled(lambda: called(*args, **kwargs))
    finally:
        native.leave(outer)
        start.fresh()
