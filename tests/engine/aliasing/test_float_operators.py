"""Operators between a float and a tensor that get a tensor in the place of the float."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.counters import counters

OPERATORS = {
    "a - x": lambda x, a: a - x,
    "torch.sub(a, x)": lambda x, a: torch.sub(a * 2, x),
    "a / x": lambda x, a: a / x,
    "a ** x": lambda x, a: a**x,
    "x % a": lambda x, a: x % a,
    "x > a": lambda x, a: x > a,
    "a <= x": lambda x, a: a <= x,
    "x == a": lambda x, a: x == a,
    "where": lambda x, a: torch.where(x > 0, a, x),
    "computed": lambda x, a: ((a * 2 + 1) / 3 - 0.5) - x,
}
TENSORS = {
    "floats": torch.tensor([0.5, 1.5, -3.0]),
    "one float": torch.tensor(1.75),
    "ints": torch.tensor([1, 2, 16777217]),
    "one int": torch.tensor(3),
    "doubles": torch.tensor([0.3, 1.7], dtype=torch.float64),
    "16 bits": torch.tensor([0.3, 1.7, 2.2], dtype=torch.bfloat16),
}


CASES = [*((name, tensor) for name in OPERATORS for tensor in ("floats", "ints")), *(("a - x", tensor) for tensor in TENSORS)]


@pytest.mark.parametrize(("name", "tensor"), CASES)
def test_dtype_and_value_are_those_of_the_float(name: str, tensor: str) -> None:
    """Two graphs, the first value's and the one for all others; to the last bit what the float gives."""
    program: Callable[..., Any] = OPERATORS[name]
    dynexplore.reset()
    counters.clear()
    optimized = dynexplore.optimize("aot_eager")(program)
    for value in (1.5, 2.6, -3.3, 0.1, 16777216.0):
        found, expected = optimized(TENSORS[tensor], value), program(TENSORS[tensor], value)
        assert found.dtype == expected.dtype
        assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0))
    assert counters["stats"]["graphs"] == 2


def test_one_tensor_of_16_bits_is_left_alone() -> None:
    """Its kernel takes the float unrounded: each value is compiled."""
    dynexplore.reset()
    optimized = dynexplore.optimize("aot_eager")(operator.sub)
    x = torch.tensor(0.3, dtype=torch.float16)
    for value in (1.5, 2.6, -3.3):
        assert torch.equal(optimized(value, x), value - x)
    assert dynexplore.counters["stats"]["graphs"] == 3
