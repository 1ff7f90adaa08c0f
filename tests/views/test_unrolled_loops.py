"""views/unrolled_loops.py: a loop that makes most of a graph is named, with what helps."""

from __future__ import annotations

import torch

import dynexplore
from dynexplore.views.headline import headline
from dynexplore.views.unrolled_loops import longest_loop


def looped(x: torch.Tensor, rounds: int) -> torch.Tensor:
    for _ in range(rounds):
        x = x + x.sin()
    return x * 2


def body(x: torch.Tensor) -> torch.Tensor:
    return x + x.sin()


def test_the_line_of_a_long_loop_is_named() -> None:
    """It occurs as often as the loop runs; the body alone is two operators."""
    recording = dynexplore.explain(looped, torch.ones(2), 120).recording
    loop = longest_loop(recording)
    assert loop is not None and (loop.times, loop.operators) == (120, 240)
    assert loop.line == looped.__code__.co_firstlineno + 2
    shown = headline(recording)
    assert "test_unrolled_loops.py" in shown.where and "120 times" in shown.where and "loop's body" in shown.remedy
    assert [graph.op_count for graph in dynexplore.explain(body, torch.ones(2)).recording.graphs] == [2]


def test_a_short_loop_is_not() -> None:
    """Nor a function that is one graph of different lines."""
    recording = dynexplore.explain(looped, torch.ones(2), 5).recording
    assert len(recording.graphs) == 1 and longest_loop(recording) is None and not headline(recording).where
