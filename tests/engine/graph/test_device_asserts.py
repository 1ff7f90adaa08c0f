"""What a GPU checks by itself is not copied before each call."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dynexplore
from dynexplore.engine.graph.device_asserts import is_checked_on_the_device
from engine_checks import assert_same_as_eager

aten = torch.ops.aten


def arguments(device, *, mask=False, index_on=None):
    with FakeTensorMode():
        index = torch.ones(3, dtype=torch.bool if mask else torch.int64, device=index_on or device)
        return torch.ones(3, device=device), [index], torch.ones(3, device=device)


@pytest.mark.plain("asks about fake tensors")
def test_an_index_is_checked_where_all_tensors_are():
    """On the CPU it raises; a mask's count is compared on the CPU; indices of the CPU are, too."""
    put = aten.index_put_.default
    assert is_checked_on_the_device(put, arguments("cuda"), {})
    assert not is_checked_on_the_device(put, arguments("cpu"), {})
    assert not is_checked_on_the_device(put, arguments("cuda", mask=True), {})
    assert not is_checked_on_the_device(put, arguments("cuda", index_on="cpu"), {})
    assert not is_checked_on_the_device(aten.linalg_cholesky_ex.default, arguments("cuda")[:1], {})


def writes(cache, index, x):
    cache.index_copy_(0, index, x)
    return cache[index] * 2


def test_on_the_cpu_what_was_written_is_put_back():
    """An index out of range: the cache is as eager leaves it, call by call."""
    for index in (torch.tensor([1]), torch.tensor([7]), torch.tensor([0])):
        assert_same_as_eager(writes, torch.zeros(3, 2), index, torch.ones(1, 2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="measures the memory of a GPU")
def test_a_cache_on_a_gpu_is_not_held_twice():
    """A call takes less memory than the cache has."""
    cache, index = torch.zeros(1024, 4096, device="cuda"), torch.tensor([1], device="cuda")
    compiled = dynexplore.optimize("eager")(writes)
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compiled(cache, index, torch.ones(1, 4096, device="cuda"))
    assert torch.cuda.max_memory_allocated() - before < cache.nbytes / 2
    assert dynexplore.counters["stats"]["graphs"] == 1
