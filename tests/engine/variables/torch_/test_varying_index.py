"""Subscripts of tensors with a number that varies: one graph serves all numbers, and answers are eager's, errors among them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.linspace(-1, 1, 60).reshape(3, 4, 5)


def row(x: Any, i: int) -> Any:
    return x[i] * 2


def row_alone_in_a_tuple(x: Any, i: int) -> Any:
    return x[(i,)] * 2


def behind(x: Any, i: int) -> Any:
    return x[:, i] + 1


def last(x: Any, i: int) -> Any:
    return x[..., i] + 1


def two(x: Any, i: int) -> Any:
    return x[i, :, i] + 1


def two_round_the_dots(x: Any, i: int) -> Any:
    return x[i, ..., i] + 1


def among_others(x: Any, i: int) -> Any:
    return x[None, 1:, i, None, 0] + 1


def computed(x: Any, i: int) -> Any:
    return x[i - 2, 1] + x[-i]


def written(x: Any, i: int) -> Any:
    y = x * 1
    y[i] = 7.0
    y[:, i] = y[:, 0] * 2
    y[0, i, 1:] += 1
    return y


def written_with_another_dtype_and_ones_before(x: Any, i: int) -> Any:
    y = x * 1
    y[i] = torch.arange(5)[None, None]
    return y


def argument_is_written(x: Any, i: int) -> Any:
    x[i] += 1
    x[i, 0] = 5
    return x * 2


def with_a_mask(x: Any, i: int) -> Any:
    return x[i, torch.tensor([2, 0])] + x[torch.tensor([1, 1]), i]


SERVED = [
    row, row_alone_in_a_tuple, behind, last, two, two_round_the_dots, among_others, computed, written,
    written_with_another_dtype_and_ones_before, argument_is_written,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", SERVED)
def test_one_graph_serves_all_numbers(program: Any, backend: str) -> None:
    """The first number, and then one graph for all others."""
    x = X if program is argument_is_written else X.clone().requires_grad_()
    assert_same_as_eager(program, x, 2, then=[(x, 1), (x, 2), (x, 1)], graphs=2, backend=backend)


@pytest.mark.parametrize("program", [*SERVED, with_a_mask])
def test_numbers_below_zero_and_beyond_the_end_are_those_of_eager(program: Any) -> None:
    """An index that is out of range raises eager's error, after one that was not."""

    def tried(x: Any, i: int) -> Any:
        try:
            return program(x, i)
        except IndexError as error:
            return str(error)

    numbers = [1, 2, -1, 3, 9, 0, -4, 1]
    assert_same_as_eager(tried, X, 2, then=[(X, number) for number in numbers])
