"""A program that makes the same call twice has two results: what compilers merge, they do not hand out as one tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend


def largest(x: torch.Tensor) -> Any:
    return x.max(0).values, torch.max(x, 0).values


def sorted_ones(x: torch.Tensor) -> Any:
    return torch.sort(x.sin())[0], torch.sort(x.sin())[0]


def normalized(x: torch.Tensor) -> Any:
    return torch.layer_norm(x, (3,)), torch.nn.functional.layer_norm(x, (3,))


def ordered(x: torch.Tensor) -> Any:
    return x.sort().indices, x.sort().indices, x.sin()


def one_of_them_seen_through_a_view(x: torch.Tensor) -> Any:
    return x.cummax(0)[0], x.cummax(0)[0].t()


@pytest.mark.parametrize("program", [largest, sorted_ones, normalized, ordered, one_of_them_seen_through_a_view])
def test_writing_to_one_result_leaves_the_other(program: Any) -> None:
    """In eager the results of two equal calls are two tensors."""

    def outcome(function: Any) -> Any:
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        first, second, *others = function(x)
        sum(each.sum() for each in (first, second * 2, *others)).backward()
        with torch.no_grad():
            first.add_(100)
        return first, second, x.grad

    backend = CountingBackend("aot_eager")
    torch.testing.assert_close(outcome(dynexplore.optimize(backend)(program)), outcome(program))
    assert backend.runs == 1
