"""The step checker: observes the real run of compiled code, and reports where it diverges from the symbolic run.

The idea: an observed store has one. While a frame is translated it checks each step (fast_checks.py, then opcode_checks.py);
when a graph is passed to the backend it creates the replay plan (plan.py) and wraps the compiled graph. In each run of the
graph it summarizes inputs and outputs, and replays the graph beside the real call (graph_replay.py, under snapshots.py). The
program must not be affected: an error in the step checker itself is noted in the recording, and the program continues.

In: steps, graphs, runs. Out: the records ValueObserved, ContentsSeen, DivergenceDetected, RunCompared, RunLeftOut. PyTorch's
counterpart: the accuracy minifier (torch/_dynamo/repro/after_dynamo.py), which compares outputs of whole graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.gc_control import gc_disabled
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.recorder import Recorder, deferred_event_sink
from dynexplore.second_opinion import fast_checks, snapshots
from dynexplore.second_opinion.before_step import state_before
from dynexplore.second_opinion.contents_shown import ContentsRecorded, ViewOf, may_have_changed, record_of
from dynexplore.second_opinion.deferred_checks import Attempt, BeforeStep, CheckedStep, DeferredCheck, Mismatch, StepMark
from dynexplore.second_opinion.differences import Difference
from dynexplore.second_opinion.graph_run_check import WatchedGraph
from dynexplore.second_opinion.large_containers import LargeContainers
from dynexplore.second_opinion.opcode_checks import verdict
from dynexplore.second_opinion.plan import make_plan
from dynexplore.second_opinion.snapshots import quiet
from dynexplore.second_opinion.summaries import summary

if TYPE_CHECKING:
    from dynexplore.engine.bytecode import Step
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.contract.context import TraceContext


class StepChecker:
    """The step checker of one observed store; see the module docstring."""

    def __init__(self, recorder: Recorder, modified_codes: Mapping[int, tuple[CodeType, int]] | None = None) -> None:
        self.recorder = recorder
        self.note = deferred_event_sink(recorder)
        self._modified_codes = modified_codes if modified_codes is not None else {}
        self.values_left = snapshots.MOST_VALUES
        self._attempts: dict[int, Attempt] = {}
        self._attempt: Attempt | None = None
        self._contents = ContentsRecorded()

    # -- while a frame is translated

    def attempt_started(self, frame_id: int, attempt: int, ctx: TraceContext, innermost: Callable[[], SymbolicFrame]) -> None:
        """Begin an attempt."""
        self._check_twins()
        large = LargeContainers(ctx.journal)
        self._attempt = self._attempts[frame_id] = Attempt(
            frame_id, attempt, ctx.graph.graph, ctx.journal, innermost, large, ctx.function_modes
        )
        self._contents = ContentsRecorded()

    def stepping(self, frame: SymbolicFrame, step: Step, callees: int) -> None:
        """Before a step is interpreted: copy what it may mutate."""
        attempt = self._attempt
        assert attempt is not None
        local = frame.locals.get(step.arg) if step.op == "LOAD_FAST" else None
        state = state_before(frame, step, attempt.large)
        attempt.before[frame] = BeforeStep(list(frame.stack), local, _last_node(attempt.graph), callees, state)

    def stepped(self, frame: SymbolicFrame, step: Step, inline: int, callees: int) -> None:
        """After a step was interpreted: check it against the meaning of the instruction."""
        attempt = self._attempt
        assert attempt is not None
        before, local, node_before, callees_before, state = attempt.before.pop(frame)
        node_after = _last_node(attempt.graph)
        number, attempt.steps = attempt.steps, attempt.steps + 1
        if node_after is not node_before:
            attempt.makers.append(StepMark(number, step.origin.offset, inline, "", node_before, node_after))
        innermost = attempt.innermost()
        if innermost is not frame:  # later queries (`super()`, a bare `raise`) would read another frame
            mark = StepMark(number, step.origin.offset, inline, _text(step), node_before, node_after)
            names = frame.parsed.code.co_qualname, innermost.parsed.code.co_qualname
            self.step_diverges(attempt.frame, attempt.number, mark, Mismatch("frame that runs", *names))
        handler = step.origin.handler
        attempt.latest = None
        if handler is not None and frame.pc == frame.parsed.first_step[handler.target.index]:
            attempt.large.give_up(state)  # it raised, and the exception was caught here
            return
        new_nodes = _nodes_between(node_before, node_after) if node_after is not node_before else ()
        is_right = attempt.modes.may_dispatch or fast_checks.is_right(step, frame, before, local, new_nodes, attempt.journal)
        if is_right and not may_have_changed(state, frame.stack):
            attempt.large.step_is_over(None)
            return
        mark = StepMark(number, step.origin.offset, inline, "", node_before, node_after)
        checked = CheckedStep(
            step, frame, before, frame.stack, local, new_nodes, callees != callees_before, state, attempt.journal, attempt.large
        )
        attempt.latest = mark, checked
        if not is_right:
            self._check(attempt, mark, checked)
            attempt.large.give_up(state)
        attempt.large.step_is_over(mark)

    def _check_twins(self) -> None:
        """At the end of a frame's translation, or of an attempt: compare the large containers as a whole."""
        attempt = self._attempt
        if attempt is None:
            return
        for before in attempt.before.values():  # a step that broke the graph did not complete
            attempt.large.give_up(before.state)
        for mark, mismatch in attempt.large.differences():
            self.step_diverges(attempt.frame, attempt.number, mark, mismatch)

    def _check(self, attempt: Attempt, mark: StepMark, step: CheckedStep) -> None:
        """Run the full check of a step that no fast check recognized."""
        try:
            answer = verdict(step)
        except Exception as error:  # an error in a check must not affect the program
            self._not_checked(attempt, mark.number, error)
            return
        if answer is None:
            return
        mark = replace(mark, text=_text(step.instruction))
        if isinstance(answer, DeferredCheck):
            attempt.deferred.append((mark, answer))
        else:
            self.step_diverges(attempt.frame, attempt.number, mark, answer)

    def record_contents(self, view: ViewOf) -> None:
        """Record the content of the containers that the latest step created or mutated; `view` formats a tracker."""
        attempt = self._attempt
        if attempt is None or attempt.latest is None:
            return
        mark, step = attempt.latest
        place = {"frame": attempt.frame, "attempt": attempt.number, "offset": mark.offset, "inline": mark.inline}
        for tracker, now in self._contents.changes(step):
            self.recorder.record(record_of(place, mark.number, tracker, now, view))

    def _not_checked(self, attempt: Attempt, number: int, error: Exception) -> None:
        reason = f"step {number} could not be checked: {type(error).__name__}: {error}"
        self.recorder.record(ev.RunLeftOut(frame=attempt.frame, attempt=attempt.number, graph="", run=0, reason=reason))

    def step_diverges(
        self, frame: int, attempt: int, mark: StepMark, difference: Mismatch | Difference, graph: str = "", run: int = 0
    ) -> None:
        """Record that a step is wrong."""
        self.recorder.record(
            ev.DivergenceDetected(
                frame=frame,
                attempt=attempt,
                offset=mark.offset,
                inline=mark.inline,
                name=mark.text,
                graph=graph,
                run=run,
                aspect=difference.aspect,
                expected=difference.expected,
                actual=difference.actual,
                where="step",
                step=mark.number,
            )
        )

    # -- when a graph is compiled

    def plan(self, graph: FinishedGraph, name: str, frame: int) -> WatchedGraph:
        """Create the plan of a graph's replay, before the backend receives the graph."""
        attempt = self._attempts[frame]
        with gc_disabled():
            return WatchedGraph(self, make_plan(graph, name), attempt)

    def forget(self, frame: int) -> None:
        """Drop the trackers of a frame after its translation."""
        if self._attempt is not None and self._attempt.frame == frame:
            self._check_twins()
        self._attempts.pop(frame, None)
        self._attempt = None
        self._contents = ContentsRecorded()

    # -- values

    def observed(self, role: str, name: str, value: object, **where: Any) -> None:
        """Record the summary of a value of the call itself."""
        if self.values_left > 0:
            self.values_left -= 1
            try:
                summarized = summary(value)
            except Exception as error:  # see above: a tensor of a kind that cannot be summarized
                summarized = {"why": f"{type(error).__name__}: {error}"}
            self.note((_value, role, name, where, summarized))

    def entered(self, frame: int, values: Mapping[str, object], resumed_from: CodeType | None) -> None:
        """Record the arguments of a frame; those of a resume function include the locals of the frame at its break."""
        self.record_locals(values, frame=frame, moment="entry")
        attempt = self._modified_codes.get(id(resumed_from))
        if attempt is not None:
            at_break = {name: value for name, value in values.items() if not name.startswith(_STACK)}
            self.record_locals(at_break, frame=attempt[1], moment="break")

    def returned(self, frame: int, value: object) -> None:
        """Record the return value of a frame."""
        if not snapshots.why_not_quiet():
            with quiet():
                self.observed("return", "return", value, frame=frame, moment="return")

    def record_locals(self, values: Mapping[str, object], **where: Any) -> None:
        """Record the summaries of locals and stack values of a frame."""
        if snapshots.why_not_quiet():
            return
        with quiet():
            for name, value in values.items():
                if name.startswith(_STACK):
                    self.observed("stack", name.removeprefix(_STACK), value, **where)
                elif not name.startswith(_OF_THE_ENGINE):
                    self.observed("local", name, value, **where)

    def modified_frame(self) -> tuple[int, dict[str, object]] | None:
        """The innermost running frame of modified code: its number and its locals."""
        running: FrameType | None = sys._getframe(1)
        while running is not None:
            modified = self._modified_codes.get(id(running.f_code))
            if modified is not None:
                return modified[1], _locals_of(running)
            running = running.f_back
        return None


