"""Running numbers: without gaps, also when some were given and taken back."""

from __future__ import annotations

import pytest

from dynexplore.engine.numbering import Numbering

pytestmark = pytest.mark.plain("counts up from one")


def test_numbers_run_from_zero() -> None:
    """Two numberings do not know of each other."""
    one, other = Numbering(), Numbering()
    assert [one.next(), one.next(), other.next()] == [0, 1, 0]


def test_numbers_given_inside_are_given_again() -> None:
    """Also when the block raises."""
    numbers = Numbering()
    numbers.next()
    with pytest.raises(ValueError, match="no"), numbers.rolled_back():
        assert numbers.next() == 1
        raise ValueError("no")
    assert numbers.next() == 1


def test_reset() -> None:
    """The next number is the first."""
    numbers = Numbering()
    numbers.next()
    numbers.reset()
    assert numbers.next() == 0
