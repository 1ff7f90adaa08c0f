"""An exception that leaves a compiled frame keeps nothing alive: not the caller's objects, once it has been handled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled


class Kept:
    """What the caller holds while the call raises."""


def fails(text):
    raise ValueError(text)


def raised(x):
    y = x + 1
    raise ValueError(y.dim())


def raised_in_a_callee(x):
    y = x + 1
    fails("text")
    return y


def raised_behind_a_break(x):
    y = x + 1
    print(end="")
    y = y + 1
    raise ValueError(y.dim())


def raised_in_a_callee_behind_a_break(x):
    y = x + 1
    print(end="")
    fails(y.dim())


def asserted(x):
    y = x + 1
    assert y.dim() == 7, "text"


def through_finally(x):
    try:
        y = x + 1
        fails("text")
    finally:
        y = y + 1


def raised_in_a_try(x):
    y = x + 1
    try:
        raise ValueError(y.dim())
    finally:
        y = y + 1


def through_with(x):
    with torch.no_grad():
        y = x + 1
        fails(y.dim())


@pytest.fixture
def without_collection() -> Iterator[None]:
    """Only reference counts free objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_freed(function: Callable[..., Any]) -> bool:
    """Whether an object of the caller is gone once the exception of a call has been handled."""
    kept = Kept()
    reference = weakref.ref(kept)

    def call(held: Kept) -> None:
        function(torch.ones(2))

    with pytest.raises((ValueError, AssertionError)) as caught:
        call(kept)
    del kept, caught
    return reference() is None


@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("nests", [False, True], ids=["frames of their own", "nested"])
@pytest.mark.parametrize("function", [
    raised, raised_in_a_callee, raised_behind_a_break, raised_in_a_callee_behind_a_break, asserted, through_finally,
    raised_in_a_try, through_with,
])  # fmt: skip
def test_an_exception_makes_no_reference_cycle(function: Callable[..., Any], nests: bool) -> None:
    """As in Python: no local of the modified code holds the exception, whose traceback holds the frame."""
    compiled = dynexplore.optimize("eager")(function)
    assert is_freed(function)
    with dynexplore.config.patch(nested_graph_breaks=nests):
        is_freed(compiled)  # what logs the break keeps it
        assert [is_freed(compiled) for _ in range(2)] == [True] * 2
    assert graphs_compiled() >= 1
