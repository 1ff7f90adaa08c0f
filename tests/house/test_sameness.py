"""The checkers are checked: what tests/sameness.py must find, and what it must let pass."""

from __future__ import annotations

import collections
import functools
from typing import Any

import pytest
import torch

from engine_checks import copied
from sameness import differences, tensors_in, without_addresses


class Slotted:
    """An object without a __dict__."""

    __slots__ = ("x",)

    def __init__(self, x: object) -> None:
        self.x = x


class Plain:
    """An object with a __dict__."""

    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


def counter(start: int) -> Any:
    """A closure over a cell that changes."""
    count = [start]

    def step(by: int = 1) -> int:
        count[0] += by
        return count[0]

    return step


def with_hook() -> torch.Tensor:
    """A tensor with a gradient."""
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    return x


ONE: Any = [1]
BASE = torch.arange(6.0)
OTHER = torch.arange(6.0)

SAME = {
    "numbers": ((1, 2.5, 3j, True, None), (1, 2.5, 3j, True, None)),
    "nan": (float("nan"), float("nan")),
    "nested": ({"a": [1, {2}]}, {"a": [1, {2}]}),
    "one object twice": ([ONE, ONE], copied([ONE, ONE])),
    "constant tuples may be one object or two": ([(1, 2), (1, 2)], (lambda t: [t, t])((1, 2))),
    "tensors": (torch.ones(2, 3), torch.ones(2, 3)),
    "nan tensors": (torch.tensor([float("nan")]), torch.tensor([float("nan")])),
    "a view": ([BASE, BASE[1:]], [OTHER, OTHER[1:]]),
    "modules": (torch.nn.Linear(2, 2, dtype=torch.float64, device="meta"),) * 2,
    "closures": (counter(1), counter(1)),
    "partials": (functools.partial(max, 1), functools.partial(max, 1)),
    "objects": (Plain(x=1, y=Slotted(2)), Plain(x=1, y=Slotted(2))),
    "exceptions": (ValueError("x", 1), ValueError("x", 1)),
    "grad": (with_hook(), with_hook()),
}

DIFFERENT = {
    "values": (1, 2),
    "types": (1, 1.0),
    "int and bool": (1, True),
    "signed zero": (0.0, -0.0),
    "lengths": ([1], [1, 2]),
    "list and tuple": ([1], (1,)),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "dict types": ({"a": 1}, collections.OrderedDict(a=1)),
    "set elements": ({1}, {2}),
    "two objects instead of one": ([ONE, ONE], [[1], [1]]),
    "one object instead of two": ([[1], [1]], [ONE, ONE]),
    "objects swapped": ([ONE, [1], ONE], (lambda a, b: [a, b, b])([1], [1])),
    "tensor values": (torch.tensor([1.0]), torch.tensor([1.0000001])),
    "dtype": (torch.ones(1), torch.ones(1, dtype=torch.float64)),
    "shape": (torch.ones(2, 1), torch.ones(2)),
    "strides": (torch.ones(2, 3), torch.ones(3, 2).t()),
    "requires_grad": (torch.ones(1), torch.ones(1, requires_grad=True)),
    "leaf or not": (torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True) * 1),
    "no view any more": ([BASE, BASE[1:]], [OTHER, OTHER[1:].clone()]),
    "a view by mistake": ([BASE, BASE[1:].clone()], [OTHER, OTHER[1:]]),
    "grad missing": (with_hook(), torch.ones(2, requires_grad=True)),
    "cells": (counter(1), counter(2)),
    "attributes": (Plain(x=1), Plain(x=2)),
    "missing attributes": (Plain(x=1), Plain()),
    "slots": (Slotted(1), Slotted(2)),
    "exception arguments": (ValueError("x"), ValueError("y")),
    "training": (torch.nn.Dropout(), torch.nn.Dropout().eval()),
    "functions": (max, min),
    "classes": (int, bool),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_what_is_the_same_passes(pair: tuple[Any, Any]) -> None:
    """Two worlds that no program could tell apart have no differences."""
    assert differences({"v": pair[0]}, {"v": pair[1]}) == []


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_found(pair: tuple[Any, Any]) -> None:
    """Each way in which two worlds can differ is found."""
    assert differences({"v": pair[0]}, {"v": pair[1]})


def test_rounding_is_allowed_on_request() -> None:
    """With exact=False tensor values may differ by rounding, and nothing else may."""
    close = torch.tensor([1.0000001])
    assert differences({"v": torch.tensor([1.0])}, {"v": close}, exact=False) == []
    assert differences({"v": torch.tensor([1.0])}, {"v": close.double()}, exact=False)


def test_cycles_end() -> None:
    """A list that holds itself is compared once."""
    a: list[Any] = []
    b: list[Any] = []
    a.append(a)
    b.append(b)
    assert differences({"v": a}, {"v": b}) == []


def test_a_difference_says_where() -> None:
    """The path of a difference leads to it."""
    assert differences({"v": {"a": [1, 2]}}, {"v": {"a": [1, 3]}}) == ["v['a'][1]: 2 (int) was expected, 3 (int) was found"]


def test_tensors_are_found_once() -> None:
    """Every tensor below a value is found, each once."""
    x = torch.ones(1)
    assert [id(t) for t in tensors_in({"a": [x, x], "b": Plain(t=x)})] == [id(x)]
    assert len(tensors_in(torch.nn.Linear(1, 1))) == 2


def test_copies_keep_relations() -> None:
    """A copy has the same inner relations: shared objects, views, and gradients that flow to the original."""
    leaf = torch.ones(3, requires_grad=True)
    made = leaf * 2
    base, one = torch.zeros(4), [1]
    world = {"made": made, "base": base, "view": base[1:], "twice": [one, one]}
    own = copied(world)
    assert own["twice"][0] is own["twice"][1] is not one
    own["base"][1] = 5
    assert own["view"][0] == 5
    assert base[1] == 0
    assert own["made"].grad_fn is not None


def test_addresses_are_blanked() -> None:
    """Messages with a memory address are the same from run to run."""
    assert without_addresses(repr(Plain())) == without_addresses(repr(Plain()))
