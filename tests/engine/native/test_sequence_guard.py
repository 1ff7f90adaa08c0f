"""SequenceGuard: the compares of a DictGuard over a list or tuple that is handed in."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

from dynexplore.engine.native import SequenceGuard

pytestmark = pytest.mark.plain("the C extension by itself: no frame is hooked")


@pytest.mark.parametrize("cls", [list, tuple])
def test_what_stands_there(cls: Any) -> None:
    """By identity, by value, or any."""
    thing, text = object(), "".join(["a", "b"])
    guard = SequenceGuard(((0, "is", thing), (2, "equal", "ab"), (3, "any", None)))
    assert guard(cls([thing, 7, text, 1]))
    assert guard(cls([thing, 8, text, 2, 9]))
    assert not guard(cls([object(), 7, text, 1]))
    assert not guard(cls([thing, 7, "ac", 1]))
    assert not guard(cls([thing, 7, text]))
    assert not guard(cls())


@pytest.mark.parametrize(
    ("expected", "value", "answer"),
    [(1, 1, True), (10**30, 10**30, True), (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (math.nan, float("nan"), True),
     (0.1, 0.1, True), (b"a", b"a", True), ("a", b"a", False)],
)
def test_constants_are_told_by_type_and_value(expected: Any, value: Any, answer: bool) -> None:
    """1 is not True, -0.0 is not 0.0, NaN is NaN."""
    assert SequenceGuard(((0, "equal", expected),))([value]) is answer


def test_the_length() -> None:
    """Where it is relied on, one item more or less is a miss."""
    guard = SequenceGuard(((0, "equal", 1),), 2)
    assert [guard([1] * length) for length in range(4)] == [False, False, True, False]


def test_each_write_is_seen() -> None:
    """The same list, written to between the calls."""
    guard = SequenceGuard(((0, "equal", 1), (1, "equal", 2)))
    content = [1, 2]
    assert guard(content)
    content[1] = 3
    assert not guard(content)
    content.pop()
    assert not guard(content)
    content.append(2)
    assert guard(content)


def test_a_thing_that_is_held_weakly() -> None:
    """It passes while it stands there; once it is dead nothing does, and the guard did not keep it."""

    class Thing:
        pass

    content = [Thing()]
    guard = SequenceGuard(((0, "is_weak", content[0]),))
    gone = weakref.ref(content[0])
    assert guard(content)
    content[0] = Thing()
    assert not guard(content) and gone() is None


def test_what_is_no_list_or_tuple_fails() -> None:
    """A dict, a string, or an instance of a class of the program is a miss, and none of its code runs."""

    class Own(list[int]):
        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("asked")

    for other in ({0: 1}, "a", None, Own([1])):
        assert SequenceGuard(((0, "equal", 1),))(other) is False


@pytest.mark.parametrize("check", [(-1, "is", None), ("a", "is", None), (0, "absent", None), (10**30, "is", None)])
def test_a_check_is_of_an_index_from_0(check: Any) -> None:
    """Anything else is a ValueError."""
    with pytest.raises(ValueError, match="an index from 0"):
        SequenceGuard((check,))


def test_a_guard_in_a_cycle_is_collected() -> None:
    """A list that its own guard holds."""
    content: list[Any] = [set()]
    gone = weakref.ref(content[0])
    content.append(SequenceGuard(((0, "is", content[0]), (1, "is", content))))
    del content
    gc.collect()
    assert gone() is None