_STACK = "___stack"
_OF_THE_ENGINE = (
    "___", "__compiled_fn_", "__object_", "__resume_at_", "__parameters_", "__must_run_again", "__run_again", "__tail_call",
)  # fmt: skip


def _locals_of(running: FrameType) -> dict[str, object]:
    """The locals of a running frame; keeps none of them alive."""
    of_frame = running.f_locals
    values = dict(of_frame)
    if isinstance(of_frame, dict):  # a copy that CPython keeps with the frame, before 3.13
        of_frame.clear()
    return values


def _value(role: str, name: str, where: Mapping[str, Any], summarized: Mapping[str, Any]) -> ev.ValueObserved:
    """The event for a value of the call itself."""
    return ev.ValueObserved(role=role, name=name, **where, **summarized)


# -- nodes -----------------------------------------------------------------------------------------------------


def _last_node(graph: torch.fx.Graph) -> torch.fx.Node | None:
    last: Any = graph._root._prev
    return None if last is graph._root else last


def _nodes_between(before: torch.fx.Node | None, after: torch.fx.Node | None) -> list[torch.fx.Node]:
    """The call nodes that were added after `before`, up to `after`."""
    calls: list[torch.fx.Node] = []
    node: Any = after
    while node is not None and node is not before and node.op != "root":
        if node.op not in ("placeholder", "get_attr"):
            calls.append(node)
        node = node._prev
    return calls[::-1]


def _text(step: Step) -> str:
    arg = "" if step.arg is None else f" {step.arg}"
    return ev.clip(f"{step.op}{arg}", 80)
