"""match statements: each kind of pattern over each kind of subject, beside CPython."""

from __future__ import annotations

import array
import collections
import collections.abc
import dataclasses
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


class ListOfNames:
    __match_args__ = ["a"]
    a = 1


class Named:
    __match_args__ = ("a",)
    a = 1
    b = 2


class NamedByNumbers:
    __match_args__ = (1, 2)


class NamedTwice:
    __match_args__ = ("a", "a")
    a = 3


class NamedByNone:
    __match_args__ = None


class NamedByProperty:
    a = 1

    @property
    def __match_args__(self) -> tuple[str, ...]:
        return ("a",)


class Meta(type):
    @property
    def __match_args__(cls) -> tuple[str, ...]:
        return ("b",)


class NamedByMeta(metaclass=Meta):
    b = 7


class Number(int):
    place = 9


class OwnGet(dict):  # type: ignore[type-arg]
    def get(self, key: object, default: object = None) -> object:
        return ("got", key)


class OwnItem(dict):  # type: ignore[type-arg]
    def __getitem__(self, key: object) -> object:
        return "item"

    def __contains__(self, key: object) -> bool:
        return True


class Missing(dict):  # type: ignore[type-arg]
    def __missing__(self, key: object) -> object:
        return "missing"


class MappingFirst(collections.UserDict, collections.abc.Sequence):  # type: ignore[type-arg, misc]
    pass


class ListFirst(list, collections.abc.Mapping):  # type: ignore[type-arg, misc]
    __getitem__ = list.__getitem__
    __len__ = list.__len__
    __iter__ = list.__iter__


@dataclasses.dataclass
class Point:
    x: int
    y: int


Pair = collections.namedtuple("Pair", "x y")


class Dynamic:
    def __getattr__(self, name: str) -> int:
        if name == "z":
            return 5
        raise AttributeError(name)


class Raising:
    @property
    def w(self) -> int:
        raise ValueError("w")


class Text(str):
    pass


SUBJECTS: tuple[Callable[[], Any], ...] = (
    ListOfNames, Named, NamedByNumbers, NamedTwice, NamedByNone, NamedByProperty, NamedByMeta, Dynamic, Raising, MappingFirst,
    lambda: 5, lambda: Number(5), lambda: True, lambda: 1.5, lambda: None,
    lambda: "s", lambda: Text("s"), lambda: b"s", lambda: bytearray(b"s"),
    lambda: {0: 1, "k": 2}, lambda: {1: 2, "k": 2}, lambda: collections.defaultdict(list, {"k": 1}),
    lambda: collections.OrderedDict(k=1), lambda: types.MappingProxyType({"k": 1}),
    lambda: OwnGet(k=1), OwnItem, Missing, lambda: ListFirst([1]),
    lambda: [1, 2], lambda: (1, 2), lambda: range(2), lambda: collections.deque([1, 2]), lambda: {1},
    lambda: Point(1, 2), lambda: Pair(1, 2), lambda: array.array("i", [1, 2]), lambda: torch.Size([1, 2]), lambda: torch.ones(2),
)  # fmt: skip
PATTERNS = (
    "[*_]", "[a, b]", "(1, *a)", "{}", "{'k': a}", "{'k': a, **b}", "{'nope': a}",
    "{Named.a: 1, ListOfNames.a: 2}", "{Named.a: a, Named.b: b}",
    "ListOfNames(a)", "Named(a)", "Named(a, a=b)", "Named(a, b=b)", "Named(a, nope=b)", "Named(a, b)", "NamedByNumbers(a)",
    "NamedTwice(a, b)", "NamedByNone(a)", "NamedByProperty(a)", "NamedByMeta(a)",
    "int(a)", "int(a, real=b)", "int(a, b)", "int(real=a)", "Number(a, place=b)", "str(a)", "dict(a)", "list(a) | tuple(a)",
    "set(a) | frozenset(a)", "float(a) | bytes(a) | bytearray(a) | bool(a)", "complex(a)", "object(a)", "object(x=a)",
    "Point(a, b)", "Point(a, y=b)", "Point(a, x=b)", "Pair(a, b)", "Dynamic(z=a)", "Dynamic(q=a)", "Raising(w=a)",
    "collections.abc.Sequence()", "collections.abc.Mapping()", "torch.Tensor(shape=a)", "SUBJECTS()",
)  # fmt: skip
SOURCE = """
def program(x, subject):
    a = b = None
    try:
        match subject:
            case {}:
                matched = True
            case _:
                matched = False
    except Exception as error:
        matched = type(error).__name__, str(error)
    return x + 1, matched, a, b
"""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_it_matches_in_python(pattern: str) -> None:
    """Whether it matches, what it binds, and which error it raises."""
    namespace = dict(globals())
    exec(compile(SOURCE.format(pattern), f"<{pattern}>", "exec"), namespace)
    program = namespace["program"]
    graphs = 0
    for subject in SUBJECTS:
        dynexplore.reset()
        compiled = dynexplore.optimize("eager")(program)
        expected = repr(program(torch.ones(1), subject()))
        assert [repr(compiled(torch.ones(1), subject())) for _ in range(2)] == [expected] * 2, subject()
        graphs += graphs_compiled()
    assert graphs >= len(SUBJECTS) - 1


def test_match_args_that_the_frame_assigns() -> None:
    """The pattern asks the class as it is by then."""

    def program(x: Any) -> Any:
        class Own:
            __match_args__ = ("first",)
            first, second = 1, 2

        Named.__match_args__ = ("b",)
        Own.__match_args__ = ("second",)
        match Named(), Own():
            case Named(a), Own(b):
                return x + 1, a, b

    def put_back() -> None:
        Named.__match_args__ = ("a",)

    assert_same_as_eager(program, torch.ones(2), calls=2, setup=put_back, observe=lambda: Named.__match_args__)
    put_back()
