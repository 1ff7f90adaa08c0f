"""error_on_graph_break: a graph break is an error in the block or function that says so; the innermost of nested ones counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore import error_on_graph_break, exc
from dynexplore.engine.policy.error_on_graph_break import breaks_are_errors, set_breaks_are_errors
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def _nothing_stays_set() -> Iterator[None]:
    yield
    assert set_breaks_are_errors(None) is None, "the thread's setting is what it was"


def breaks(x: Any) -> Any:
    dynexplore.graph_break()
    return x + 3


@error_on_graph_break(True)
def strict(x: Any) -> Any:
    return breaks(x * 2)


@error_on_graph_break(False)
def loose(x: Any) -> Any:
    return breaks(x * 2)


def a_block(x: Any) -> Any:
    y = breaks(x)
    with error_on_graph_break(True):
        return breaks(y)


def a_block_of_torch(x: Any) -> Any:
    with torch._dynamo.error_on_graph_break(True):
        return breaks(x)


def behind_a_break(x: Any) -> Any:
    with error_on_graph_break(True):
        with error_on_graph_break(False):
            y = breaks(x)
        return breaks(y)


def a_decorated_callee(x: Any) -> Any:
    return strict(x + 1)


strict_of_torch = torch._dynamo.error_on_graph_break(True)(breaks)
loose_of_torch = torch._dynamo.error_on_graph_break(False)(breaks)


def a_callee_decorated_by_torch(x: Any) -> Any:
    return strict_of_torch(x + 1)


@pytest.mark.parametrize("fn", [
    strict, a_block, a_block_of_torch, behind_a_break, a_decorated_callee, strict_of_torch, a_callee_decorated_by_torch,
])  # fmt: skip
def test_a_break_inside_is_an_error(fn: Any) -> None:
    """It names the place, as under `nopython`; the thread's setting is what it was."""
    dynexplore.reset()
    with pytest.raises(exc.Unsupported, match="error_on_graph_break"):
        dynexplore.optimize("eager")(fn)(X)
    assert not breaks_are_errors()


def no_break_inside(x: Any) -> Any:
    y = breaks(x)
    with error_on_graph_break(True):
        y = y.sin()
        with torch._dynamo.error_on_graph_break(False):
            y = breaks(y) * 2
        y = y.cos()
    return breaks(y)


def a_loose_callee(x: Any) -> Any:
    with error_on_graph_break(True):
        y = x + 1
        return loose(y).sin() + error_on_graph_break(True)(torch.cos)(y)


def a_loose_callee_of_torch(x: Any) -> Any:
    with torch._dynamo.error_on_graph_break(True):
        y = loose_of_torch(x + 1).sin()
    return breaks(y)


@pytest.mark.parametrize("fn", [no_break_inside, a_loose_callee, a_loose_callee_of_torch, loose])
def test_other_breaks_are_none(fn: Any) -> None:
    """What is outside of the block, or in a block inside that allows it, goes on in Python, and gives what eager gives."""
    assert assert_same_as_eager(fn, X, calls=2).breaks
    assert not breaks_are_errors()


def test_a_block_without_a_break_is_part_of_the_graph() -> None:
    """It adds no node, and a decorated callee is traced like any other."""
    strict_sine = error_on_graph_break(True)(lambda y: y.sin() + 1)

    def run(x: Any) -> Any:
        with error_on_graph_break(True):
            y = x * 2
        return strict_sine(y)

    assert_same_as_eager(run, X, graphs=1, ops=2, breaks=0)


def test_a_block_around_the_call() -> None:
    """The block may stand in plain Python; code that is captured already runs as it is."""
    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(breaks)
    with error_on_graph_break(True), pytest.raises(exc.Unsupported):
        compiled(X)
    expected = breaks(X)
    torch.testing.assert_close(compiled(X), expected)
    with error_on_graph_break(True), torch._dynamo.error_on_graph_break(True):
        torch.testing.assert_close(compiled(X), expected)
    assert not breaks_are_errors()
    assert graphs_compiled() == 1
    dynexplore.reset()
    with torch._dynamo.error_on_graph_break(True), pytest.raises(exc.Unsupported):
        compiled(X)


@pytest.mark.plain("it captures nothing")
def test_only_true_and_false_are_taken() -> None:
    """A function given by mistake is an error at once."""
    with pytest.raises(TypeError, match="True or False"):
        error_on_graph_break(breaks)  # type: ignore[arg-type]


def test_a_block_of_plain_python_stays_strict_after_an_error() -> None:
    """An error inside is no end of the block: the next call in it raises as well, and behind it nothing is set."""

    def breaks(x: Any) -> Any:
        dynexplore.graph_break()
        return x * 2

    compiled = dynexplore.optimize("eager")(breaks)
    with dynexplore.error_on_graph_break(True):
        for _ in range(2):
            with pytest.raises(dynexplore.exc.Unsupported):
                compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
