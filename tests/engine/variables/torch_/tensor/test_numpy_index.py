"""Tensors that are subscripted with arrays of numpy, and with ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from engine_checks import assert_same_as_eager


def minibatch(observations, advantages, indices):
    advantage = advantages[indices]
    return (observations[indices] * advantage[:, None]).sum(0)


def test_a_minibatch_by_an_array_is_one_graph() -> None:
    """The array is an input like a tensor; another size makes the graph dynamic."""
    observations, advantages = torch.randn(16, 3), torch.randn(16)
    orders = [np.random.permutation(16)[:size] for size in (8, 8, 4, 5)]
    then = [(observations, advantages, order) for order in orders[1:]]
    assert_same_as_eager(minibatch, observations, advantages, orders[0], then=then, graphs=2, breaks=0, recompiles=1)


SUBSCRIPTS: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda x, a: x[a],
    "with a number": lambda x, a: x[a, 1],
    "behind a slice": lambda x, a: x[:, a],
    "two": lambda x, a: x[a, a],
    "with None": lambda x, a: x[None, a],
    "computed": lambda x, a: x[a + 1],
}


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8])
@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_integers(name: str, dtype: Any) -> None:
    """Whichever their size, they are indices."""
    assert_same_as_eager(SUBSCRIPTS[name], torch.arange(16.0).view(4, 4), np.array([2, 0, 2], dtype), graphs=1, breaks=0)


def stores(x, a):
    y = x * 1
    y[a] = 5.0
    y[0, a] += 1
    return y


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integers_where_is_written(dtype: Any) -> None:
    """Assignment takes the same subscripts."""
    assert_same_as_eager(stores, torch.arange(16.0).view(4, 4), np.array([2, 0], dtype), graphs=1, breaks=0)


ROWS = [np.array([[0, 1], [2, 3]]), np.array([[0, 1, 2]]), np.zeros((40, 2), int)]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: f"{rows.shape}")
def test_an_array_of_several_dimensions_is_what_torch_takes_it_for(rows: Any) -> None:
    """A few rows are a tuple of subscripts, many are one subscript."""
    assert_same_as_eager(lambda x, a: (x * 2)[a] + 1, torch.arange(64.0).view(4, 4, 4), rows)


def test_a_mask() -> None:
    """An array of bools chooses as a tensor of bools does."""
    assert_same_as_eager(lambda x, a: (x * 2)[a] + 1, torch.arange(4.0), np.array([True, False, True, False]))


def picks(scores, labels):
    scores = scores * 1
    scores[range(scores.shape[0]), labels] += 1
    return scores[range(len(labels))] * 2, scores[range(0, scores.shape[0], 2), 0]


def test_a_range_of_a_dynamic_size_is_an_index() -> None:
    """Positions are constants of the graph: each length has a graph, and no graph breaks."""
    series = [(torch.randn(size, 3), torch.arange(size) % 3) for size in (4, 5, 6, 5)]
    assert_same_as_eager(picks, *series[0], then=series[1:], breaks=0, recompiles=2)
