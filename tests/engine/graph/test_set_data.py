"""The operator that stands for `tensor.data = data` in a graph."""

from __future__ import annotations

import pytest
import torch

from dynexplore.engine.graph.set_data import take_data

pytestmark = pytest.mark.plain("it looks at the operator alone")


def test_the_gradient_goes_to_the_tensor() -> None:
    """Values are those of the data, the gradient is the tensor's, also where the data was taken while no gradients are noted."""
    weight, data = torch.ones(3, requires_grad=True), torch.tensor([1.0, 2.0, 3.0])
    with torch.no_grad():
        taken = take_data(weight, data)
    (taken**2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0, 4.0, 6.0]


def test_it_is_the_memory_of_the_data() -> None:
    """What is written to the data afterwards is seen."""
    tensor, data = torch.ones(3), torch.zeros(3)
    taken = take_data(tensor, data)
    data.add_(5)
    assert taken.tolist() == [5.0] * 3
    assert tensor.tolist() == [1.0] * 3
