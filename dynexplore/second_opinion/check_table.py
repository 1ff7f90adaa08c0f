"""The table of second opinions: canonical opcode -> what is said of a step of it.

The idea: what an instruction means stands in files by theme (opcode_checks.py, container_checks.py, place_checks.py), each a list
of functions that take a step and say whether it is right. Several may speak about one opcode; the first that knows anything is
heard. An instruction that changes something in place `keeps` it: it is copied before the step.

In: functions, declared with `about`. Out: `OPINIONS`, `KEEPERS`, and what they share. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion.deferred_checks import Claim, Mismatch, Stack, Stepped, as_read

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Verdict = Mismatch | Claim | None
Opinion = Callable[[Stepped], Verdict]
Keeper = Callable[["SymbolicFrame", Step], Iterable[VariableTracker]]

OPINIONS: dict[str, list[Opinion]] = {}
KEEPERS: dict[str, Keeper] = {}


def about(*ops: str, keeps: Keeper | None = None) -> Callable[[Opinion], Opinion]:
    """Declare an opinion on these opcodes; `keeps` names what is looked at before such a step."""

    def declare(opinion: Opinion) -> Opinion:
        for op in ops:
            OPINIONS.setdefault(op, []).append(opinion)
            if keeps is not None:
                KEEPERS[op] = keeps
        return opinion

    return declare


def says(value: VariableTracker | None) -> str:
    """A tracker for people: as the views show it, with the node that holds it."""
    if value is None:
        return "nothing"
    node = getattr(value, "node", None)
    return f"{value.text()} ({node.name})" if isinstance(node, torch.fx.Node) else value.text()


def differs(aspect: str, expected: str, found: str) -> Mismatch:
    """Two values that are not one, which may look alike."""
    return Mismatch(aspect, expected, found if found != expected else f"another {found}")


def moved(expected: Stack, view: Stepped) -> Verdict:
    """The stack must be `expected`, the very same values."""
    after = view.after
    if len(after) != len(expected):
        return Mismatch("depth of the stack", str(len(expected)), str(len(after)))
    for want, found in zip(reversed(expected), reversed(after), strict=True):
        if as_read(want) is not as_read(found):
            return differs("value on the stack", says(want), says(found))
    return None
