"""`p.grad = None` inside captured functions: what `zero_grad(set_to_none=True)` does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager


def drops(x, weight):
    y = x * weight.grad
    weight.grad = None
    return y, weight.grad is None


def drops_and_asks(x, weight):
    weight.grad = None
    return x * 2 if weight.grad is None else x * 3


def drops_twice(x, weight):
    weight.grad = None
    weight.grad = None
    return x * weight


@pytest.mark.parametrize("function", [drops, drops_and_asks, drops_twice])
def test_a_gradient_is_dropped(function: Any) -> None:
    """It is there before, gone behind the assignment, and gone for the caller."""
    weight = torch.ones(3, requires_grad=True)
    weight.grad = torch.ones(3)
    assert_same_as_eager(function, torch.ones(3), weight, graphs=1, breaks=0)


def test_the_caller_sees_it() -> None:
    """The very tensor has no gradient behind the call."""
    weight = torch.ones(3, requires_grad=True)
    weight.grad = torch.ones(3)
    backend = CountingBackend()
    dynexplore.optimize(backend)(drops)(torch.ones(3), weight)
    assert weight.grad is None and len(backend.graphs) == 1


def test_a_training_step_that_ends_with_zero_grad() -> None:
    """Nothing breaks behind backward."""
    model = torch.nn.Linear(4, 2)

    def step(x):
        model(x).square().mean().backward()
        torch._foreach_mul_([p.grad for p in model.parameters()], 0.5)
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=0.1)
        model.zero_grad(set_to_none=True)
        return x * 2

    start = {name: value.clone() for name, value in model.state_dict().items()}
    assert_same_as_eager(
        step, torch.ones(3, 4), calls=3, setup=lambda: model.load_state_dict(start),
        observe=lambda: [(p.detach().clone(), p.grad) for p in model.parameters()], breaks=["DX406"],
    )  # fmt: skip
