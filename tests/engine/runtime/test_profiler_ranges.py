"""engine/runtime/profiler_ranges.py: graphs and guards as ranges of the PyTorch profiler."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.runtime.profiler_ranges import ranged


def names_of(call: Any) -> list[str]:
    """The names in the profiler's trace."""
    with torch.autograd.profiler.profile() as profile:
        call()
    return [event.name for event in profile.function_events]


def test_ranges_only_when_asked_for() -> None:
    """Graph and guard check appear under config.profiler_ranges, and not otherwise."""

    def double(x: Any) -> Any:
        return x * 2

    x = torch.ones(2)
    for wanted in (False, True):
        dynexplore.reset()
        with dynexplore.config.patch(profiler_ranges=wanted):
            compiled = dynexplore.optimize("eager")(double)
            compiled(x)
        names = names_of(lambda compiled=compiled: compiled(x))
        assert any(name.startswith("dynexplore graph __compiled_fn_0") for name in names) is wanted
        assert any(name.startswith("dynexplore guards") and "double" in name for name in names) is wanted


@pytest.mark.plain("puts a range around any callable")
def test_a_range_gives_what_the_function_gives() -> None:
    """Also what it raises."""
    assert ranged(max, "title")(1, 2) == 2
    assert "title" in names_of(lambda: ranged(max, "title")(1, 2))
