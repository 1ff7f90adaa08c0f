"""A new tracked type touches one file: what its tracker answers is all that whoever watches needs. Theme of contract/inspection.py.

Here the file is this one: `array.array` gets a tracker, a rule that makes one, and rules for two of its methods.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from second_opinion.planted import first_of, recorded, rule_for_method

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.variables import rules
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable


class ArrayVariable(BuiltinValueVariable):
    """An `array.array`: for whoever watches it behaves as a list of its numbers."""

    kind = "array"
    value_type = array
    mutable = True
    container_type = list

    def __init__(self, numbers: list[VariableTracker]) -> None:
        self.numbers = numbers

    def contents(self) -> Contents | None:
        return Contents(list(self.numbers))

    def identity(self) -> object | None:
        return self

    def get_item(self, ctx: Any, key: VariableTracker) -> VariableTracker:
        return self.numbers[key.as_constant()]

    def text(self) -> str:
        return f"array of {len(self.numbers)}"


def make_array(ctx: Any, args: Any, kwargs: Any) -> VariableTracker:
    return ArrayVariable(args[1].unpack(ctx))


def append(ctx: Any, self: Any, args: Any, kwargs: Any) -> VariableTracker:
    self.numbers.append(args[0])
    return ConstantVariable(None)


def append_in_front(ctx: Any, self: Any, args: Any, kwargs: Any) -> VariableTracker:
    self.numbers.insert(0, args[0])
    return ConstantVariable(None)


@pytest.fixture(autouse=True)
def _tracked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The new type, for one test."""
    monkeypatch.setattr(rules, "_RULES", dict(rules._RULES))
    rules.rule(array)(make_array)
    monkeypatch.setitem(rules.METHODS, (array, "append"), append)
    dynexplore.reset()
    yield
    dynexplore.reset()


def collects(x: torch.Tensor) -> Any:
    numbers = array("l", [1, 2])
    numbers.append(5)
    return x * numbers[-1]


def test_it_is_shown() -> None:
    """Its items are recorded when it is made and when it has changed."""
    recording = recorded(collects, torch.ones(2))
    seen = [one for one in recording.of(ev.ContentsSeen) if one.tracker == "ArrayVariable"]
    assert [(one.kind, one.length, one.items[-1][1].text) for one in seen] == [("array", 2, "2"), ("array", 3, "5")]
    texts = [str(recording.real(number).locals["numbers"]) for number in range(len(recording.steps))
             if "numbers" in recording.real(number).locals]  # fmt: skip
    assert texts[0] == "array of 2: 1, 2 [replayed]"
    assert texts[-1] == "array of 3: 1, 2, 5 [replayed]"


def test_it_is_checked() -> None:
    """Right rules are clean; a wrong one is flagged at its call, because the items before the step were copied."""
    assert recorded(collects, torch.ones(2)).divergences == ()
    with rule_for_method(array, "append", append_in_front):
        divergence, step = first_of(recorded(collects, torch.ones(2)))
    assert step.op == "CALL"
    assert (divergence.aspect, divergence.expected, divergence.actual) == ("item 0 of the list", "1", "5")


def test_a_wrong_item_of_it_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscript is carried out by CPython on what it holds."""
    monkeypatch.setattr(ArrayVariable, "get_item", lambda self, ctx, key: self.numbers[0])
    divergence, step = first_of(recorded(collects, torch.ones(2)))
    assert (step.op, divergence.expected, divergence.actual) == ("BINARY_SUBSCR", "5", "1")
