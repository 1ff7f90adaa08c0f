"""Real containers of what trackers hold: which items may be one object, and where two containers differ. Also before_step.py."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.containers.deque import DequeVariable
from dynexplore.engine.variables.containers.iterator import SequenceIteratorVariable
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.ranges import RangeIteratorVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable
from dynexplore.second_opinion.before_step import state_before
from dynexplore.second_opinion.contents import LONGEST, Value, container_of, first_difference, may_be_same, values_of
from dynexplore.second_opinion.large_containers import LargeContainers

pytestmark = pytest.mark.plain("compares trackers that are made by hand")


def constants(*values: Any) -> list[Any]:
    return [ConstantVariable(value) for value in values]


def tensors(count: int) -> list[TensorVariable]:
    graph = torch.fx.Graph()
    return [TensorVariable(graph.placeholder(f"x{number}"), torch.empty(2)) for number in range(count)]


def test_which_items_may_be_one_object() -> None:
    """Constants by value and type, tensors by their node, lists by identity, tuples by their items."""
    (one, other), first, second = tensors(2), ListVariable([]), ListVariable([])
    again = TensorVariable(one.node, one.fake)
    assert may_be_same(Value(one), Value(again))
    assert not may_be_same(Value(one), Value(other))
    assert not may_be_same(Value(first), Value(second))
    assert may_be_same(Value(TupleVariable([one])), Value(TupleVariable([again])))
    assert not may_be_same(Value(TupleVariable([one])), Value(TupleVariable([other])))
    assert not may_be_same(*map(Value, constants(1, True)))
    assert may_be_same(*map(Value, constants(float("nan"), float("nan"))))
    assert may_be_same(Value(None, 3), Value(ConstantVariable(3)))
    assert not may_be_same(Value(None, 3), Value(ConstantVariable(4)))


def test_a_container_is_made_of_its_type() -> None:
    """A deque keeps its largest length, a dict its order; what is no container, and what is too long, is not known."""
    assert container_of(DequeVariable(constants(1, 2, 3), maxlen=2)).maxlen == 2
    assert type(container_of(DequeVariable([]))) is deque
    made = DictVariable({"b": tuple(constants("b", 2)), "a": tuple(constants("a", 1))})  # type: ignore[dict-item]
    assert [key.constant() for key in container_of(made)] == ["b", "a"]
    for value in (ConstantVariable(3), ListVariable(constants(*range(LONGEST + 1)))):
        with pytest.raises(Unknown):
            container_of(value)


def test_what_is_compared_by_value_needs_a_constant() -> None:
    """A tensor is hashed and found by itself; whether it equals another value is not known."""
    one, other = map(Value, tensors(2))
    assert one in {one: 1}
    with pytest.raises(Unknown):
        [one].index(other)


def test_the_first_difference_is_named() -> None:
    """Type, length, item, key, value, member."""
    one, two, three = map(Value, constants(1, 2, 3))
    assert first_difference([one, two], [one, two]) is None
    cases = [
        (([one], (one,)), ("type", "list", "tuple")),
        (([one, two], [one]), ("length of the list", "2: 1, 2", "1: 1")),
        (([one, two], [one, three]), ("item 1 of the list", "2", "3")),
        (({one: two}, {one: three}), ("value of key 1 of the dict", "2", "3")),
        (({one, two}, {one, three}), ("members of the set", "2", "3")),
    ]
    for (expected, actual), words in cases:
        mismatch = first_difference(expected, actual)
        assert mismatch is not None
        assert (mismatch.aspect, mismatch.expected, mismatch.actual) == words


def test_what_walking_gives() -> None:
    """The characters of a string, the items of a tuple; an iterator would be used up by it, so it gives none."""
    assert [value.constant() for value in values_of(ConstantVariable("ab"))] == ["a", "b"]
    assert [value.constant() for value in values_of(TupleVariable(constants(1, 2)))] == [1, 2]
    with pytest.raises(Unknown):
        values_of(RangeIteratorVariable(range(3)))


class Frame:
    """As much of a frame as is asked."""

    def __init__(self, *stack: Any) -> None:
        self.stack = list(stack)


def test_a_copy_before_the_step_does_not_change() -> None:
    """A list that is appended to, an iterator that goes on: their copies hold what they held."""
    items = ListVariable(constants(1, 2))
    iterator = SequenceIteratorVariable(items, type(iter([])))
    none: Any = None
    large = LargeContainers(Journal())
    appending: Any = Frame(items, ConstantVariable(3))
    state = state_before(appending, Step("LIST_APPEND", 1, none, 0), large)
    walking: Any = Frame(iterator)
    walked = state_before(walking, Step("FOR_ITER", None, none, 0), large)
    items.items.append(ConstantVariable(3))
    iterator.index = 1
    assert len(state[items].items) == len(walked[iterator].items) == 2
    assert state_before(walking, Step("NOP", None, none, 0), large) == {}
