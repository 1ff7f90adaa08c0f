"""`torch.utils.swap_tensors` refuses tensors that are referred to weakly: no entry of the cache refers to a tensor that way."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import dynexplore

X = torch.ones(3)


class Holder:
    def __init__(self) -> None:
        self.weight = torch.nn.Parameter(torch.full((3, 3), 2.0))


def from_a_module() -> tuple[Any, torch.Tensor]:
    layer = torch.nn.Linear(3, 3, bias=False)
    return lambda x: layer(x), layer.weight


def from_an_object() -> tuple[Any, torch.Tensor]:
    holder = Holder()
    return lambda x: x @ holder.weight + getattr(holder.weight, "more", 0), holder.weight


def from_a_cell() -> tuple[Any, torch.Tensor]:
    weight = torch.nn.Parameter(torch.ones(3, 3))
    return lambda x: x @ weight if weight.dim() == 2 else x, weight


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [from_a_module, from_an_object, from_a_cell])
def test_a_tensor_that_a_frame_has_read_can_be_swapped(make: Any, backend: str) -> None:
    """The tensor has other contents, and the same identity: the next call computes with them."""
    function, weight = make()
    compiled = dynexplore.optimize(backend)(function)
    with torch.no_grad():
        compiled(X)
    assert not weakref.getweakrefs(weight)
    torch.utils.swap_tensors(weight, torch.nn.Parameter(torch.full((3, 3), 5.0)))
    with torch.no_grad():
        assert compiled(X).tolist() == [15.0] * 3
    assert dynexplore.counters["stats"]["graphs"] == 1
