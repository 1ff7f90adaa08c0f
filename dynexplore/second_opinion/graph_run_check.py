"""The check of one run of a graph: inputs, outputs, and the replay beside it.

The idea: the compiled graph is wrapped. Around each call a `GraphRunCheck` summarizes inputs and outputs, replays the graph on
snapshots and compares. Outputs and mutated inputs are compared in graph order, so the first one that differs is reported first.
Values that depend on random numbers or uninitialized memory are compared only if both runs use the same. An error in the check
itself is noted in the recording, and the program continues.

In: a plan and the checks deferred to it, calls. Out: records, passed to the step checker's recorder. PyTorch's counterpart:
torch/_dynamo/repro/after_dynamo.py, whose accuracy minifier compares outputs of whole graphs.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.gc_control import gc_disabled
from dynexplore.engine.recorder import DeferredEvent, Recorder
from dynexplore.second_opinion import snapshots
from dynexplore.second_opinion.deferred_checks import Attempt, Mismatch, StepMark
from dynexplore.second_opinion.differences import Difference, difference
from dynexplore.second_opinion.graph_replay import PlannedCheck, Replay
from dynexplore.second_opinion.plan import Plan, with_refs
from dynexplore.second_opinion.snapshots import RandomState, Snapshot, quiet

MOST_RUNS = 3
"""The number of runs of each graph whose values are recorded; later runs are compared, and only divergences are recorded."""

MOST_SECONDS = 0.5
"""The time budget in seconds for comparing later runs of a graph, so that a training loop stays fast. Beyond it only every run
whose number is a power of two is compared, so that late errors of a backend are still found.
"""


class RunReporter(Protocol):
    """The part of the step checker that the check of a run needs."""

    recorder: Recorder
    note: Callable[[DeferredEvent], None]
    values_left: int

    def observed(self, role: str, name: str, value: object, **where: Any) -> None:
        """Record the summary of a value of the call itself."""

    def step_diverges(
        self, frame: int, attempt: int, mark: StepMark, difference: Mismatch | Difference, graph: str = "", run: int = 0
    ) -> None:
        """Record that a step is wrong."""

    def modified_frame(self) -> tuple[int, dict[str, object]] | None:
        """The innermost running frame of modified code: its number and its locals."""

    def record_locals(self, values: Mapping[str, object], **where: Any) -> None:
        """Record the summaries of locals and stack values of a frame."""


class WatchedGraph:
    """A graph whose runs are checked."""

    def __init__(self, checker: RunReporter, plan: Plan, attempt: Attempt) -> None:
        self.checker = checker
        self.plan = plan
        self.frame, self.attempt = attempt.frame, attempt.number
        positions = {row.name: place for place, row in enumerate(plan.rows)}
        self._makers = attempt.makers
        self._made_up_to = list(accumulate((_position(mark.node_after, positions) for mark in self._makers), max))
        self._places: dict[str, dict[str, Any]] = {}
        self.planned_checks = [
            PlannedCheck(
                deferred.function,
                with_refs(deferred.operands),
                with_refs(deferred.named),
                with_refs(deferred.result),
                _position(mark.node_before, positions),
                _position(mark.node_after, positions),
                mark,
            )
            for mark, deferred in attempt.deferred
        ]
        self._positions = positions
        self.seconds = 0.0  # spent on runs whose values are not recorded
        self.has_left_out = False  # whether runs were left out
        self.diverged = False
        self._runs = 0

    def watch(self, compiled: Callable[..., Any], backend: str) -> Callable[..., Any]:
        """The compiled graph, with a check around each run."""

        def run(*inputs: Any) -> Any:
            self._runs += 1
            check = GraphRunCheck(self, self._runs, backend)
            with gc_disabled():
                check.before(inputs)
            result = compiled(*inputs)
            with gc_disabled():
                check.after(inputs, result)
            return result

        return run

    def mark_of(self, name: str) -> StepMark | None:
        """The step that created a node; None for an input."""
        position = self._positions.get(name, -1)
        if not self._is_prepared(position):
            return None
        number = bisect.bisect_left(self._made_up_to, position)
        return self._makers[number] if number < len(self._makers) else None

    def _is_prepared(self, position: int) -> bool:
        return position >= 0 and self.plan.rows[position].op not in ("placeholder", "get_attr")

    def place(self, name: str) -> dict[str, Any]:
        """Frame, attempt, offset and callee of the step that created a node."""
        place = self._places.get(name)
        if place is None:
            mark = self.mark_of(name)
            where = {"frame": self.frame, "attempt": self.attempt}
            place = self._places[name] = where if mark is None else {**where, "offset": mark.offset, "inline": mark.inline}
        return place


class GraphRunCheck:
    """The check of one run of a graph; a `graph_replay.Listener`."""

    def __init__(self, graph: WatchedGraph, run: int, backend: str) -> None:
        self.graph, self.run, self.backend = graph, run, backend
        self.checker = graph.checker
        self.snapshot: Snapshot | None = None
        self.divergences = 0
        self.why_not = ""
        self.records_values = run <= MOST_RUNS

    # -- around the real call

    def before(self, inputs: Sequence[Any]) -> None:
        """Summarize the inputs, and copy those that will be mutated."""
        self.why_not = snapshots.why_not_quiet() or self._why_not_again()
        if self.why_not:
            return
        self.why_not = self._why_too_large(inputs)
        caller = self.checker.modified_frame() if 1 < self.run <= MOST_RUNS and not self.why_not else None
        if caller is not None:
            self.checker.record_locals(caller[1], frame=caller[0], moment="graph call", graph=self.graph.plan.name, run=self.run)
        try:
            with quiet():
                self._record_values("input", self.graph.plan.inputs, inputs)
                if not self.why_not:
                    self.snapshot = Snapshot(inputs, self.graph.plan.written)
        except Exception as error:  # an error in a check must not affect the program
            self.why_not = f"{type(error).__name__}: {error}"

    def after(self, inputs: Sequence[Any], result: Any) -> None:
        """Summarize the outputs, replay, compare."""
        began = time.perf_counter()
        if self.snapshot is None:
            self._leave_out(self.why_not)
            return
        reached = self.snapshot.random.now()
        try:
            with quiet():
                self._check(inputs, result, reached, began)
        except Exception as error:  # see above
            self._leave_out(f"the check failed: {type(error).__name__}: {error}")
        finally:
            reached.restore()
            self.snapshot = None
            self.graph.diverged |= self.divergences > 0
            if not self.records_values:
                self.graph.seconds += time.perf_counter() - began

    def _why_not_again(self) -> str:
        if self.records_values:
            return ""
        if self.graph.diverged:
            return "an earlier run of the graph diverges"
        if self.graph.seconds < MOST_SECONDS or self.run & (self.run - 1) == 0:
            return ""
        return f"later runs are compared for {MOST_SECONDS} s in all, and then every one whose number is a power of two"

    def _record_values(self, role: str, names: Sequence[str], values: Sequence[Any]) -> None:
        """Record the summaries of inputs or outputs."""
        if self.records_values:
            for name, value in zip(names, values, strict=True):
                self.checker.observed(role, name, value, **self._where(name))

    def _why_too_large(self, inputs: Sequence[Any]) -> str:
        if self.records_values and self.checker.values_left <= 0:
            return f"{snapshots.MOST_VALUES} values are recorded"
        size = snapshots.bytes_to_copy(inputs, self.graph.plan.written)
        return f"its inputs that are written to hold {size >> 20} MiB" if size > snapshots.MOST_BYTES else ""

    def _leave_out(self, reason: str) -> None:
        if self.records_values or not self.graph.has_left_out:
            self.graph.has_left_out = not self.records_values
            where = {"frame": self.graph.frame, "attempt": self.graph.attempt}
            self.checker.recorder.record(ev.RunLeftOut(**where, graph=self.graph.plan.name, run=self.run, reason=reason))

    def _check(self, inputs: Sequence[Any], result: Any, reached: RandomState, began: float) -> None:
        plan = self.graph.plan
        self._record_values("output", plan.outputs, result)
        assert self.snapshot is not None
        self.snapshot.random.restore()
        replay = Replay(plan, self.graph.planned_checks, self.snapshot.inputs(), self, records_values=self.records_values)
        replay.run()
        compared, notes = self._compare(replay, inputs, result, replay_draws_alike=reached == self.snapshot.random.now())
        self.checker.recorder.record(
            ev.RunCompared(
                frame=self.graph.frame,
                attempt=self.graph.attempt,
                graph=plan.name,
                run=self.run,
                steps=replay.checked_steps,
                nodes=replay.checked_nodes,
                outputs=compared,
                divergences=self.divergences,
                seconds=time.perf_counter() - began,
                notes=tuple(notes),
            )
        )

    # -- the backend's results against those of the replay

    def _compare(self, replay: Replay, inputs: Sequence[Any], result: Any, *, replay_draws_alike: bool) -> tuple[int, list[str]]:
        """Compare outputs in graph order, then mutated inputs; return how many were compared, and which were not."""
        plan, notes, compared = self.graph.plan, [], 0
        written = [(plan.inputs[place], inputs[place]) for place in plan.written]
        pairs = [("output", name, value) for name, value in zip(plan.outputs, result, strict=True)]
        for where, name, actual in [*pairs, *(("input", name, value) for name, value in written)]:
            if name not in replay.values:
                notes.append(f"{where} {name} was not compared: it has no replayed value")
            elif name in replay.uninitialized:
                notes.append(f"{where} {name} was not compared: it is uninitialized memory")
            elif name in replay.random_nodes and not replay_draws_alike:
                notes.append(f"{where} {name} was not compared: the backend draws its own random numbers")
            else:
                compared += 1
                unlike = difference(replay.values[name], actual, exact=self.backend == "eager")
                if unlike is not None:
                    self._diverges(name, unlike, where)
        return compared, notes

    # -- replay.Listener

    def observed(self, name: str, summarized: Mapping[str, Any], after: str = "", seconds: float = 0.0) -> None:
        """Record the value of a node in the replay."""
        if self.checker.values_left > 0:
            self.checker.values_left -= 1
            place = self.graph.place(after or name)
            self.checker.note((_value_of_node, name, after, place, self.graph.plan.name, self.run, summarized, seconds))

    def not_observed(self, name: str, why: str) -> None:
        """Record that a node has no value."""
        self.checker.recorder.record(ev.ValueObserved(role="node", name=name, replayed=True, why=ev.clip(why), **self._where(name)))

    def node_diverges(self, name: str, difference: Difference) -> None:
        """Record that a node's value differs from the prediction."""
        self._diverges(name, difference, "node")

    def step_diverges(self, planned: PlannedCheck, difference: Difference) -> None:
        """Record that a step differs from its instruction."""
        self.divergences += 1
        graph = self.graph
        self.checker.step_diverges(graph.frame, graph.attempt, planned.mark, difference, graph.plan.name, self.run)

    def _diverges(self, name: str, difference: Difference, where: str) -> None:
        self.divergences += 1
        mark = self.graph.mark_of(name)
        self.checker.recorder.record(
            ev.DivergenceDetected(
                **self.graph.place(name),
                name=name,
                graph=self.graph.plan.name,
                run=self.run,
                aspect=difference.aspect,
                expected=difference.expected,
                actual=difference.actual,
                where=where,
                step=-1 if mark is None else mark.number,
            )
        )

    def _where(self, name: str) -> dict[str, Any]:
        return {**self.graph.place(name), "graph": self.graph.plan.name, "run": self.run}


def _value_of_node(
    name: str, after: str, place: Mapping[str, Any], graph: str, run: int, summarized: Mapping[str, Any], seconds: float
) -> ev.ValueObserved:
    """The event for a node's value in the replay; the replay records no gradients."""
    more = {**place, "graph": graph, "run": run, **summarized, "requires_grad": None}
    return ev.ValueObserved(role="node", name=name, replayed=True, after=after, seconds=seconds, **more)


def _position(node: torch.fx.Node | None, positions: Mapping[str, int]) -> int:
    """The position of a node in the plan; for an eliminated node, that of its predecessor."""
    current: Any = node
    while current is not None and current.op != "root" and current.name not in positions:
        current = current._prev
    return -1 if current is None or current.op == "root" else positions[current.name]
