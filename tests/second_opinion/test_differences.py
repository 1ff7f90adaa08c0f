"""Where two values differ: what counts, and how much rounding is let through."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.second_opinion.differences import difference

pytestmark = pytest.mark.plain("compares values given by hand")


def test_equal_values_do_not_differ() -> None:
    """The same bits, NaN and infinities included; empty and scalar tensors; plain values."""
    for value in (torch.tensor([1.0, float("nan"), float("inf")]), torch.empty(0), torch.tensor(3), True, 2.5, (1, torch.ones(2))):
        assert difference(value, value) is None
    assert difference(float("nan"), float("nan")) is None


@pytest.mark.parametrize(
    ("expected", "actual", "aspect"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtype"),
        (torch.ones(2), torch.ones(3), "shape"),
        (torch.ones(2), torch.ones(2, device="meta"), "device"),
        (torch.ones(2, 2), torch.tensor([[1.0, 1.0], [1.5, 1.0]]), "element [1, 0]"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "element [1]"),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 2.0]), "element [1]"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), "element [1]"),
        ((1, 2), (1, 2, 3), "length"),
        ([torch.ones(1)], [torch.zeros(1)], "element [0]"),
        (3, 3.0, "value"),
        (True, False, "value"),
        (torch.ones(()), 1.0, "value"),
        (torch.tensor(1 + 2j), torch.tensor(1 + 3j), "element [1]"),
    ],
)
def test_what_differs(expected: Any, actual: Any, aspect: str) -> None:
    """What a value is comes before what it holds; the element that is off most is named."""
    found = difference(expected, actual)
    assert found is not None
    assert found.aspect == aspect


def test_the_worst_element_is_shown() -> None:
    """With how many differ."""
    found = difference(torch.zeros(4), torch.tensor([0.0, 1.0, -5.0, 0.0]))
    assert found == ("element [2]", "0", "-5 (2 of 4 elements differ)")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_rounding_is_let_through(dtype: torch.dtype) -> None:
    """The same sum in another order, computed in a wider type: no difference."""
    torch.manual_seed(0)
    wide = torch.randn(64, 256, dtype=torch.float64) @ torch.randn(256, 64, dtype=torch.float64)
    narrow = wide.to(dtype)
    off = (wide * (1 + 2 * torch.finfo(dtype).eps)).to(dtype)
    assert difference(narrow, off) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_a_hundredth_is_not(dtype: torch.dtype, scale: float) -> None:
    """Off by 1e-2 is found, whatever the values around it."""
    value = torch.linspace(-scale, scale, 50).to(dtype)
    assert difference(value, value + 1e-2) is not None


def test_small_values_are_held_to_their_own_size() -> None:
    """Gradients of 1e-6 that are half as large again are off, though by little."""
    value = torch.full((5,), 1e-6)
    assert difference(value, value * 1.5) is not None


def test_a_compiler_may_turn_over_few_truths() -> None:
    """`x > 0.5` of an x that is rounded otherwise: one in a hundred, and only where rounding may differ."""
    expected = torch.zeros(200, dtype=torch.bool)
    actual = expected.clone()
    actual[3] = True
    assert difference(expected, actual) is not None
    assert difference(expected, actual, exact=False) is None
    actual[:10] = True
    assert difference(expected, actual, exact=False) is not None


def test_elements_may_be_left_out() -> None:
    """Of memory that nobody wrote to only dtype and shape count."""
    assert difference(torch.ones(2), torch.zeros(2), elements=False) is None
    assert difference(torch.ones(2), torch.zeros(3), elements=False) is not None
