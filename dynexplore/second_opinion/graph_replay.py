"""Replays a graph on snapshots, node by node: records the values inside it and where they differ from the prediction.

The idea: an interpreter over the rows of a `Plan`. After each node its value is summarized and compared with the symbolic run's
prediction (dtype, device, and shape under this call's symbol bindings), and the deferred checks that end at the node run: the
instruction is executed on the real operands, and its result is compared. A tensor that a node mutates in place is summarized
again. Nodes that need an unavailable value (that of a node that must not run twice) are skipped, with the reason.

In: a plan, the checks deferred to it, the inputs of one run. Out: calls of a `Listener`; `Replay.values`, the outputs and
mutated inputs. PyTorch's counterpart: `torch.fx.Interpreter`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dynexplore.second_opinion.differences import Difference, difference
from dynexplore.second_opinion.plan import Plan, PlanRow, Prediction, Ref, attribute_of, refs, with_values
from dynexplore.second_opinion.snapshots import RandomState
from dynexplore.second_opinion.summaries import dtype_name, summary


@dataclass(slots=True)
class PlannedCheck:
    """A deferred check with references: between the rows `begin` and `end` of the plan; `mark` is the step."""

    function: Any
    operands: Any
    named: Any
    result: Any
    begin: int
    end: int
    mark: Any
    expected: Any = None
    has_expected: bool = False


class Listener(Protocol):
    """Receives values and divergences."""

    def observed(self, name: str, summarized: Mapping[str, Any], after: str = "", seconds: float = 0.0) -> None:
        """Receive the value of a node; `after` is the node that mutated it, `seconds` is how long its operator took."""

    def not_observed(self, name: str, why: str) -> None:
        """Receive the reason why a node has no value."""

    def node_diverges(self, name: str, difference: Difference) -> None:
        """Receive the difference of a node's value from the prediction."""

    def step_diverges(self, planned: PlannedCheck, difference: Difference) -> None:
        """Receive the difference of a step from its instruction."""


_NOT_CARRIED_OUT = frozenset({"_set_grad_enabled", "set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode"})
"""Nodes that set the gradient mode are skipped: the replay always runs without gradients."""


