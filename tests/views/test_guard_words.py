"""views/guard_words.py: each guard of a real capture is told as a condition, without the name of its kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.events import GuardFailed, GuardInstalled
from dynexplore.views.guard_words import CHECKS, check_of, condition, without_message, words

OFFSET = 2


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(4, 4), 3

    def forward(self, x: torch.Tensor, factors: dict[str, int]) -> torch.Tensor:
        return self.linear(x) * self.scale * factors["a"] + OFFSET


def test_no_kind_is_seen() -> None:
    """Neither in what a guard says nor in what it checks: kinds are in capitals."""
    recording = dynexplore.explain(Scaled(), torch.ones(2, 4), {"a": 5}).recording
    conditions = [words(guard) for guard in recording.of(GuardInstalled)]
    assert any("== 5" in text for text in conditions) and any(" is float32[2, 4] cpu" in text for text in conditions)
    assert not [text for text in [*conditions, *CHECKS.values()] if re.search(r"[A-Z]{3,}_[A-Z]|___", text)]


@pytest.mark.parametrize(
    ("call", "required"),
    [
        ((torch.ones(5), 3), "x is float32[4] cpu"),
        ((torch.ones(4), 4), "n == 3"),
        ((torch.ones(4, dtype=torch.float64), 3), "x is float32[4] cpu"),
    ],
)
def test_a_miss_says_what_was_required(call: tuple[Any, ...], required: str) -> None:
    """And what was found, without torch's sentence."""
    with dynexplore.explain(lambda x, n: x + n) as fn:
        fn(torch.ones(4), 3), fn(*call)
    failed = fn.explanation.recording.of(GuardFailed)
    assert required in [condition(one) for one in failed]
    assert not [one for one in failed if "mismatch" in without_message(one.actual)]


def test_a_kind_without_a_row_is_read() -> None:
    """In lower case, without the ending of PyTorch's kinds."""
    assert check_of("SOME_NEW_MATCH") == "some new"
