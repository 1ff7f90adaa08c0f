"""Every graph break of a program in one pass: the cost of each, and how to fix it.

The idea: the call is recorded once and profiled once. Each operator that ran outside all graphs is attributed to a break of the
frame that was running; breaks with the most such operators come first. `as_issue()` is the text of a bug report.

In: a function and its arguments. Out: `BreakReport`.

PyTorch's counterpart: `explain` in torch/_dynamo/eval_frame.py lists breaks, without costs or ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from dynexplore.engine import events as ev
from dynexplore.engine import native, tool_hooks
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.graph_breaks import KINDS
from dynexplore.engine.old_names import keep_old_names
from dynexplore.engine.runtime import optimized, reports
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.recording.recording import Recording
from dynexplore.session import torch_compiled
from dynexplore.session.session import watched_store
from dynexplore.tools import torch_runs
from dynexplore.tools.operator_profile import OperatorRun, profiled
from dynexplore.views import html_report, html_text
from dynexplore.views.break_places import place_words
from dynexplore.views.counts import plural
from dynexplore.views.headline import cause_alone
from dynexplore.views.names import chain_words


@dataclass(frozen=True, slots=True)
class BreakCost:
    """One place where graphs break: how often, and the operators and seconds that run outside graphs because of it."""

    graph_break: ev.GraphBroke
    count: int
    operators: tuple[str, ...]
    seconds: float
    source: str = ""
    """The function that contains the break."""
    place: str = "?"
    """File, line and function: the program's own line, followed by the line of a library if the break is there."""

    @property
    def cause(self) -> str:
        """The cause of the break, with the name of the function or attribute concerned."""
        return cause_alone(self.graph_break)

    @property
    def page(self) -> str:
        """Its documentation page in a checkout (`python -m dynexplore.engine.graph_breaks` prints it anywhere), or PyTorch's page
        ("": there is none).
        """
        return ev.page_of_kind(self.graph_break.kind)

    @property
    def differences(self) -> tuple[str, ...]:
        """The ids of known differences from plain Python (docs/differences.md) that may apply at such a break."""
        return KINDS[self.graph_break.kind].differences if self.graph_break.kind in KINDS else ()

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        outside = f"{plural(len(self.operators), 'operator')} ran outside graphs ({self.seconds * 1e6:.0f} us)"
        lines = [
            ev.wrapped(f"{self.graph_break.kind} {self.cause}: broke the graph {times}, {outside}", 3, ev.WIDTH - 3),
            f"   at  {self.place}",
            *([f"   called at {chain_words(self.graph_break.user_stack[:-1])}"] if self.graph_break.nested else []),
            ev.wrapped(f"   fix {self.graph_break.fix}", 7),
            *([f"   see {self.page}"] if self.page else []),
            *(f"   see docs/differences.md#{name.lower()} (differs from plain Python)" for name in self.differences),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def as_issue(self) -> str:
        """Text for a bug report: versions, the break, and the function that contains it."""
        versions = f"Python {PYTHON}, torch {torch.__version__}, dynexplore {_own_version()}"
        title = f"### Graph break {self.graph_break.kind}: {self.graph_break.title}"
        lines = [f"    {frame.code.strip()}  # {frame.place}" for frame in self.graph_break.user_stack if frame.code.strip()]
        source = ["```python", self.source.rstrip("\n"), "```"] if self.source else lines
        outside = plural(len(self.operators), "operator runs", "operators run")
        times = "once" if self.count == 1 else f"{self.count} times"
        cost = f"The graph broke {times} in one call; {outside} outside graphs because of it."
        return "\n".join((title, "", versions, "", "```", self.graph_break.report(), "```", "", cost, "", *source))


@dataclass(frozen=True, slots=True)
class BreakReport:
    """All graph breaks of a call, the most expensive first. `print` it; iterate over it; `report[0].as_issue()`."""

    function: str
    costs: tuple[BreakCost, ...]
    operators: int
    inside: int
    engine: str = DYNEXPLORE
    plain: str = ""
    """Why everything runs as plain Python; "" if something was captured."""

    def __iter__(self) -> Iterator[BreakCost]:
        return iter(self.costs)

    def __len__(self) -> int:
        return len(self.costs)

    def __getitem__(self, number: int) -> BreakCost:
        return self.costs[number]

    def __str__(self) -> str:
        return self.text()

    def text(self, most_lines: int = 0) -> str:
        """The report; if it is long (`most_lines`; 0: no limit), the most expensive breaks, and the number of the others."""
        share = f"{self.inside} of {plural(self.operators, 'operator')} run in graphs"
        count = len(self.costs)
        places = {0: "no graph breaks", 1: "the graph breaks in 1 place"}.get(count, f"the graph breaks in {count} places")
        whose = "" if self.engine == DYNEXPLORE else f"{self.engine} of "
        lines = [f"{whose}{self.function}: {places}; {share}"]
        lines += [ev.wrapped(f"{self.function} runs as plain Python: {self.plain}.", 2)] if self.plain else []
        for number, cost in enumerate(self.costs, 1):
            block = ["", *f"{number}. {cost}".split("\n")]
            rest = len(self.costs) - number
            if most_lines and number > 1 and len(lines) + len(block) + (2 if rest else 0) > most_lines:
                return "\n".join([*lines, "", f"... and {plural(rest + 1, 'more place')} (--full)"])
            lines += block
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        header = ("kind", "what", "where", "times", "operators outside", "time outside", "how to fix")
        prefix = html_text.next_prefix()
        rows = [
            (
                _linked(cost, prefix),
                *map(html_report.escape, (cost.cause, cost.place, str(cost.count), str(len(cost.operators)))),
                *map(html_report.escape, (f"{cost.seconds * 1e6:.0f} us", cost.graph_break.fix)),
            )
            for cost in self.costs
        ]
        issues = (html_report.to_copy(f"{cost.graph_break.kind}: copy as an issue report", cost.as_issue()) for cost in self.costs)
        kinds = [KINDS[name] for name in dict.fromkeys(cost.graph_break.kind for cost in self.costs) if name in KINDS]
        entries = (
            html_report.entry(
                f"{prefix}-{kind.id.lower()}",
                f"{kind.id}: {kind.title} ({kind.status})",
                (f"Why: {kind.why}", f"Fix: {kind.fix}"),
                kind.example.strip(),
            )
            for kind in kinds
        )
        first, _, _ = str(self).partition("\n")
        reason = [html_report.line(f"{self.function} runs as plain Python: {self.plain}.")] if self.plain else []
        return html_report.report(
            html_report.line(first), *reason, html_report.table(header, rows) if rows else "", *issues, *entries
        )


def all_breaks(
    fn: Callable[..., Any], /, *args: Any, engine: str | None = None, dynamic: bool | None = None, **kwargs: Any
) -> BreakReport:
    """Find every graph break of a call in one pass, ordered by cost, each with its fix.

    The call runs twice, on copies of its arguments. Raises what the call raises. The breaks are those of this engine, or
    torch.compile's for a function or module compiled by torch.compile; `engine` ("dynexplore", "torch.compile") overrides this.
    dynamic: as for `optimize`; None: the setting that fn was compiled with.

    >>> def f(x):
    ...     print("woo")
    ...     return x + 1
    >>> len(all_breaks(f, torch.ones(2)))
    woo
    woo
    1
    """
    chosen_engine = torch_compiled.chosen(engine, fn)
    options = Options(dynamic=torch_compiled.dynamic_of(fn) if dynamic is None else dynamic)
    with torch_compiled.uncompiled(fn):
        inside = torch_compiled.original_of(fn)
        start = CallSnapshot(inside, args, kwargs)
        if chosen_engine == DYNEXPLORE:
            return _engine_report(inside, start, options)
        return _torch_report(fn, start, options)


def _engine_report(fn: Callable[..., Any], start: CallSnapshot, options: Options) -> BreakReport:
    recording = Recording(title=getattr(fn, "__qualname__", type(fn).__qualname__))
    counted = counters.snapshot()
    outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
    try:
        with config.patch(profiler_ranges=True, log_level="ERROR"):
            called = optimized.wrap(fn, watched_store("eager", options, recording).region)
            first_args, first_kwargs = start.fresh()
            recording.record(reports.call_began(1, first_args, first_kwargs))  # names the caller's line, for a library function
            called(*first_args, **first_kwargs)
            reports.skipped_generator(recording, fn)
            next_args, next_kwargs = start.fresh()
            ran = profiled(lambda: called(*next_args, **next_kwargs))
    finally:
        native.leave(outer)
        start.fresh()
        counters.restore(counted)
    return _report(recording, _costs(recording, ran), ran)


def _torch_report(fn: Callable[..., Any], start: CallSnapshot, options: Options) -> BreakReport:
    """The report on torch.compile: the call is watched while torch.compile works on it, and run again under the profiler."""
    hooks = tool_hooks.connected()
    assert hooks is not None  # the top-level package has set them
    outer = native.enter(None)
    try:
        watched = hooks.watched_explanation(fn, torch_runs.in_ranges("eager"), options)
        first_args, first_kwargs = start.fresh()
        watched.call(*first_args, **first_kwargs)
        next_args, next_kwargs = start.fresh()
        ran = profiled(lambda: watched.call(*next_args, **next_kwargs), with_stack=True)
    finally:
        native.leave(outer)
        start.fresh()
    recording: Recording = watched.recording
    return _report(recording, _costs_by_place(recording, ran), ran)


def _report(recording: Recording, costs: list[BreakCost], ran: list[OperatorRun]) -> BreakReport:
    skipped = [event.reason for event in recording.of(ev.FrameSkipped) if not recording.graphs and not recording.breaks]
    inside = sum(bool(run.graph) for run in ran)
    return BreakReport(recording.title, tuple(costs), len(ran), inside, recording.engine, next(iter(skipped), ""))


def _own_version() -> str:
    try:
        return version("dynexplore")
    except PackageNotFoundError:  # an uninstalled checkout
        return "(a checkout)"


def _costs(recording: Recording, ran: list[OperatorRun]) -> list[BreakCost]:
    """One row for each place and break kind."""
    costs = []
    for breaks in _places(recording):
        frames = {broke.frame for broke in breaks}
        costs.append(_cost(recording, breaks, [run for run in ran if not run.graph and run.frame in frames]))
    return _ordered(costs)


def _costs_by_place(recording: Recording, ran: list[OperatorRun]) -> list[BreakCost]:
    """The same for operators that are attributed by the Python lines of their call stacks."""
    places = _places(recording)
    given_up = {skipped.frame for skipped in recording.of(ev.FrameSkipped)}
    outside = torch_runs.due_to(ran, [breaks[0] for breaks in places], given_up)
    return _ordered([_cost(recording, breaks, outside.get(number, [])) for number, breaks in enumerate(places)])


def _places(recording: Recording) -> list[list[ev.GraphBroke]]:
    """The breaks by kind and place: the program's line, and the library's line that it leads to."""
    places: dict[tuple[str, str], list[ev.GraphBroke]] = {}
    for broke in recording.breaks:
        places.setdefault((broke.kind, place_words(broke, recording, full=True)), []).append(broke)
    return list(places.values())


def _cost(recording: Recording, breaks: list[ev.GraphBroke], outside: list[OperatorRun]) -> BreakCost:
    code = recording.code_of(breaks[0])
    names, seconds = tuple(run.name for run in outside), sum(run.seconds for run in outside)
    source = code.source if code is not None else ""
    return BreakCost(breaks[0], len(breaks), names, seconds, source, place_words(breaks[0], recording, full=True) or "?")


def _ordered(costs: list[BreakCost]) -> list[BreakCost]:
    return sorted(costs, key=lambda cost: (-len(cost.operators), -cost.seconds))


def _linked(cost: BreakCost, prefix: str) -> str:
    """The kind, linked to its description: below the table, or on torch.compile's page."""
    kind = html_report.escape(cost.graph_break.kind)
    there = f"#{prefix}-{kind.lower()}" if cost.graph_break.kind in KINDS else html_report.escape(cost.page)
    return f'<a href="{there}">{kind}</a>' if there else kind


keep_old_names(globals())
