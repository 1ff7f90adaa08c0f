"""Functions of `operator` over pairs of values: what Python refuses, and in which words.

Each function meets each pair twice, with other numbers the second time: those are symbols then, or are not specialized.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)


class Bare:
    """An object of the program that no operator takes."""


class Added:
    """An object that `+` asks, and a concatenation does not."""

    def __radd__(self, other: Any) -> str:
        return "asked"


def words_of(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A program that calls the function with all pairs."""

    def program(x: torch.Tensor, number: int, real: float) -> Any:
        values = (number, real, "ab", b"ab", [1], (1,), {1}, None, x.shape, Bare())
        messages = []
        for left in values:
            for right in values:
                try:
                    function(left, right)
                    messages.append("taken")
                except TypeError as error:
                    messages.append(str(error))
        return x + number, messages

    return program


@pytest.mark.parametrize(
    "function",
    [getattr(operator, name) for name in "imod ilshift iand imul mul imatmul concat countOf".split()],
    ids=lambda function: function.__name__,
)
def test_what_is_refused_is_refused_in_pythons_words(function: Callable[[Any, Any], Any]) -> None:
    """`x %= None` names `%=`, a concatenation is for sequences, and types of C have their full names."""
    assert_same_as_eager(words_of(function), X, 2, 1.5, then=[(X, 3, 2.5), (torch.ones(3), 2, -1.5)])


@pytest.mark.parametrize("function", [operator.concat, operator.iconcat], ids=lambda function: function.__name__)
def test_a_concatenation_is_no_addition(function: Callable[[Any, Any], Any]) -> None:
    """Numbers and tensors are added and not concatenated, and `__radd__` is not asked."""

    def outcome(left: Any, right: Any) -> Any:
        try:
            return function(left, right)
        except TypeError as error:
            return str(error)

    def program(x: torch.Tensor, n: int) -> Any:
        y = x + 1
        words = [outcome(x, y), outcome(n, 1), outcome([1], Added()), outcome(Added(), [1]), outcome((1,), (n,)), outcome("a", "b")]
        return y * 2, words, outcome([1], [n]), outcome(deque([1]), deque([n]))

    assert_same_as_eager(program, X, 2, then=[(X, 3)])


class Slotted:
    """Its attributes are in slots."""

    __slots__ = ("at", "none")


SLOTTED = Slotted()


def deleted(target: Any, name: str) -> Any:
    """What deleting an attribute says."""
    try:
        delattr(target, name)
        return "deleted"
    except AttributeError as error:
        return str(error)


def test_an_empty_slot_says_its_name() -> None:
    """Deleting it says no more than the name (PyMember_SetOne), reading it says all."""

    def program(x: torch.Tensor) -> Any:
        slotted = Slotted()
        words = [deleted(slotted, "none"), deleted(SLOTTED, "at"), deleted(SLOTTED, "at"), deleted(slotted, "other")]
        SLOTTED.at = slotted.at = 2
        return x + 1, words, deleted(slotted, "at"), deleted(slotted, "at"), SLOTTED.at

    def fill() -> None:
        SLOTTED.at = 1

    assert_same_as_eager(program, X, setup=fill, calls=3)


def test_deletion_of_an_item_is_refused_by_the_kind_of_key() -> None:
    """An index has other words than any other key."""

    def program(x: torch.Tensor, n: int) -> Any:
        messages = []
        for key in (n, True, "a", 1j, None, (1,)):
            try:
                del Bare()[key]  # type: ignore[attr-defined]
            except TypeError as error:
                messages.append(str(error))
        return x + 1, messages

    assert_same_as_eager(program, X, 2, then=[(X, 3)])
