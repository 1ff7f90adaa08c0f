"""Running a graph once more, node by node, on snapshots: the values inside it, and where they are not what was foretold.

The idea: an interpreter over the rows of a `Plan`. After each node its value is summarized, held against what the symbolic run
foretold (dtype, device, shape with the symbols bound to this call's sizes), and the steps that claim something about it are
checked: the instruction is carried out on the real operands and compared. A tensor that a node writes to in place is summarized
again. What needs a value that is not there (a node that must not run twice) is left out, with the reason.

In: a plan, its claims, the inputs of one run. Out: calls of a `Listener`; `Replay.values`, the outputs and written inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dynexplore.second_opinion.differences import Difference, difference
from dynexplore.second_opinion.plan import Foretold, Plan, Ref, Row, attribute_of, refs, with_values
from dynexplore.second_opinion.snapshots import RandomState
from dynexplore.second_opinion.summaries import dtype_name, summary


@dataclass(slots=True)
class PlannedCheck:
    """What a step claims, with references: between the rows `begin` and `end` of the plan; `mark` is the step."""

    function: Any
    operands: Any
    named: Any
    result: Any
    begin: int
    end: int
    mark: Any
    expected: Any = None
    known: bool = False


class Listener(Protocol):
    """Who is told."""

    def observed(self, name: str, found: Mapping[str, Any], after: str = "") -> None:
        """The value of a node; `after` is the node that wrote to it."""

    def not_observed(self, name: str, why: str) -> None:
        """A node has no value, and why."""

    def node_diverges(self, name: str, found: Difference) -> None:
        """A node's value is not what was foretold."""

    def step_diverges(self, claim: PlannedCheck, found: Difference) -> None:
        """A step did something else than its instruction."""


_NOT_CARRIED_OUT = frozenset({"_set_grad_enabled", "set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode"})
"""Nodes that set the gradient mode: the replay records no gradients, whatever the program does."""


