"""Autocast managers that exist before the call: a decorator makes one, and each call of the function enters it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

CASTS = torch.autocast("cpu", dtype=torch.bfloat16)
CASTS_NOT = torch.autocast("cpu", enabled=False)
OF_ANOTHER_DEVICE = torch.autocast("cuda", enabled=False)
MANAGERS = {"casts": CASTS, "casts not": CASTS_NOT, "another device": OF_ANOTHER_DEVICE}
WEIGHT = torch.eye(3)


def settings(manager: Any) -> tuple[Any, ...]:
    return manager.prev, manager.prev_fastdtype, manager.prev_cache_enabled


@pytest.mark.parametrize("name", MANAGERS)
def test_a_decorated_function_is_captured_whole(name: str) -> None:
    """`@torch.autocast(...)` above a function, called under other settings; what it restores is noted in the manager."""
    manager = MANAGERS[name]

    @manager
    def multiplied(x: torch.Tensor) -> torch.Tensor:
        return x @ WEIGHT

    def fn(x: torch.Tensor) -> Any:
        return multiplied(x) * 2, x @ WEIGHT, settings(manager), torch.is_autocast_enabled("cpu")

    compiled = dynexplore.optimize("eager")(fn)
    for outside in (contextlib.nullcontext(), torch.autocast("cpu", dtype=torch.bfloat16), contextlib.nullcontext()):
        with outside:
            expected, result = fn(torch.ones(3, 3)), compiled(torch.ones(3, 3))
        assert str(result) == str(expected)
        assert [tensor.dtype for tensor in result[:2]] == [tensor.dtype for tensor in expected[:2]]
    assert not dynexplore.counters["graph_break"]
    assert graphs_compiled() == 2


@pytest.mark.parametrize("name", MANAGERS)
def test_a_break_in_the_block(name: str) -> None:
    """What runs for real in the block, and the rest of it, run with the manager's settings; `as` gives the manager."""
    manager = MANAGERS[name]

    def fn(x: torch.Tensor) -> Any:
        with manager as entered:
            y = x @ WEIGHT
            dynexplore.graph_break()
            inside = torch.is_autocast_enabled("cpu")
            y = y @ WEIGHT
        return y, x @ WEIGHT, entered is manager, inside, torch.is_autocast_enabled("cpu")

    assert_same_as_eager(fn, torch.ones(3, 3), graphs=2, breaks=1)


def test_an_exception_leaves_the_block() -> None:
    """The settings of before are back in the handler."""

    def fn(x: torch.Tensor) -> Any:
        try:
            with CASTS:
                y = x @ WEIGHT
                raise ValueError(str(y.dtype))
        except ValueError as error:
            return x @ WEIGHT, str(error)

    assert_same_as_eager(fn, torch.ones(3, 3), graphs=1, breaks=0)


def test_entered_twice() -> None:
    """A manager entered inside itself forgets what was before, as in eager: its attributes hold one state."""

    def fn(x: torch.Tensor) -> Any:
        with CASTS:
            with CASTS_NOT:
                y = x @ WEIGHT
            z = x @ WEIGHT
        return y, z, settings(CASTS), settings(CASTS_NOT)

    assert_same_as_eager(fn, torch.ones(3, 3), graphs=1, breaks=0)
