"""engine/runtime/call_snapshot.py: each run of a call finds everything as the first one did."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.function_environment import copy_of_tensor

pytestmark = pytest.mark.plain("keeps and puts back state around any run")


def test_modules_optimizers_and_random_numbers_are_put_back() -> None:
    """A training step changes parameters, buffers, gradients, optimizer state and generators; the next run sees none of it."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: torch.Tensor) -> tuple[float, float]:
        loss = model(x).sum() + random.random()
        loss.backward()
        optimizer.step()
        return loss.item(), sum(parameter.sum().item() for parameter in model.parameters())

    start = CallSnapshot(step, (torch.randn(4, 2),), {})
    results = []
    for _ in range(3):
        args, kwargs = start.fresh()
        results.append(step(*args, **kwargs))
    assert results[0] == results[1] == results[2]
    assert set(start.reached()["gradients"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    start.fresh()
    assert not optimizer.state and all(parameter.grad is None for parameter in model.parameters())


def test_arguments_are_copied_and_aliases_stay() -> None:
    """The caller's tensors are never touched; one tensor given twice is one tensor again."""
    x = torch.ones(2, requires_grad=True)
    start = CallSnapshot(lambda *_: None, ([x, x], {"x": x}), {})
    (pair, named), _ = start.fresh()
    assert pair[0] is pair[1] is named["x"] and pair[0] is not x and pair[0].requires_grad


def test_what_cannot_be_copied_is_shared() -> None:
    """An object that refuses to be copied is passed as it is."""

    class Stubborn:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("no")

    stubborn = Stubborn()
    (got,), _ = CallSnapshot(print, (stubborn,), {}).fresh()
    assert got is stubborn


def test_a_copied_tensor_has_the_strides() -> None:
    """Transposed and expanded tensors keep their layout or at least their content."""
    x = torch.arange(6.0).reshape(2, 3).t()
    assert copy_of_tensor(x).stride() == x.stride() and torch.equal(copy_of_tensor(x), x)
    wide = torch.ones(1).expand(3)
    assert torch.equal(copy_of_tensor(wide), wide)
