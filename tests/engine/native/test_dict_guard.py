"""DictGuard: the compares of a walk over a dictionary that is handed in, and the version that stands for them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dynexplore.engine.native import DictGuard

pytestmark = pytest.mark.plain("the C extension by itself: no frame is hooked")


def test_what_stands_there() -> None:
    """By identity, by value, or any."""
    thing, text = object(), "".join(["a", "b"])
    guard = DictGuard((("a", "is", thing), ("b", "equal", "ab"), ("c", "any", None)))
    content = {"a": thing, "b": text, "c": 1}
    assert guard(content)
    assert guard(dict(content))
    assert guard({**content, "c": 2, "d": 3})
    assert not guard({**content, "a": object()})
    assert not guard({**content, "b": "ac"})
    assert not guard({"a": thing, "b": text})


@pytest.mark.parametrize(
    ("expected", "value", "answer"),
    [(1, 1, True), (10**30, 10**30, True), (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (math.nan, float("nan"), True),
     (0.1, 0.1, True), (b"a", b"a", True), ("a", b"a", False)],
)
def test_constants_are_told_by_type_and_value(expected: Any, value: Any, answer: bool) -> None:
    """1 is not True, -0.0 is not 0.0, NaN is NaN."""
    assert DictGuard((("a", "equal", expected),))({"a": value}) is answer


def test_a_thing_that_is_held_weakly() -> None:
    """It passes while it stands there; once it is dead nothing does."""

    class Thing:
        pass

    content = {"a": Thing()}
    guard = DictGuard((("a", "is_weak", content["a"]),))
    assert guard(content)
    content["a"] = Thing()
    assert not guard(content)


def test_what_is_missing() -> None:
    """An absent key, among strings and among other keys."""
    guard = DictGuard((("a", "absent", None),))
    assert guard({"b": 1})
    assert guard({"b": 1, 2: 3})
    assert not guard({"a": 1})
    assert not guard({2: 3, "a": 1})


def test_each_write_is_seen() -> None:
    """The same dictionary, written to between the calls."""
    guard = DictGuard((("a", "equal", 1), ("x", "absent", None)))
    content: dict[str, Any] = {"a": 1}
    assert guard(content)
    content["b"] = 2
    assert guard(content)
    content["a"] = 3
    assert not guard(content)
    content["a"] = 1
    assert guard(content)
    content["x"] = 1
    assert not guard(content)


def test_attributes_of_an_instance() -> None:
    """An instance may store past its dictionary."""

    class K:
        def __init__(self) -> None:
            self.a = 1

    k = K()
    guard = DictGuard((("a", "equal", 1), ("x", "absent", None)))
    for _ in range(3):
        assert guard(k.__dict__)
        k.a = 2
        assert not guard(k.__dict__)
        k.a = 1
        k.x = 1  # type: ignore[attr-defined]
        assert not guard(k.__dict__)
        del k.x  # type: ignore[attr-defined]


def test_what_is_no_dict_fails() -> None:
    """A list where a dict was is a miss, and no error."""
    assert DictGuard(())(["a"]) is False


@pytest.mark.parametrize("held", ["in a dict", "in an instance"])
def test_all_keys_in_their_order(held: str) -> None:
    """With keys, the dictionary has exactly these, of the same types, in this order; also where an instance stores its values."""

    class Thing:
        pass

    guard = DictGuard((), ("a", "b") if held == "in an instance" else ("a", 1, 2.0, None, b"c"))
    if held == "in an instance":
        first, second, third = Thing(), Thing(), Thing()
        first.a, first.b = 1, 2  # type: ignore[attr-defined]
        second.b, second.a = 1, 2  # type: ignore[attr-defined]
        third.a = 1  # type: ignore[attr-defined]
        for _ in range(2):
            assert [guard(vars(thing)) for thing in (first, second, third)] == [True, False, False]
        return
    content: dict[Any, int] = {"a": 0, 1: 1, 2.0: 2, None: 3, b"c": 4}
    assert guard(content) and guard(dict(content)) and guard({**content, "a": 9})
    assert not guard({**content, "d": 5})
    assert not guard({"a": 0, 1: 1, 2.0: 2, None: 3})
    assert not guard({"a": 0, True: 1, 2.0: 2, None: 3, b"c": 4})
    assert not guard({"a": 0, 1: 1, 2: 2, None: 3, b"c": 4})
    assert not guard({1: 1, "a": 0, 2.0: 2, None: 3, b"c": 4})
    del content["a"]
    assert not guard(content)
    content["a"] = 0
    assert not guard(content)


def test_keys_are_a_tuple() -> None:
    """Anything else is a TypeError."""
    with pytest.raises(TypeError):
        DictGuard((), ["a"])  # type: ignore[arg-type]
