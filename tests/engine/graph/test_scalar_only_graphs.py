"""Sums of sizes that vary are Python's: no graph is made for them, and they fail where and as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

SIZES = [(torch.ones(size, size + 1),) for size in (3, 4, 5, 3, 9)]


def sizes(x: Any) -> Any:
    return x.shape[0], x.size(1), x.shape, len(x)


def sums(x: Any) -> Any:
    return {"rows": x.shape[0] * 2 + 1, "all": x.numel(), "larger": max(x.shape[0], 4)}


def divides(x: Any) -> Any:
    try:
        return 12 // (x.shape[0] - 5)
    except ZeroDivisionError as error:
        return str(error)


class Keeps:
    """Somebody who is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def tell(self, number: int) -> None:
        self.told.append(number)


def tells(x: Any) -> Any:
    keeps = Keeps()
    keeps.tell(x.shape[0] * 3)
    return keeps.told


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [sizes, sums, divides, tells], ids=lambda fn: fn.__name__)
def test_what_is_computed_of_sizes_is_no_graph(fn: Callable[[Any], Any], backend: str) -> None:
    """Values are eager's, whatever the sizes, and no backend is asked."""
    assert_same_as_eager(fn, *SIZES[0], then=SIZES[1:], graphs=0, backend=backend)


def test_a_size_that_outlives_a_break_is_no_graph() -> None:
    """What a frame hands on when it breaks may be a number that depends on a size; work on the tensor behind it is captured."""

    def breaks(x: Any) -> Any:
        rows = x.shape[0] * 2
        print(rows)
        return x * rows

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(breaks)
    for (x,) in SIZES:
        assert torch.equal(optimized(x), breaks(x))
    assert backend.targets() == [["mul"], ["mul"]]


def test_a_number_beside_a_tensor_stays_in_the_graph() -> None:
    """Where there is work on tensors, there is one graph, and numbers that it gives are its outputs."""

    def both(x: Any) -> Any:
        return x + 1, x.shape[0] * 2

    assert_same_as_eager(both, *SIZES[0], then=SIZES[1:], graphs=2)
