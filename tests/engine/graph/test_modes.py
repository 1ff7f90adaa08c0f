"""Grad mode and autocast, put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.amp import autocast_mode

from dynexplore.engine.graph.modes import Modes

pytestmark = pytest.mark.plain("works on operators and modes by itself, without a frame")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a failing test leaves open is closed."""
    before = Modes.now()
    yield
    before.restore()


def test_settings_are_put_back() -> None:
    """Grad mode, and autocast with its dtype and cache."""
    before = Modes.now()
    autocast_mode._enter_autocast("cpu", torch.float16, True, False)
    torch.set_grad_enabled(False)
    assert Modes.now() != before
    before.restore()
    assert Modes.now() == before and torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_a_block_left_open_does_not_keep_weights_that_were_cast() -> None:
    """With one level too many, the end of a later block would not throw its casts away."""
    before = Modes.now()
    autocast_mode._enter_autocast("cpu", torch.bfloat16, True, True)
    before.restore()
    weight = torch.nn.Parameter(torch.ones(2, 2))
    results = []
    for value in (1.0, 2.0):
        weight.data.fill_(value)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            results.append((torch.ones(1, 2) @ weight).sum().item())
    assert results == [4.0, 8.0]


def test_blocks_that_were_open_before_stay_open() -> None:
    """Only what came since is closed."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = Modes.now()
        autocast_mode._enter_autocast("cpu", torch.float16, True, True)
        inside.restore()
        assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
        assert Modes.now().depth == inside.depth
