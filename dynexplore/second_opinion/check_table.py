"""The table of checks: canonical opcode -> the functions that check a step of it.

The idea: the meaning of the instructions is defined in files by theme (opcode_checks.py, container_checks.py, place_checks.py),
as functions that take a step and return whether it is right. An opcode may have several checks; the first conclusive one
decides. A check of an instruction that mutates something declares it in `changes`, so that it is copied before the step.
Instructions that only move values have no check here: their rows in engine/bytecode/opcodes.py define them.

In: functions, registered with `check`. Out: `CHECKS`, `CHANGES`, and helpers shared by the checks. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion.deferred_checks import CheckedStep, Mismatch, Stack, Verdict, as_read

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Check = Callable[[CheckedStep], Verdict]
"""Whether a step is right. Raises Unknown if it is inconclusive."""

Changes = Callable[["SymbolicFrame", Step], Iterable[VariableTracker]]
"""Returns the trackers that a step may mutate; called before it."""

CHECKS: dict[str, list[Check]] = {}
CHANGES: dict[str, Changes] = {}


def check(*ops: str, changes: Changes | None = None) -> Callable[[Check], Check]:
    """Register a check of these opcodes; `changes` returns the trackers that such a step may mutate."""

    def declare(function: Check) -> Check:
        for op in ops:
            CHECKS.setdefault(op, []).append(function)
            if changes is not None:
                CHANGES[op] = changes
        return function

    return declare


def text_of(value: VariableTracker | None) -> str:
    """A tracker as text: as the views show it, with its node."""
    if value is None:
        return "nothing"
    node = getattr(value, "node", None)
    return f"{value.text()} ({node.name})" if isinstance(node, torch.fx.Node) else value.text()


def another(aspect: str, expected: str, actual: str) -> Mismatch:
    """A mismatch of two distinct values, whose texts may be equal."""
    return Mismatch(aspect, expected, actual if actual != expected else f"another {actual}")


def check_stack(expected: Stack, step: CheckedStep) -> Mismatch | None:
    """Check that the stack consists of exactly the `expected` trackers."""
    after = step.after
    if len(after) != len(expected):
        return Mismatch("depth of the stack", str(len(expected)), str(len(after)))
    for predicted, actual in zip(reversed(expected), reversed(after), strict=True):
        if as_read(predicted) is not as_read(actual):
            return another("value on the stack", text_of(predicted), text_of(actual))
    return None
