"""No value of a program is a divergence by its kind: kinds of values, in kinds of containers, from kinds of places."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import linecache
import math
import operator
import pathlib
import re
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev


class Mode(enum.Enum):
    UP = "up"
    DOWN = "down"


class Number(enum.IntEnum):
    ONE = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class IntFlags(enum.IntFlag):
    A = 1
    B = 2


class Text(enum.StrEnum):
    X = "x"


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyStr(str):
    pass


class MyTuple(tuple):  # type: ignore[type-arg]
    pass


class MyList(list):  # type: ignore[type-arg]
    pass


class MyDict(dict):  # type: ignore[type-arg]
    pass


class Pair(NamedTuple):
    a: int
    b: int


@dataclasses.dataclass
class Data:
    a: int


@dataclasses.dataclass(frozen=True)
class FrozenData:
    a: int


class Plain:
    def method(self) -> int:
        return 1


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    pass


def function() -> int:
    return 1


VALUES: tuple[Any, ...] = (
    Mode.UP, Number.ONE, Flags.A, Flags.A | Flags.B, IntFlags.A | IntFlags.B, Text.X,
    3, 10**30, 1.5, math.nan, math.inf, -0.0, 1j, True, "s", b"b", None, NotImplemented, ...,
    MyInt(3), MyFloat(1.5), MyStr("s"), MyTuple((1, 2)), MyList([1]), MyDict(a=1), Pair(1, 2), Data(1), FrozenData(1), Plain(),
    Plain().method, int, Plain, WithMeta, math, torch.nn.functional, function, lambda: 1, len, torch.sin, torch.Tensor.add,
    frozenset((1, 2)), frozenset((Mode.UP,)), torch.float32, torch.device("cpu"), torch.Size((1, 2)), torch.strided,
    (1, 2), (), ((1, Mode.UP), "x"), [1, 2], {"a": 1}, {1, 2}, range(3), slice(1, 2), collections.deque([1]),
    collections.OrderedDict(a=1), collections.defaultdict(int, a=1), collections.Counter("aab"), types.MappingProxyType({"a": 1}),
    torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.nn.Linear(2, 2), functools.partial(function), list[int], int | str,
    np.int64(3), np.float32(1.5), np.ones(2), types.SimpleNamespace(a=1), ValueError("x"), ValueError, fractions.Fraction(1, 2),
    decimal.Decimal("1.5"), bytearray(b"x"), datetime.date(2020, 1, 1), pathlib.PurePosixPath("a"), re.compile("a"),
    operator.itemgetter(0), object(),
)  # fmt: skip


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Container(NamedTuple):
    """How to make one of a value, and lines that load from `c`, store `v` in it, and iterate over it."""

    make: Callable[[Any], Any]
    load: str
    store: str
    walk: str


_OVER = "for k in c: out.append(k)"
CONTAINERS = (
    Container(lambda v: {"k": v, "l": 1}, "c['k']", "c['n'] = v", "for k in c: out.append(c[k])"),
    Container(lambda v: {v: 1, "l": 2}, "list(c)[0]", "c[v] = 5", "for k, w in c.items(): out.append(k)"),
    Container(lambda v: [v, 1], "c[0]", "c[1] = v", _OVER),
    Container(lambda v: (v, 1), "c[0]", "c = (*c, v)", _OVER),
    Container(lambda v: Holder(v), "c.value", "c.other = v", "out.append(c.other)"),
    Container(lambda v: Slotted(v), "c.value", "c.value = v", "out.append(c.value)"),
    Container(lambda v: types.SimpleNamespace(value=v), "c.value", "c.other = v", "out.append(c.other)"),
    Container(lambda v: collections.deque([v, 1]), "c[0]", "c[1] = v", _OVER),
    Container(lambda v: collections.OrderedDict(k=v), "c['k']", "c['n'] = v", "for k in c.values(): out.append(k)"),
    Container(lambda v: {v}, "len(c)", "c.add(v)", _OVER),
    Container(lambda v: frozenset({v}), "len(c)", "c = c | {v}", _OVER),
    Container(lambda v: v, "c", "d = {'k': v, 1: c}", "for k in (*d.values(), c, v): out.append(k)"),
)
PLACES = ("g{}", "a[{}]", "n{}", "self.c{}")
"""A global, an argument, a variable of the closure, an attribute."""


def program(value: Any, shift: int) -> Callable[[], Callable[..., Any]]:
    """Makes a method that loads, stores, iterates and returns in every kind of container, each from another kind of place."""
    body, made = [], []
    for container in CONTAINERS:
        try:
            container.make(value)
        except TypeError:  # it cannot be hashed
            continue
        place = PLACES[(len(made) + shift) % len(PLACES)].format(len(made))
        body += [f"c, v = {place}", f"out.append({container.load})", container.store, container.walk, "out.append(c)"]
        made.append(container.make)
    numbers = range(len(made))
    lines = [f"def maker({', '.join(f'n{n}' for n in numbers)}):", " def run(self, x, a):", "  out = [x + 1]"]
    lines += [f"  {line}" for line in body] + ["  return out", " return run"]
    name = f"<values {next(_numbers)}>"
    linecache.cache[name] = len(lines), None, [line + "\n" for line in lines], name

    def fresh() -> Callable[..., Any]:
        pairs = [(make(value), value) for make in made]
        scope: dict[str, Any] = {f"g{n}": pair for n, pair in enumerate(pairs)}
        exec(compile("\n".join(lines), name, "exec"), scope)
        owner = Plain()
        vars(owner).update({f"c{n}": pair for n, pair in enumerate(pairs)})
        return functools.partial(types.MethodType(scope["maker"](*pairs), owner), torch.ones(2), pairs)

    return fresh


_numbers: Iterator[int] = itertools.count()


def is_same(one: Any, other: Any) -> bool:
    """Whether two results are equal, with the same types inside."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor | np.ndarray):
        return bool((one == other).all())
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return is_same(list(one.items()), list(other.items()))
    if isinstance(one, Holder | types.SimpleNamespace):
        return is_same(vars(one), vars(other))
    if isinstance(one, Slotted):
        return is_same(one.value, other.value)
    return one is other or bool(one == other)


@pytest.mark.parametrize("number", range(len(VALUES)), ids=lambda number: f"{number}-{type(VALUES[number]).__name__}")
def test_no_kind_of_value_diverges(number: int) -> None:
    """Loaded, stored, iterated over and returned: every value is what it is in plain Python, and no step is an alarm."""
    fresh = program(VALUES[number], number)
    wanted = fresh()()
    dynexplore.reset()
    run = fresh()
    explained = dynexplore.explain(run.func)(*run.args)
    recording = explained.recording
    assert is_same(explained.value, wanted)
    assert [one.sentence for one in recording.divergences] == []
    assert [one.reason for one in recording.of(ev.RunLeftOut) if "could not be checked" in one.reason] == []
    assert recording.of(ev.EngineFailed) == () and recording.graphs
