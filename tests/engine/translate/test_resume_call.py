"""After a break the frame hook runs the rest of a function where its frame was (native/tail_call.c)."""

from __future__ import annotations

import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


def test_callee_of_a_resumed_loop_is_captured() -> None:
    """After a break in a loop, the functions that later iterations call are compiled too."""
    graphs = []

    def backend(module, inputs):
        graphs.append(len(module.graph.nodes))
        return module.forward

    def callee(x):
        dynexplore.graph_break()
        return x * 2 + 1

    def loop(x):
        for _ in range(3):
            dynexplore.graph_break()
            x = callee(x)
        return x

    x = torch.ones(3)
    assert torch.equal(dynexplore.optimize(backend)(loop)(x), loop(x))
    assert graphs


class DeferredEvent:
    """Says in a list when it dies."""

    def __init__(self, name: str, seen: list[str]) -> None:
        weakref.finalize(self, seen.append, f"{name} died").atexit = False


def noted(name: str, seen: list[str]) -> DeferredEvent:
    return DeferredEvent(name, seen)


def test_a_local_that_nobody_reads_any_more_lives_to_the_end() -> None:
    """An object that a break has put into a local dies when the function ends, or when the local is bound anew, as in eager."""
    seen: list[str] = []

    def program(x):
        first = noted("first", seen)
        x = x + 1
        dynexplore.graph_break()
        seen.append("after one break")
        x = x * 2
        for round in range(3):
            second = noted(f"second {round}", seen)
            x = x + round
            dynexplore.graph_break()
            seen.append(f"round {round}")
        second = None
        dynexplore.graph_break()
        return x * 2

    report = assert_same_as_eager(program, torch.ones(3), calls=2, setup=seen.clear, observe=lambda: list(seen))
    assert report.graphs


def test_a_folder_is_there_until_its_object_dies() -> None:
    """A temporary folder whose object is no longer read is not removed at the next break."""

    def program(x):
        folder = tempfile.TemporaryDirectory()
        path = Path(folder.name)
        x = x + 1
        dynexplore.graph_break()
        x = x * 2
        dynexplore.graph_break()
        return x, path.exists()

    assert assert_same_as_eager(program, torch.ones(3)).value[1]


def test_a_deleted_local_dies_at_the_next_break() -> None:
    """What a resume function deletes is held by nobody else: not by the frame that has ended, nor by the call."""
    dynexplore.reset()
    seen: list[str] = []

    def program(x):
        first = noted("first", seen)
        x = x + 1
        dynexplore.graph_break()
        del first
        dynexplore.graph_break()
        seen.append("deleted")
        return x * 2

    compiled = dynexplore.optimize("eager")(program)
    for _ in range(2):  # whoever translates a frame may hold its values for a while, and numbers that break are translated twice
        compiled(torch.ones(3))
    seen.clear()
    compiled(torch.ones(3))
    assert seen == ["first died", "deleted"]
    assert dynexplore.counters["stats"]["graphs"]


def test_a_break_costs_no_depth() -> None:
    """A recursive function with a break in each call goes as deep below the limit as without one."""

    def program(x, depth):
        x = x + 1
        dynexplore.graph_break()
        return x if depth == 0 else program(x, depth - 1)

    compiled = dynexplore.optimize("eager")(program)
    compiled(torch.ones(2), 3)
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 250)
    try:
        assert compiled(torch.ones(2), 190).tolist() == [192.0, 192.0]
        assert graphs_compiled() == 1
    finally:
        sys.setrecursionlimit(limit)


def test_what_modified_code_returns_is_never_seen() -> None:
    """A callback of a C function, a method, a key function: each gets the result of the last resume function."""

    def doubled(x):
        dynexplore.graph_break()
        return x * 2

    def program(x: Any) -> Any:
        mapped = list(map(doubled, [x, x + 1]))
        return mapped, sorted([3, 1, 2], key=lambda number: doubled(torch.tensor(float(-number))).item())

    report = assert_same_as_eager(program, torch.ones(3), calls=2)
    assert report.graphs
