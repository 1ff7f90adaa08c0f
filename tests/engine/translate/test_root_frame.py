"""A variable that a frame shares with its inner functions is local to a call, also after a graph break.

Theme: a table of inner functions x objects that each call makes anew. The resume function gets the variable as a cell of its
closure. What functions find in their closures is usually the same in all calls, and guarded by identity. This is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(3)


class Scale:
    """An object with a number, made in each call."""

    def __init__(self) -> None:
        self.by = 2

    def __call__(self, x: Any) -> Any:
        return x * self.by


class Slots:
    """The same without a dict."""

    __slots__ = ("by",)

    def __init__(self) -> None:
        self.by = 2

    def __call__(self, x: Any) -> Any:
        return x * self.by


def with_lambda(x: Any, make: Any) -> Any:
    o = make()
    g = lambda y: o(y) + o.by
    x = x + 1
    os.getcwd()
    return g(x) + o.by


def with_function(x: Any, make: Any) -> Any:
    o = make()

    def g(y: Any) -> Any:
        return o(y) + o.by

    x = x + 1
    os.getcwd()
    return g(x) * 2


def with_generator(x: Any, make: Any) -> Any:
    o = make()
    x = x + 1
    os.getcwd()
    return sum(o(y) for y in (x, x))


def with_change(x: Any, make: Any) -> Any:
    o = make()

    def more() -> None:
        o.by += 1

    x = x + 1
    os.getcwd()
    more()
    return o(x)


def with_rebinding(x: Any, make: Any) -> Any:
    o = make()

    def again() -> None:
        nonlocal o
        o = make()

    x = x + 1
    os.getcwd()
    again()
    return o(x) + o.by


def with_an_argument(x: Any, make: Any, o: Any = None) -> Any:
    o = o or make()
    g = lambda y: o(y)
    x = x + 1
    os.getcwd()
    return g(x)


@pytest.mark.parametrize("make", [Scale, Slots])
@pytest.mark.parametrize(
    "program", [with_lambda, with_function, with_generator, with_change, with_rebinding, with_an_argument]
)
def test_a_new_object_in_a_cell_is_no_recompile(program: Callable[..., Any], make: Any) -> None:
    """Three calls, each with an object of its own: two graphs, whatever the inner function."""
    assert_same_as_eager(program, X, make, calls=3, graphs=2, breaks=1, recompiles=0)


def test_what_a_cell_holds_is_guarded() -> None:
    """Another attribute or another class in a later call is seen."""

    def program(x: Any, by: int, make: Any) -> Any:
        o = make()
        o.by = by
        g = lambda y: o(y)
        x = x + 1
        os.getcwd()
        return g(x)

    assert_same_as_eager(program, X, 2, Scale, then=[(X, 3, Scale), (X, 2, Slots), (X, 5, Scale)], graphs=6, breaks=3)
