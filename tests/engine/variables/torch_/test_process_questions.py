"""What a program asks about its build of torch, its machine and the processes it works with: constants, guarded where they change.

The rules stand in engine/variables/torch_/torch_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)
needs_distributed = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch was built without it")


@contextmanager
def process_group() -> Iterator[None]:
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def test_what_the_machine_has_is_a_constant() -> None:
    """Asking for accelerators and libraries breaks nothing and costs no guard."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, list[bool]]:
        has = [torch.cuda.is_available(), torch.backends.mps.is_available(), torch.xpu.is_available()]
        has += [torch.accelerator.is_available(), torch.distributed.is_available()]
        has += [torch.backends.cuda.is_built(), torch.backends.mkl.is_available(), torch.backends.openmp.is_available()]
        return x + sum(has), has

    assert_same_as_eager(program, X, graphs=1, breaks=0)


@needs_distributed
def test_a_process_group_that_comes_and_goes_is_noticed() -> None:
    """Whether there is a process group, how large it is and who we are in it hold for the calls in which they are so."""

    def program(x: torch.Tensor) -> torch.Tensor:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return x * 10 + torch.distributed.get_world_size() + torch.distributed.get_rank()
        return x * 2

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(program)
    assert torch.equal(optimized(X), X * 2)
    with process_group():
        assert torch.equal(optimized(X), X * 10 + 1)
        assert torch.equal(optimized(X), X * 10 + 1)
    assert torch.equal(optimized(X), X * 2)
    assert (len(backend.graphs), dynexplore.counters["graph_break"].total()) == (2, 0)


@needs_distributed
def test_a_rank_that_nobody_has_is_asked_for_again() -> None:
    """Without a process group `get_rank` raises; that it did so is no constant."""

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + torch.distributed.get_rank()
        except ValueError:
            return x * 2

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(program)
    assert torch.equal(optimized(X), X * 2)
    with process_group():
        assert torch.equal(optimized(X), X)
    assert torch.equal(optimized(X), X * 2)
    assert len(backend.graphs) == 2


@contextmanager
def casting_to(dtype: torch.dtype) -> Iterator[None]:
    """Autocast casts to this type, and is off."""
    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", dtype)
    try:
        yield
    finally:
        torch.set_autocast_dtype("cpu", before)


def asks_for_the_type(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.get_autocast_dtype("cpu"))


def turns_it_on(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        return x @ x


def turns_it_on_for_a_type(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x


@pytest.mark.parametrize(("program", "graphs"), [(asks_for_the_type, 2), (turns_it_on, 2), (turns_it_on_for_a_type, 1)])
def test_the_type_of_autocast_is_guarded_where_autocast_is_off(program, graphs) -> None:
    """Torch's guard of the modes looks at the type only where autocast is on."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(program)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with casting_to(dtype):
            assert compiled(X).dtype is program(X).dtype
    assert len(backend.graphs) == graphs
