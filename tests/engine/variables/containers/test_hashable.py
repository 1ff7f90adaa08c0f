"""A value without a hash is no key and no member, and the program is told so in Python's words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager


class Refusing:
    """Refuses with words of its own."""

    def __hash__(self) -> int:
        raise TypeError("no hash today")


class RefusingOtherwise:
    """Raises something else, which nothing is said about."""

    def __hash__(self) -> int:
        raise ValueError("no hash today")


OPERATIONS = (
    lambda value: {value: 1}, lambda value: {}.get(value), lambda value: value in {1: 2}, lambda value: {1: 2}.pop(value, None),
    lambda value: {value}, lambda value: {1, 2}.add(value), lambda value: value in {1, 2}, lambda value: {1: 2}.keys() & {value},
)  # fmt: skip


@pytest.mark.parametrize("make", [list, dict, Refusing, RefusingOtherwise])
@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_it_is_refused_in_pythons_words(number: int, make: Any) -> None:
    """As a key or a member that is stored or looked for: the same exception, class and text."""

    def program(x: Any) -> Any:
        try:
            OPERATIONS[number](make())
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)
        return x

    assert_same_as_eager(program, torch.ones(2), calls=2)
