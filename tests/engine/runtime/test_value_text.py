"""How values of a program are shown in records: by type, part by part, without running the program's code."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine.events import FrameEntered
from dynexplore.engine.runtime.value_text import value_text

ASKED: list[str] = []


class Color(enum.Enum):
    """Members have a text of their own."""

    RED = 1


@dataclasses.dataclass
class Pair:
    """A dataclass with the repr that is written for it."""

    left: Any
    right: Any


@dataclasses.dataclass(slots=True)
class Slots:
    """A dataclass without a `__dict__`."""

    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class OwnText:
    """A dataclass whose repr is the program's."""

    left: Any

    def __repr__(self) -> str:
        return "own"


class Shape(enum.IntFlag):
    """Members that are numbers."""

    ROUND = 1
    FLAT = 2


Point = collections.namedtuple("Point", "x y")

TEXTS: list[tuple[object, str]] = [
    (1, "1"), (10**5000, "<an integer of 16610 bits>"), (1.5, "1.5"), (1j, "1j"), ("a", "'a'"), (b"a", "b'a'"),
    (range(3), "range(0, 3)"),
    (None, "None"), (True, "True"), (..., "Ellipsis"), (NotImplemented, "NotImplemented"),
    ([], "[]"), ([1, [2]], "[1, [2]]"), ((), "()"), ((1,), "(1,)"), ((1, 2), "(1, 2)"), (set(), "set()"), ({1}, "{1}"),
    (frozenset(), "frozenset()"), (frozenset({1}), "frozenset({1})"), ({}, "{}"), ({"a": (1,)}, "{'a': (1,)}"),
    (collections.OrderedDict(a=1), "OrderedDict({'a': 1})"), (collections.Counter("aab"), "Counter({'a': 2, 'b': 1})"),
    (collections.deque([1, 2]), "deque([1, 2])"), (slice(1, None), "slice(1, None, None)"), (ValueError(1), "ValueError(1)"),
    (Color.RED, "Color.RED"), (Shape.FLAT, "Shape.FLAT"),
    (Pair(1, "b"), "Pair(left=1, right='b')"), (Slots(1, None), "Slots(left=1, right=None)"),
    (OwnText(1), f"<{__name__}.OwnText object>"),
    (Point(1, 2), "Point(x=1, y=2)"),
    (types.SimpleNamespace(a=1), "namespace(a=1)"),
    (functools.partial(max, 1, key=2), "partial(<built-in function max>, 1, key=2)"),
    (int, "<class 'int'>"), (object(), "<object object>"), (types, "<module 'types'>"),
    ([].append, "<built-in method append of list object>"),
    (datetime.date(2020, 1, 2), "datetime.date(2020, 1, 2)"), (pathlib.Path("a"), "PosixPath('a')"),
    (torch.ones(2, 3), "float32[2, 3] cpu"), ([torch.ones(2)], "[float32[2] cpu]"), (torch.nn.Linear(1, 1), "Linear"),
    (torch.float32, "torch.float32"), (torch.Size([1, 2]), "torch.Size([1, 2])"),
    (np.ones((2, 3)), "ndarray float64[2, 3]"), (np.int64(2), "np.int64(2)"), (np.float64(2), "np.float64(2.0)"),
]  # fmt: skip


@pytest.mark.plain("looks at texts and compiles nothing")
@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_value_is_shown_by_its_type(value: object, text: str) -> None:
    """Built-in types as Python prints them, tensors and arrays by dtype and shape, objects by their fields or their class."""
    assert value_text(value) == text


@pytest.mark.plain("looks at texts and compiles nothing")
def test_long_values_are_cut() -> None:
    """At most so many characters, and no more of a value is read than that."""
    read: list[int] = []

    def counted() -> Any:
        for number in range(10**6):
            read.append(number)
            yield number

    assert len(value_text(list(range(10**6)))) == 240 and len(value_text("a" * 10**6, 80)) == 80
    endless: list[Any] = []
    endless.append(endless)
    assert value_text(endless) == "[[[[[[[[...]]]]]]]]"
    assert not read and value_text(counted()) == "<generator object test_long_values_are_cut.<locals>.counted>" and not read


def loud(base: type[Any]) -> type[Any]:
    """A class whose methods say that they were called."""

    def method(name: str) -> Callable[..., Any]:
        def say(self: object, *args: object, **kwargs: object) -> Any:
            ASKED.append(f"{base.__name__}.{name}")
            return getattr(base, name)(self, *args, **kwargs)

        return say

    names = ["__repr__", "__str__", "__iter__", "__len__", "__getitem__", "__getattribute__"]
    names += ["__hash__", "__eq__", "__format__", "__bool__"]
    return type(f"Loud{base.__name__}", (base,), {name: method(name) for name in names if hasattr(base, name)})


LOUD: dict[str, Callable[[], object]] = {
    "object": lambda: loud(object)(),
    "int": lambda: loud(int)(5),
    "float": lambda: loud(float)(5),
    "str": lambda: loud(str)("5"),
    "bytes": lambda: loud(bytes)(b"5"),
    "list": lambda: loud(list)([1, loud(int)(5)]),
    "tuple": lambda: loud(tuple)([1]),
    "set": lambda: loud(set)([1]),
    "frozenset": lambda: loud(frozenset)([1]),
    "dict": lambda: loud(dict)(a=loud(object)()),
    "deque": lambda: loud(collections.deque)([1]),
    "named tuple": lambda: loud(Point)(1, 2),
    "exception": lambda: loud(ValueError)(1),
    "in a list": lambda: [loud(object)()],
    "as a key": lambda: {loud(int)(1): 2},
    "in a dataclass": lambda: Pair(loud(object)(), 1),
    "in a named tuple": lambda: Point(loud(object)(), 1),
    "in a namespace": lambda: types.SimpleNamespace(a=loud(object)()),
    "of a method": lambda: types.MethodType(print, loud(object)()),
    "in a partial": lambda: functools.partial(print, loud(object)()),
    "in an exception": lambda: ValueError(loud(object)()),
}


@pytest.mark.plain("looks at texts and compiles nothing")
@pytest.mark.parametrize("make", LOUD.values(), ids=LOUD)
def test_no_code_of_the_program_runs(make: Callable[[], object]) -> None:
    """Neither `repr` nor anything else that a class of the program defines is called."""
    value = make()
    ASKED.clear()
    text = value_text(value)
    assert not ASKED and "raised" not in text


class Number(int):
    """Its repr can be noticed."""

    def __repr__(self) -> str:
        print("asked")
        return "a number"


def test_a_recorded_call_prints_what_it_prints_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """A recorder of arguments leaves no trace: values of the program, also those that a resume function takes, are not asked."""

    def program(x: torch.Tensor, number: int) -> torch.Tensor:
        y = x + number
        factor = Number(7)
        print("broken")
        return y * factor

    expected = program(torch.ones(2), Number(3))
    assert capfd.readouterr().out == "broken\n"
    recording = recorded(program, (torch.ones(2), Number(3)))
    assert "asked" not in capfd.readouterr().out
    entered = [event for event in recording.events if isinstance(event, FrameEntered)]
    assert "Number(3)" in [view.text for event in entered for _, view in event.arguments]
    assert torch.equal(dynexplore.optimize("eager")(program)(torch.ones(2), Number(3)), expected)
