"""Work in a process of its own: results come back, nothing else does."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch

from dynexplore.lenses.isolation import ChildFailed, in_a_child

changed: list[int] = []


def test_results_come_back_and_changes_stay_there(capfd: pytest.CaptureFixture[str]) -> None:
    """A child sees the program as it is; what it changes, prints and draws is its own."""
    tensor = torch.zeros(2)
    state = torch.get_rng_state()

    def work() -> Any:
        changed.append(1)
        tensor.add_(1)
        torch.rand(3)
        print("printed")
        os.write(2, b"written")
        return tensor, len(changed), os.getpid()

    result, count, process = in_a_child(work, 30)
    assert torch.equal(result, torch.ones(2)) and count == 1 and process != os.getpid()
    assert changed == [] and torch.equal(tensor, torch.zeros(2)) and torch.equal(state, torch.get_rng_state())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: os._exit(3), "ended without a result \\(exit status 3\\)"),
        (lambda: os.kill(os.getpid(), 9), "killed by SIGKILL"),
        (lambda: sys.exit(1), "ended without a result"),
        (lambda: lambda: 0, "ended without a result"),
    ],
)
def test_how_a_child_ended_is_said(work: Any, words: str) -> None:
    """An exception, an exit, a signal, a result that cannot be sent: each is one sentence."""
    with pytest.raises(ChildFailed, match=words):
        in_a_child(work, 30)


def test_much_data_comes_back() -> None:
    """More than a pipe holds at once."""
    assert in_a_child(lambda: torch.ones(1_000_000), 30).sum() == 1_000_000