class Replay:
    """One replay of a plan."""

    def __init__(
        self, plan: Plan, checks: Sequence[PlannedCheck], inputs: Sequence[Any], listener: Listener, *, records_values: bool = True
    ) -> None:
        self.plan = plan
        self.records_values = records_values  # else only divergences
        self.checks = list(checks)
        self.listener = listener
        self.values: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
        self.random_nodes: set[str] = set()  # nodes whose elements depend on random numbers
        self.uninitialized: set[str] = set()  # nodes whose elements depend on uninitialized memory
        self.missing: dict[str, str] = {}
        self.checked_steps = 0
        self.checked_nodes = 0
        self._symbols: dict[Any, Any] = {}
        self._written = {plan.inputs[place] for place in plan.written}
        self._last: dict[str, dict[str, Any]] = {}  # the latest summary of each mutated input
        first = sum(row.op in ("placeholder", "get_attr") for row in plan.rows) - 1
        self._beginning = _by_position(self.checks, lambda planned: max(planned.begin, first))
        self._ending = _by_position(self.checks, lambda planned: max(planned.end, first))

    def run(self) -> None:
        """Run every node."""
        last_use = dict(self.plan.last_use)
        for planned in self.checks:
            for ref in refs((planned.operands, planned.named, planned.result)):
                last_use[ref.name] = max(last_use.get(ref.name, -1), planned.end)
        unused_after: dict[int, list[str]] = {}
        for name, position in last_use.items():
            unused_after.setdefault(position, []).append(name)
        self._check(-1)
        for position, row in enumerate(self.plan.rows):
            self._run(row)
            self._check(position)
            for name in unused_after.get(position, ()):
                self.values.pop(name, None)

    # -- one node

    def _run(self, row: PlanRow) -> None:
        used = row.uses
        why = row.refused or self._needs(used)
        if why:
            self._miss(row.name, why)
            return
        touched: list[str] = []
        if row.op != "placeholder":
            versions = [_version(self.values[name]) for name in used]
            state = RandomState(list(self.values.values())) if self.plan.draws_random_numbers else None
            began = self._moment(used)
            try:
                self.values[row.name] = self._result(row)
            except Exception as error:  # an operator may raise anything; the real call raises the same, or does not
                self._miss(row.name, f"it raised {type(error).__name__}: {error}")
                return
            seconds = self._moment([row.name]) - began
            if versions != [_version(self.values[name]) for name in used]:
                touched = self._sharing_memory(used)
            self._note_origin(row, [*used, *touched], [row.name, *touched], state)
            if self.records_values and self.values[row.name] is not None:
                self.listener.observed(row.name, summary(self.values[row.name]), seconds=seconds)
        if self.records_values:
            self._record_writes(row, used, touched)
        self._compare_with_prediction(row)

    def _needs(self, used: Sequence[str]) -> str:
        """The operand of a node that is unavailable; "" if all are available."""
        if not self.missing:
            return ""
        return next((f"it needs {name}, which {self.missing[name]}" for name in used if name in self.missing), "")

    def _record_writes(self, row: PlanRow, used: Sequence[str], touched: Sequence[str]) -> None:
        """Record the tensors that the node mutated again; running statistics are mutated without a new version."""
        if not touched and not self._written:
            return
        for name in touched:
            if name != row.name:
                self.listener.observed(name, summary(self.values[name]), row.name)
        if row.op == "placeholder" and row.name in self._written:
            self._last[row.name] = summary(self.values[row.name])
        for name in self._written.intersection(used):
            now = summary(self.values[name])
            if name not in touched and now != self._last[name]:
                self.listener.observed(name, now, row.name)
            self._last[name] = now

    def _miss(self, name: str, why: str) -> None:
        self.missing[name] = "has no replayed value" if "which has" in why else f"was not replayed ({why})"
        self.values.pop(name, None)
        if self.records_values:
            self.listener.not_observed(name, why)

    def _result(self, row: PlanRow) -> Any:
        if row.op == "get_attr":
            return attribute_of(self.plan, row)
        args: Any = with_values(row.args, self.values)
        kwargs = with_values(row.kwargs, self.values) if row.kwargs else {}
        if row.op == "call_method":
            return getattr(args[0], row.target)(*args[1:], **kwargs)
        if row.op == "call_module":
            return self.plan.module.get_submodule(row.target)(*args, **kwargs)
        if getattr(row.target, "__name__", "") in _NOT_CARRIED_OUT:
            return None
        return row.target(*args, **kwargs)

    def _moment(self, names: Sequence[str]) -> float:
        """The time after the work on these values is complete: a GPU runs asynchronously."""
        if any(isinstance(value := self.values[name], torch.Tensor) and value.is_cuda for name in names):
            torch.cuda.synchronize()
        return time.perf_counter()

    def _note_origin(self, row: PlanRow, used: Sequence[str], outputs: Sequence[str], before: RandomState | None) -> None:
        """Track whether the elements of `outputs` depend on anything but the inputs."""
        if (before is not None and before != before.now()) or not self.random_nodes.isdisjoint(used):
            self.random_nodes.update(outputs)
        if row.uninitialized or not self.uninitialized.isdisjoint(used):
            self.uninitialized.update(outputs)

    def _sharing_memory(self, names: Sequence[str]) -> list[str]:
        """All tensors that share storage with one of these, and so have a new value after a mutation."""
        used = [value for name in names if isinstance(value := self.values[name], torch.Tensor)]
        memories = {value.untyped_storage()._cdata for value in used}
        tensors = [(name, value) for name, value in self.values.items() if isinstance(value, torch.Tensor)]
        return [name for name, value in tensors if value.untyped_storage()._cdata in memories]

    # -- predictions

    def _compare_with_prediction(self, row: PlanRow) -> None:
        value, predicted = self.values[row.name], row.predicted
        if predicted is None or not isinstance(value, torch.Tensor):
            return
        self.checked_nodes += 1
        node_difference = self._difference_from(value, predicted)
        if node_difference is not None:
            self.listener.node_diverges(row.name, node_difference)

    def _difference_from(self, value: torch.Tensor, predicted: Prediction) -> Difference | None:
        if dtype_name(value) != predicted.dtype:
            return Difference("dtype", predicted.dtype, dtype_name(value))
        if len(predicted.shape) != value.dim():
            return Difference("shape", str(list(predicted.shape)), str(list(value.shape)))
        sizes = [self._size(predicted_size, real) for predicted_size, real in zip(predicted.shape, value.shape, strict=True)]
        if sizes != list(value.shape):
            return Difference("shape", str(sizes), str(list(value.shape)))
        if predicted.device.type != value.device.type:
            return Difference("device", str(predicted.device), str(value.device))
        return None

    def _size(self, predicted_size: Any, real: int) -> Any:
        """A predicted size under this call's bindings; a symbol that occurs for the first time is bound to the real size."""
        if isinstance(predicted_size, int):
            return predicted_size
        if predicted_size.is_Symbol:
            return self._symbols.setdefault(predicted_size, real)
        answer = predicted_size.xreplace(self._symbols)
        return int(answer) if answer.is_number else real

    # -- deferred checks

    def _check(self, position: int) -> None:
        """Execute the instructions that begin here, and compare the outcome of those that end here."""
        for planned in self._beginning.get(position, ()):
            self._carry_out(planned)
        for planned in self._ending.get(position, ()):
            if planned.has_expected:
                self._compare(planned)

    def _carry_out(self, planned: PlannedCheck) -> None:
        needed = {ref.name for ref in refs((planned.operands, planned.named))}
        if not needed <= self.values.keys():
            return
        state = RandomState(list(self.values.values()))
        copies = {name: _copy(self.values[name]) for name in needed}
        try:
            operands, named = with_values(planned.operands, copies), with_values(planned.named, copies)
            planned.expected = planned.function(*operands, **named)
            planned.has_expected = True
        except Exception:  # the instruction raises on real values: so does the graph, which reports it
            planned.has_expected = False
        state.restore()

    def _compare(self, planned: PlannedCheck) -> None:
        try:
            actual = with_values(planned.result, self.values)
        except KeyError:
            return
        self.checked_steps += 1
        names = {ref.name for ref in refs((planned.operands, planned.named, planned.result))}
        step_difference = difference(planned.expected, actual, elements=self.uninitialized.isdisjoint(names))
        planned.expected = None
        if step_difference is not None:
            self.listener.step_diverges(planned, step_difference)


def _version(value: Any) -> int:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _by_position(checks: Sequence[PlannedCheck], where: Callable[[PlannedCheck], int]) -> dict[int, list[PlannedCheck]]:
    by_position: dict[int, list[PlannedCheck]] = {}
    for planned in checks:
        by_position.setdefault(where(planned), []).append(planned)
    return by_position


__all__ = ["Listener", "PlannedCheck", "Ref", "Replay"]
