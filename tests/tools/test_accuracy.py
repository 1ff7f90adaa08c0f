"""tools/accuracy.py: rounding passes, errors do not, and the first difference is named."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from dynexplore.tools.accuracy import first_difference

Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    """A result as models give it."""

    loss: Any


SAME = [
    (1.0, 1.0 + 1e-9),
    (float("nan"), float("nan")),
    (torch.ones(3), torch.ones(3) * (1 + 1e-6)),
    (torch.tensor([float("nan"), float("inf")]), torch.tensor([float("nan"), float("inf")])),
    (torch.ones(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16) * 1.01),
    ([{"a": torch.arange(3)}], [{"a": torch.arange(3)}]),
    (torch.empty(0), torch.empty(0)),
    (object(), object()),
]

DIFFERENT = [
    (torch.ones(3), torch.ones(3) + 1e-2, "differs by 0.01 at [0] (allowed: 0.0001)"),
    ([1, (2, 3)], [1, (2, 4)], "[1][1]: 3 expected, 4 found"),
    ({"a": 1}, {"b": 1}, "keys ['a'] expected, ['b'] found"),
    (Output(torch.ones(2)), Output(torch.ones(3)), ".loss: shape (2,) expected, (3,) found"),
    (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtype torch.float32 expected, torch.float64 found"),
    (torch.arange(3), torch.arange(3).flip(0), "2 of 3 elements differ"),
    (torch.ones(2), torch.tensor([1.0, float("nan")]), "NaN in 1 elements, 0 expected"),
    (torch.ones(2), torch.tensor([1.0, float("inf")]), "infinities in unexpected places"),
    (None, torch.ones(1), "NoneType expected, Tensor found"),
    ([1], [1, 2], "1 items expected, 2 found"),
    (Pair(1, 2.0), Pair(1, 2.5), "[1]: 2.0 expected, 2.5 found"),
]


@pytest.mark.plain("compares values given by hand")
@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_rounding_is_no_difference(expected: Any, actual: Any) -> None:
    """What rounding does to a dtype passes, NaN equals NaN, and objects of the program are not compared."""
    assert first_difference(expected, actual) is None


@pytest.mark.plain("compares values given by hand")
@pytest.mark.parametrize(("expected", "actual", "words"), DIFFERENT)
def test_the_first_difference_in_words(expected: Any, actual: Any, words: str) -> None:
    """Its path, what was expected, what was found, how much was allowed."""
    assert str(first_difference(expected, actual)) == words


@pytest.mark.plain("compares values given by hand")
def test_a_tolerance_of_ones_own() -> None:
    """It is relative to the largest element expected."""
    assert first_difference(torch.tensor([100.0, 1.0]), torch.tensor([100.0, 1.5]), 0.01) is None
    assert first_difference(torch.tensor([100.0, 1.0]), torch.tensor([100.0, 1.5]), 0.001) is not None
