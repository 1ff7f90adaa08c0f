"""Numbers that are handed to a resume function: relied on at first, then known to vary."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.arange(4.0)


def size_is_asserted(x, length):
    places = torch.arange(length)
    assert x.max().item() <= 100
    mask = places < x[:, None]
    assert mask.size() == (x.size(0), length)
    return mask


def decides_and_computes(x, length):
    print(length)
    kind = ("short", "long")[length > 8]
    if length == x.size(0):
        return x * 2
    return x * length if kind == "long" else x + length


def chooses(x, number):
    print(number)
    return (x, x + 1, x * 2, x - 3)[number] + 1


def test_a_number_relied_on_behind_a_break_is_a_symbol_when_another_comes():
    """A size was compared with it as it stood; the second time, both are symbols: two graphs a time, twice, not three times."""
    then = [(X, length) for length in (9, 12, 14, 1, 4)]
    assert_same_as_eager(size_is_asserted, X, 5, then=then[:3], graphs=4)
    assert_same_as_eager(size_is_asserted, X, 5, then=then)


@pytest.mark.parametrize("program", [decides_and_computes, chooses])
def test_a_symbol_behind_a_break_decides_as_the_number_does(program):
    """What Python does with the number afterwards is what it did before."""
    assert_same_as_eager(program, X, 1, then=[(X, number) for number in (2, 3, -1, 0, 1, True, 2)])


def test_a_float_relied_on_behind_a_break_stays_right():
    """Zeros of both signs, infinities and nan, too."""

    def scaled(x, factor):
        print(factor)
        return x * factor if factor != 2.0 else x

    then = [(X, factor) for factor in (2.0, 3.5, 0.0, -0.0, float("inf"), float("nan"), 2, 3.5)]
    assert_same_as_eager(scaled, X, 2.0, then=then)


def alone_in_a_tuple(x, factor):
    parts = (factor, 1)
    return parts, x * 2


def first_of_a_tuple(x, factor):
    return factor, x * 2


def in_nested_tuples(x, factor):
    return {"both": (factor, (factor, "a"))}, x * 2


def in_the_graph_too(x, factor):
    y = x * factor
    return (factor, 1), y


@pytest.mark.parametrize("program", [alone_in_a_tuple, first_of_a_tuple, in_nested_tuples])
def test_a_number_that_is_only_put_into_a_tuple_is_not_relied_on(program):
    """The tuple is made again in each call: one recompile, when the number is first seen to vary."""
    then = [(X, factor) for factor in (0.5, 2.5, 0.0, -0.0, float("nan"), float("inf"))]
    assert_same_as_eager(program, X, 1.5, then=then, graphs=2, recompiles=1)


def test_a_number_in_a_tuple_may_be_in_the_graph_too():
    """It is an input of the graph then, and no guard relies on it."""
    then = [(X, factor) for factor in (0.5, 2.5, 3.5)]
    assert_same_as_eager(in_the_graph_too, X, 1.5, then=then, graphs=2, recompiles=1)


def test_numbers_read_out_of_tensors_are_only_passed_on():
    """What `item()` gave behind a graph break may differ in each call without another version of the rest."""

    def evaluates(x, y):
        loss, right = (x * 2).sum(), (y * 3).sum()
        return loss.item(), right.item()

    then = [(X * k, X + k) for k in (2, 3, 4, 5)]
    assert_same_as_eager(evaluates, X, X + 1, then=then, graphs=1, recompiles=0, breaks=["DX101", "DX101"])


OPERATIONS = ("~n", "-n", "+n", "abs(n)", "float(n)", "str(n)", "repr(n)", "format(n)", "format(n, '>3')", "f'{n} of 3'",
              "max(n, 2)", "min(2, n)", "n + 2", "n - 2.5", "2 * n", "n / 3", "n // 2", "n % 2.5", "7 / n", "7 // n", "n < 2",
              "n == 2", "2.5 >= n", "not n", "n + n", "n * 0.5 - n", "n + True")
NUMBERS = (4, -3, True, 0, 1.5, -0.0, float("inf"), float("nan"), 10**400, "text", None, np.int64(3), np.float32(2.5))


def outcome(function, *args):
    """What a call returned, or what it raised and where."""
    try:
        return [repr(value) for value in function(*args)]
    except Exception as error:
        steps = [(step.name, step.lineno) for step in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), str(error), steps


@pytest.mark.parametrize("operation", OPERATIONS)
@dynexplore.config.patch(cache_size_limit=2 * len(NUMBERS))
def test_an_operation_computed_again_in_each_call_raises_where_eager_does(operation):
    """Behind a break, for each number first and each other one after it: the value, or the exception and its line."""
    text = f"def program(x, n):\n    y = x * 2\n    print('here')\n    r = {operation}\n    return y, r\n"
    for first in NUMBERS:
        namespace: dict[str, Any] = {}
        exec(compile(text, "<operation on a number>", "exec"), namespace)
        function = namespace["program"]
        compiled = dynexplore.optimize("eager")(function)
        for number in (first, *NUMBERS):
            assert outcome(compiled, X, number) == outcome(function, X, number), (operation, first, number)
        assert dynexplore.counters["stats"]["graphs"]
