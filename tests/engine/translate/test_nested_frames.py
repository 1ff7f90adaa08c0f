"""A break many calls deep: two graphs up to the greatest depth, two more for each chain below it; the same as eager at any depth.

The functions differ from each other, because a break in a recursive function is not nested. Each sees the stack before it calls
the next, has a handler around the call, and may handle the exception that the innermost one raises behind the break.
"""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.translate.nested_frames import DEEPEST
from engine_checks import assert_same_as_eager

X = torch.ones(3)
SEEN: list[Any] = []
LEAF = """
def f0(x, n):
    x = x + 1
    note()
    x = x * 2
    return x * SCALES[n]
"""
CALLER = """
def f{at}(x, n):
    y = x * {at}
    try:
        z = f{below}(y, n)
    except KeyError as error:
        SEEN.append(({at}, places(error)))
        if n <= {at}:
            return y
        raise
    return z + y
"""


def note() -> None:
    """Note the frames of the programs, by name and line; its call breaks the graph."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == "<deep>":
            SEEN.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back


def places(error: BaseException) -> list[tuple[str, int | None]]:
    """The lines of the programs that an exception came through."""
    return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__) if entry.filename == "<deep>"]


def calls_deep(depth: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """A function whose break is this many calls deep."""
    text = LEAF + "".join(CALLER.format(at=at, below=at - 1) for at in range(1, depth + 1))
    names: dict[str, Any] = {"note": dynexplore.disable(note), "places": places, "SEEN": SEEN, "SCALES": {0: 0.5}}
    exec(compile(text, "<deep>", "exec"), names)
    function = names[f"f{depth}"]
    assert isinstance(function, types.FunctionType)
    return function


@pytest.mark.parametrize(("depth", "graphs", "breaks"), [
    (1, 2, 1), (2, 2, 1), (3, 2, 1), (DEEPEST - 1, 2, 1), (DEEPEST, 2, 1), (DEEPEST + 1, 4, 2), (2 * DEEPEST + 1, 4, 2),
    (2 * DEEPEST + 2, 6, 3),
])  # fmt: skip
def test_two_graphs_at_any_depth(depth: int, graphs: int, breaks: int) -> None:
    """One graph before the break and one after it, in each chain; values and live stacks are as in eager."""
    report = assert_same_as_eager(
        calls_deep(depth), X, 0, calls=3, graphs=graphs, breaks=breaks, setup=SEEN.clear, observe=lambda: list(SEEN)
    )
    assert sum(report.ops) == 2 * depth + 3


@pytest.mark.parametrize("depth", [1, 3, DEEPEST, DEEPEST + 1])
@pytest.mark.parametrize("caught", ["innermost", "middle", "outermost", "nowhere"])
def test_an_exception_behind_a_deep_break(depth: int, caught: str) -> None:
    """It passes the handlers of all frames, innermost first, with eager's traceback, and is caught by the one that handles it."""
    n = {"innermost": 1, "middle": (depth + 1) // 2, "outermost": depth, "nowhere": depth + 1}[caught]

    def program(x: torch.Tensor, n: int) -> Any:
        try:
            return call(x * 3, n) + 1
        except KeyError as error:
            return x, places(error)

    call = calls_deep(depth)
    assert_same_as_eager(program, X, n, calls=3, graphs=range(1, 99), setup=SEEN.clear, observe=lambda: list(SEEN))
