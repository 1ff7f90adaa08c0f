"""engine/runtime/preserve_global_state.py: what a translation must leave as it found it."""

from __future__ import annotations

import contextvars
import random
from typing import Any

import numpy
import pytest
import torch

from dynexplore.engine.runtime.preserve_global_state import preserved

pytestmark = pytest.mark.plain("keeps and puts back state around any run")


def read() -> list[Any]:
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_cache_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    ]


CHANGES: dict[str, Any] = {
    "torch's random numbers": lambda: torch.rand(3),
    "Python's random numbers": random.random,
    "numpy's random numbers": numpy.random.rand,
    "grad mode": lambda: torch.set_grad_enabled(False),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast dtype": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "autocast cache": lambda: torch.set_autocast_cache_enabled(False),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_undone(change: str) -> None:
    """Each piece of state is put back, also when the block raises."""
    before = read()
    with pytest.raises(ZeroDivisionError), preserved():
        CHANGES[change]()
        assert read() != before
        1 / 0
    assert read() == before


def test_no_context_variable_is_set() -> None:
    """A program that counts the variables of its context does not count an option of Inductor among them."""

    def program() -> int:
        with preserved():
            torch.ones(2)
        return len(contextvars.copy_context())

    assert contextvars.Context().run(program) == 0