class Replay:
    """One replay of a plan."""

    def __init__(
        self, plan: Plan, claims: Sequence[PlannedCheck], inputs: Sequence[Any], listener: Listener, *, tells: bool = True
    ) -> None:
        self.plan = plan
        self.tells = tells  # whether the listener wants to hear of values, and not of divergences alone
        self.claims = list(claims)
        self.listener = listener
        self.values: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
        self.drawn: set[str] = set()  # nodes whose elements random numbers decide
        self.unset: set[str] = set()  # and those that memory decides that nobody wrote to
        self.missing: dict[str, str] = {}
        self.checked_steps = 0
        self.checked_nodes = 0
        self._symbols: dict[Any, Any] = {}
        self._written = {plan.inputs[place] for place in plan.written}
        self._last: dict[str, dict[str, Any]] = {}  # of inputs that are written to: their latest summary
        first = sum(row.op in ("placeholder", "get_attr") for row in plan.rows) - 1
        self._beginning = _by_position(self.claims, lambda claim: max(claim.begin, first))
        self._ending = _by_position(self.claims, lambda claim: max(claim.end, first))

    def run(self) -> None:
        """Run every node."""
        last_use = dict(self.plan.last_use)
        for claim in self.claims:
            for ref in refs((claim.operands, claim.named, claim.result)):
                last_use[ref.name] = max(last_use.get(ref.name, -1), claim.end)
        going: dict[int, list[str]] = {}
        for name, position in last_use.items():
            going.setdefault(position, []).append(name)
        self._check(-1)
        for position, row in enumerate(self.plan.rows):
            self._run(row)
            self._check(position)
            for name in going.get(position, ()):
                self.values.pop(name, None)

    # -- one node

    def _run(self, row: Row) -> None:
        used = row.uses
        why = row.refused or self._needs(used)
        if why:
            self._miss(row.name, why)
            return
        touched: list[str] = []
        if row.op != "placeholder":
            versions = [_version(self.values[name]) for name in used]
            state = RandomState(list(self.values.values())) if self.plan.draws else None
            try:
                self.values[row.name] = self._result(row)
            except Exception as error:  # an operator may raise anything; so did, or did not, the real call
                self._miss(row.name, f"it raised {type(error).__name__}: {error}")
                return
            if versions != [_version(self.values[name]) for name in used]:
                touched = self._sharing_memory(used)
            self._note(row, [*used, *touched], [row.name, *touched], state)
            if self.tells and self.values[row.name] is not None:
                self.listener.observed(row.name, summary(self.values[row.name]))
        if self.tells:
            self._tell_of_writes(row, used, touched)
        self._hold_against(row)

    def _needs(self, used: Sequence[str]) -> str:
        """What is missing of what a node reads; "" for nothing."""
        if not self.missing:
            return ""
        return next((f"it needs {name}, which {self.missing[name]}" for name in used if name in self.missing), "")

    def _tell_of_writes(self, row: Row, used: Sequence[str], touched: Sequence[str]) -> None:
        """Tell of tensors that the node wrote to once more; running statistics are written to without a word."""
        if not touched and not self._written:
            return
        for name in touched:
            if name != row.name:
                self.listener.observed(name, summary(self.values[name]), row.name)
        if row.op == "placeholder" and row.name in self._written:
            self._last[row.name] = summary(self.values[row.name])
        for name in self._written.intersection(used):
            found = summary(self.values[name])
            if name not in touched and found != self._last[name]:
                self.listener.observed(name, found, row.name)
            self._last[name] = found

    def _miss(self, name: str, why: str) -> None:
        self.missing[name] = "has no replayed value" if "which has" in why else f"was not replayed ({why})"
        self.values.pop(name, None)
        if self.tells:
            self.listener.not_observed(name, why)

    def _result(self, row: Row) -> Any:
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

    def _note(self, row: Row, used: Sequence[str], made: Sequence[str], before: RandomState | None) -> None:
        """Note what the elements of `made` depend on besides the inputs."""
        if (before is not None and before != before.now()) or not self.drawn.isdisjoint(used):
            self.drawn.update(made)
        if row.uninitialized or not self.unset.isdisjoint(used):
            self.unset.update(made)

    def _sharing_memory(self, names: Sequence[str]) -> list[str]:
        """A node wrote to one of these: every tensor on the same memory is another one now."""
        used = [value for name in names if isinstance(value := self.values[name], torch.Tensor)]
        memories = {value.untyped_storage()._cdata for value in used}
        tensors = [(name, value) for name, value in self.values.items() if isinstance(value, torch.Tensor)]
        return [name for name, value in tensors if value.untyped_storage()._cdata in memories]

    # -- what was foretold

    def _hold_against(self, row: Row) -> None:
        value, foretold = self.values[row.name], row.foretold
        if foretold is None or not isinstance(value, torch.Tensor):
            return
        self.checked_nodes += 1
        found = self._unlike(value, foretold)
        if found is not None:
            self.listener.node_diverges(row.name, found)

    def _unlike(self, value: torch.Tensor, foretold: Foretold) -> Difference | None:
        if dtype_name(value) != foretold.dtype:
            return Difference("dtype", foretold.dtype, dtype_name(value))
        if len(foretold.shape) != value.dim():
            return Difference("shape", str(list(foretold.shape)), str(list(value.shape)))
        sizes = [self._size(wanted, real) for wanted, real in zip(foretold.shape, value.shape, strict=True)]
        if sizes != list(value.shape):
            return Difference("shape", str(sizes), str(list(value.shape)))
        if foretold.device.type != value.device.type:
            return Difference("device", str(foretold.device), str(value.device))
        return None

    def _size(self, wanted: Any, real: int) -> Any:
        """A foretold size under this call's bindings; a symbol that is met for the first time is bound to the real size."""
        if isinstance(wanted, int):
            return wanted
        if wanted.is_Symbol:
            return self._symbols.setdefault(wanted, real)
        answer = wanted.xreplace(self._symbols)
        return int(answer) if answer.is_number else real

    # -- what the steps claim

    def _check(self, position: int) -> None:
        """Carry out the instructions that begin here, and look at the outcome of those that end here."""
        for claim in self._beginning.get(position, ()):
            self._carry_out(claim)
        for claim in self._ending.get(position, ()):
            if claim.known:
                self._compare(claim)

    def _carry_out(self, claim: PlannedCheck) -> None:
        needed = {ref.name for ref in refs((claim.operands, claim.named))}
        if not needed <= self.values.keys():
            return
        state = RandomState(list(self.values.values()))
        copies = {name: _copy(self.values[name]) for name in needed}
        try:
            operands, named = with_values(claim.operands, copies), with_values(claim.named, copies)
            claim.expected = claim.function(*operands, **named)
            claim.known = True
        except Exception:  # the instruction raises on real values: the graph is asked the same, and says so itself
            claim.known = False
        state.put_back()

    def _compare(self, claim: PlannedCheck) -> None:
        try:
            actual = with_values(claim.result, self.values)
        except KeyError:
            return
        self.checked_steps += 1
        names = {ref.name for ref in refs((claim.operands, claim.named, claim.result))}
        found = difference(claim.expected, actual, elements=self.unset.isdisjoint(names))
        claim.expected = None
        if found is not None:
            self.listener.step_diverges(claim, found)


def _version(value: Any) -> int:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _by_position(claims: Sequence[PlannedCheck], where: Callable[[PlannedCheck], int]) -> dict[int, list[PlannedCheck]]:
    found: dict[int, list[PlannedCheck]] = {}
    for claim in claims:
        found.setdefault(where(claim), []).append(claim)
    return found


__all__ = ["Listener", "PlannedCheck", "Ref", "Replay"]
