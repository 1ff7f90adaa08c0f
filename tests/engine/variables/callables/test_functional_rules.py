"""Partials: of which callables a partial is one with, and which it calls.

Theme: CPython makes one partial of a partial and its arguments, unless it has a `__dict__` or, before 3.13, its own `__call__`;
subclasses and the partials of another import of functools count, too (Modules/_functoolsmodule.c, partial_new).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test.support.import_helper import import_fresh_module

import dynexplore
from engine_checks import assert_same_as_eager

OTHER = import_fresh_module("functools", fresh=["_functools"])
X = torch.tensor([1.0, 2.0])
ANY = range(10)


def target(*args: Any, **kwargs: Any) -> Any:
    """Shows what it was called with."""
    return args, kwargs


class Extended(functools.partial):  # type: ignore[type-arg]
    """A partial all the same."""


class Called(functools.partial):  # type: ignore[type-arg]
    """Is called otherwise."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return "own", args


def with_attribute(cls: Any) -> Any:
    made = cls(target, 1)
    made.note = 1
    return made


def with_dict(cls: Any) -> Any:
    made = cls(target, 1)
    made.__dict__  # makes one
    return made


PARTIALS: dict[str, Callable[[], Any]] = {
    "exact": lambda: functools.partial(target, 1, k=2),
    "with an attribute": lambda: with_attribute(functools.partial),
    "with a dict": lambda: with_dict(functools.partial),
    "extended": lambda: Extended(target, 1),
    "extended, with an attribute": lambda: with_attribute(Extended),
    "called otherwise": lambda: Called(target, 1),
    "of another import": lambda: OTHER.partial(target, 1),
    "of another import, with an attribute": lambda: with_attribute(OTHER.partial),
    "a function": lambda: target,
    "a bound method": lambda: [1, 2].count,
}


@pytest.mark.parametrize("cls", [functools.partial, Extended, OTHER.partial], ids=["partial", "extended", "other"])
@pytest.mark.parametrize("name", PARTIALS)
def test_a_partial_of_a_partial(name: str, cls: Any) -> None:
    """`func`, `args` and what a call gives, of a partial that is there already and of one made in the frame."""

    def program(x: Any, given: Any) -> Any:
        made = cls(given, 7)
        return x + 1, made.func is given, made.func is target, made.args, made.keywords, type(made), given is made

    def makes_both(x: Any) -> Any:
        made = cls(PARTIALS[name](), 7)
        return x + 1, made.func is target, made.args

    assert_same_as_eager(program, X, PARTIALS[name](), graphs=ANY)
    assert_same_as_eager(makes_both, X, graphs=ANY)


def test_a_partial_that_got_an_attribute_between_two_calls() -> None:
    """It was one with the partial around it, and is not any more."""
    given = functools.partial(target, 1)

    def program(x: Any, index: int) -> Any:
        made = functools.partial(given, 7)
        return x + 1, made.func is given, made.args

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(program)
    assert compiled(X, 0)[1:] == program(X, 0)[1:] == (False, (1, 7))
    given.note = 1  # type: ignore[attr-defined]
    assert compiled(X, 0)[1:] == program(X, 0)[1:] == (True, (7,))
    assert dynexplore.counters["stats"]["graphs"] == 2
