"""policy/nested_breaks.py: blocks and functions in which a graph break ends one graph a frame."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.config import config
from engine_checks import assert_same_as_eager

X = torch.ones(3)


@pytest.fixture(autouse=True)
def nested() -> Iterator[None]:
    with config.patch(nested_graph_breaks=True):
        yield


def breaks_once(x):
    x = x * 2
    dynexplore.graph_break()
    return x + 1


def two_calls_deep(x):
    def middle(x):
        return breaks_once(x * 2) - x

    return middle(x + 3) * x


@dynexplore.disable_nested_graph_breaks
def helper_of_its_own(x):
    return breaks_once(x + 3) * 2


def calls_a_helper_of_its_own(x):
    x = x * 5
    return helper_of_its_own(x) - x


def has_a_block_of_its_own(x):
    x = x * 5
    with dynexplore.disable_nested_graph_breaks():
        y = breaks_once(x - 1)
    return breaks_once(y) + x


@pytest.mark.parametrize(("program", "graphs", "breaks"), [(calls_a_helper_of_its_own, 6, 3), (has_a_block_of_its_own, 5, 3)])
def test_disabled(program: Callable[..., Any], graphs: int, breaks: int) -> None:
    """In a block or function without nested breaks each frame has graphs of its own; what stands beside it nests."""
    assert_same_as_eager(program, X, calls=3, graphs=graphs, breaks=breaks)


def forbids_around_the_call(x):
    with dynexplore.error_on_graph_break(True):
        return two_calls_deep(x) * 2


def forbids_in_the_callee(x):
    def leaf(x):
        x = x + 1
        with dynexplore.error_on_graph_break(True):
            dynexplore.graph_break()
        return x

    return leaf(x * 2) + 1


def allows_in_the_callee(x):
    def leaf(x):
        x = x + 1
        with dynexplore.error_on_graph_break(False):
            dynexplore.graph_break()
        return x

    with dynexplore.error_on_graph_break(True):
        return leaf(x * 2) + 1


def test_error_on_graph_break_is_that_of_the_callee() -> None:
    """Where a break in a callee ends the graph of all frames, the innermost block counts, whichever frame it stands in."""
    for program in (forbids_around_the_call, forbids_in_the_callee):
        dynexplore.reset()
        with pytest.raises(dynexplore.exc.Unsupported, match="error_on_graph_break"):
            dynexplore.optimize("eager")(program)(X)
    assert_same_as_eager(allows_in_the_callee, X, calls=2, graphs=2, breaks=1)


def test_nopython_names_the_callee() -> None:
    """The error is the same as without nested breaks: the line in the callee, and the calls that led there."""
    texts = []
    for is_on in (True, False):
        dynexplore.reset()
        with config.patch(nested_graph_breaks=is_on), pytest.raises(dynexplore.exc.Unsupported) as raised:
            dynexplore.optimize("eager", nopython=True)(two_calls_deep)(X)
        texts.append(str(raised.value))
    assert texts[0] == texts[1] and "in breaks_once" in texts[0] and texts[0].count("  from  ") >= 2


def test_disabled_around_the_call() -> None:
    """The setting is that of the thread where a function is captured."""

    def program(x):
        with dynexplore.disable_nested_graph_breaks():
            return optimized(x)

    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(two_calls_deep)
    assert torch.equal(program(X), two_calls_deep(X)) and dynexplore.counters["stats"]["graphs"] == 6


def test_torchs_own_decorator() -> None:
    """`torch._dynamo.disable_nested_graph_breaks`, where torch has it, means the same in captured code."""
    code = """
import sys
import torch, torch._dynamo
if not hasattr(torch._dynamo, "disable_nested_graph_breaks"):
    sys.exit()
import dynexplore

def leaf(x):
    x = x + 1
    dynexplore.graph_break()
    return x * 2

@torch._dynamo.disable_nested_graph_breaks
def middle(x):
    return leaf(x * 3) - 1

def f(x):
    return middle(x + 5) * x

def g(x):
    with torch._dynamo.disable_nested_graph_breaks():
        y = leaf(x * 3)
    return y * x

with dynexplore.config.patch(nested_graph_breaks=True):
    for function, graphs in ((f, 6), (g, 4)):
        dynexplore.reset()
        for _ in range(2):
            assert torch.equal(dynexplore.optimize("eager")(function)(torch.ones(3)), function(torch.ones(3)))
        assert dynexplore.counters["stats"]["graphs"] == graphs, (function, dynexplore.counters)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not result.returncode, result.stderr
