"""tools/process_memory.py: the peak of a block."""

from __future__ import annotations

import pytest
import torch

from dynexplore.tools.process_memory import MemoryPeak, as_text


@pytest.mark.plain("measures the process")
def test_the_peak_is_seen_after_it_is_over() -> None:
    """A tensor that is gone at the end of the block still counts."""
    with MemoryPeak() as memory:
        torch.ones(128 * 2**20 // 4).sum()  # so large that it is new memory, and none that was freed before (mallopt, 32 MiB)
    assert memory.peak is None or memory.peak > 100 * 2**20


@pytest.mark.plain("measures the process")
def test_sizes_for_people() -> None:
    """MiB, and a question mark where the system says nothing."""
    assert as_text(5 * 2**20) == "5.0 MiB" and as_text(None) == "?"
