"""Live values as small summaries: numbers of tensors, short texts of Python values, and no code of the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.second_opinion.summaries import FIRST, describe, is_plain_tensor, summary

pytestmark = pytest.mark.plain("describes values given by hand")


class Loud:
    """Nobody may ask for its text."""

    def __repr__(self) -> str:
        raise AssertionError("nobody may call this")


def test_a_tensor_is_summarized() -> None:
    """dtype, shape, device, least, mean and greatest element, the first few."""
    words = summary(torch.arange(8.0).reshape(2, 4))
    assert words["text"] == "float32[2, 4] cpu"
    assert (words["minimum"], words["mean"], words["maximum"]) == (0.0, 3.5, 7.0)
    assert words["first"] == (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert len(words["first"]) == FIRST


def test_what_has_no_elements_to_read_has_no_numbers() -> None:
    """Empty, meta, sparse and complex tensors; booleans count as 0 and 1."""
    sparse = torch.eye(2).to_sparse()
    assert not is_plain_tensor(sparse)
    for value in (torch.empty(0), torch.empty(2, device="meta"), sparse):
        assert "first" not in summary(value)
    assert "mean" not in summary(torch.ones(1, dtype=torch.complex64))
    assert summary(torch.tensor([True, False]))["mean"] == 0.5


def test_python_values_are_described_without_code_of_the_program() -> None:
    """Constants by repr, containers by their first items, any other object by its class."""
    loud: Any = Loud()
    assert describe((1, "a", loud)) == "tuple of 3: 1, 'a', a Loud"
    assert describe({"k": [loud]}) == "dict of 1: 'k': list of 1: a Loud"
    assert describe([]) == "list of 0" and describe({}) == "dict of 0"
    assert describe([1, 2, 3, 4, 5]) == "list of 5: 1, 2, 3, 4, ..."
