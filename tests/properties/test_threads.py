"""Many threads compile, run, nest and forget regions at once, while the garbage collector runs: every result is eager's."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.native import installed, region_depth
from engine_checks import graphs_compiled


def straight(x: torch.Tensor) -> Any:
    return torch.relu(x) + 1


def branching(x: torch.Tensor) -> Any:
    y = x * 2
    if y.sum() > 0:
        y = y - 1
    return y / 3


def breaking_in_a_loop(x: torch.Tensor) -> Any:
    for i in range(3):
        x = x + i
        dynexplore.graph_break()
    return x


def raising(x: torch.Tensor) -> Any:
    try:
        return x @ torch.ones(7, 7)
    except RuntimeError:
        return x - 1


def recursive(x: torch.Tensor, depth: int = 3) -> Any:
    return x if depth == 0 else recursive(x * 2, depth - 1)


def nested(x: torch.Tensor) -> Any:
    return dynexplore.optimize("eager")(straight)(x) * 2


PROGRAMS: list[Callable[..., Any]] = [straight, branching, breaking_in_a_loop, raising, recursive, nested]


def stress(threads: int, *, rounds: int = 0, seconds: float = 0.0) -> int:
    """Let threads call the same and own functions in regions of shared and own backends; how many calls were right.

    Each makes at least so many `rounds`, and goes on for so many `seconds`.
    """
    until, calls, problems = time.monotonic() + seconds, [0] * threads, []
    shared = {program: dynexplore.optimize("eager")(program) for program in PROGRAMS}
    assert not any(optimized is program for program, optimized in shared.items())

    def work(number: int) -> None:
        turn = 0
        while (turn < rounds or time.monotonic() < until) and not problems:
            turn += 1
            program = PROGRAMS[(turn + number) % len(PROGRAMS)]
            x = torch.randn(1 + turn % 4)
            own = dynexplore.optimize(lambda graph, inputs: graph.forward)(program)
            optimized = own if turn % 5 == 0 else shared[program]
            if turn % 7 == number % 7:
                gc.collect()
            try:
                if turn % 3:
                    result = optimized(x)
                else:
                    with dynexplore.optimize("eager"):
                        result = program(x)
                if not torch.equal(result, program(x)):
                    problems.append(f"{program.__name__}: {result} for {x}")
            except Exception as error:  # a thread must not die in silence
                problems.append(f"{program.__name__}: {type(error).__name__}: {error}")
            calls[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems, "\n".join(problems[:5])
    assert not installed()
    assert region_depth() == 0
    return sum(calls)


@pytest.fixture
def switching_often():
    """Threads take turns every 50 microseconds; a loop may compile as often as it likes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    with dynexplore.config.patch(cache_size_limit=1000):
        yield
    sys.setswitchinterval(before)


def test_a_few_threads_for_a_moment(switching_often: None) -> None:
    """Four threads in shared, own and nested regions get eager's results, and leave no region behind."""
    assert stress(4, rounds=40) == 160
    assert graphs_compiled() >= len(PROGRAMS)  # which sizes come first, and so how many become symbols, is chance


@pytest.mark.soak
def test_many_threads_for_long(switching_often: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The same with twelve threads for a minute (DYNEXPLORE_SOAK_SECONDS)."""
    calls = stress(12, seconds=float(os.environ.get("DYNEXPLORE_SOAK_SECONDS", "60")))
    with capfd.disabled():
        print(f"\n{calls} calls", end="")
    assert calls >= 12
