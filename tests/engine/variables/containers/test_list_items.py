"""What reading a whole iterable calls of the program, and what a container holds when the iterable fails halfway.

Each way of Python to read an iterable, for each kind of object that can be asked for its length or a length hint, and for each
outcome of that question: the same calls in the same order, and the same value or exception.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)
CALLED: list[str] = []
ITEMS = ((1, 2), (3, 4))
HELPERS = {"CALLED": CALLED, "collections": collections, "itertools": itertools, "Point": collections.namedtuple("Point", "x y")}


class Asked:
    """Its length and its length hint have this answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def ask(self, name: str) -> Any:
        CALLED.append(name)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Measured(Asked):
    def __len__(self) -> int:
        return self.ask("len")  # type: ignore[no-any-return]

    def __length_hint__(self) -> int:
        return self.ask("hint")  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        CALLED.append("iter")
        return iter(ITEMS)


class Walker(Asked):
    taken = 0

    def __iter__(self) -> Any:
        CALLED.append("iter")
        return self

    def __next__(self) -> Any:
        CALLED.append("next")
        self.taken += 1
        if self.taken > len(ITEMS):
            raise StopIteration
        return ITEMS[self.taken - 1]

    def __length_hint__(self) -> int:
        return self.ask("hint")  # type: ignore[no-any-return]


class Delegating(Asked):
    def __iter__(self) -> Any:
        CALLED.append("iter")
        return Walker(self.answer)


class Indexed(Asked):
    def __getitem__(self, index: int) -> Any:
        CALLED.append("item")
        return ITEMS[index]

    def __len__(self) -> int:
        return self.ask("len")  # type: ignore[no-any-return]


class Listed(list[Any]):
    ask, answer = Asked.ask, None

    def __init__(self, answer: Any) -> None:
        super().__init__(ITEMS)
        self.answer = answer

    def __len__(self) -> int:
        return self.ask("len")  # type: ignore[no-any-return, arg-type]


class Meta(type):
    answer: Any = None
    ask = Asked.ask

    def __iter__(cls) -> Iterator[Any]:
        CALLED.append("iter")
        return iter(ITEMS)

    def __len__(cls) -> int:
        return cls.ask("len")  # type: ignore[no-any-return, arg-type]


class Class(metaclass=Meta):
    pass


def klass(answer: Any) -> Any:
    Class.answer = answer
    return Class


RECEIVERS: tuple[Callable[[Any], Any], ...] = (Measured, Walker, Delegating, Indexed, Listed, klass)
ANSWERS = (2, ValueError("failed"), TypeError("passed over"), NotImplemented, -1, 10**30)
WAYS = (
    "list(o)", "tuple(o)", "sorted(o)", "[*o]", "(*o,)", "l = [0]; l.extend(o); r = l", "l = [0]; l += o; r = l",
    "l = [0, 1]; l[0:1] = o; r = l", "l = [0, 1, 2, 3]; l[::2] = o; r = l", "len((lambda *a: a)(*o))",
    "len((lambda *a: a)(0, *o))", "a, b = o; r = a, b", "a, *b = o; r = a, b", "list(iter(o))", "list(reversed(o))",
    "set(o)", "collections.deque(o)", "dict(o)", "list(itertools.product(o, o))", "list(itertools.combinations(o, 2))",
    "Point._make(o)", "''.join(o)", "sum(o, ())", "list(map(str, o))", "list(zip(o, o))", "list(itertools.chain(o))",
)  # fmt: skip


def program_of(body: str) -> Callable[..., Any]:
    """`body` after a tensor operation, which gives `r`, or what was raised."""
    names = dict(HELPERS)
    body = body if "r = " in body else f"r = {body}"
    exec(
        "def program(x, make=None, answer=None):\n    x = x + 1\n    o = None if make is None else make(answer)\n"
        f"    try:\n        {body}\n    except Exception as error:\n        r = type(error), str(error)\n    return x + 1, r\n",
        names,
    )
    return names["program"]  # type: ignore[return-value]


@pytest.mark.parametrize("way", WAYS)
def test_length_hints(way: str) -> None:
    """The same methods are called in the same order, with the same result or exception."""
    program = program_of(way)
    for receiver in RECEIVERS:
        for answer in ANSWERS:
            assert_same_as_eager(program, X, receiver, answer, setup=CALLED.clear, observe=lambda: list(CALLED))


def failing() -> Iterator[Any]:
    yield 1, 2
    yield 3, 4
    raise KeyError("failed")


class Failing:
    taken = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.taken += 1
        if self.taken == 3:
            raise KeyError("failed")
        return self.taken, 0


def watching(target: Any) -> Iterator[Any]:
    for number in range(3):
        CALLED.append(repr(target))
        yield number, number


def counted() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        CALLED.append(str(number))
        yield number


HELPERS |= {"failing": failing, "Failing": Failing, "watching": watching, "counted": counted}
FILLED = {
    "[0]": ("t.extend(I)", "t += I", "t[0:1] = I", "t.__init__(I)"),
    "{}": ("t.update(I)", "t.update(I, a=1)", "t |= I", "t.__init__(I)"),
    "collections.OrderedDict()": ("t.update(I)", "t |= I"),
    "collections.defaultdict(list)": ("t.update(I)",),
    "collections.Counter()": ("t.update(I)",),
    "set()": ("t.update(I)", "t.__init__(I)", "t.difference_update(I)", "t.intersection_update(I)"),
    "collections.deque([0])": ("t.extend(I)", "t.extendleft(I)", "t += I"),
    "collections.deque([0], 2)": ("t.extend(I)", "t.extendleft(I)"),
}  # fmt: skip
SOURCES = (
    "failing()", "Failing()", "watching(t)", "zip(Failing(), Failing())", "(e for e in Failing())", "[(7, 7), (8, 8)]",
    "[(7, 7), 8, 9]",
)  # fmt: skip


@pytest.mark.parametrize("target", FILLED)
def test_a_container_is_filled_while_the_iterable_is_read(target: str) -> None:
    """It grows before the eyes of the iterable, and keeps what it has when that raises."""
    for statement in FILLED[target]:
        for source in SOURCES:
            fill = statement.replace("I", source)
            body = f"t = {target}; r = []\n        try: {fill}\n        except Exception as e: r += [type(e), str(e)]"
            program = program_of(f"{body}\n        r += [t, repr(t)]")
            assert_same_as_eager(program, X, setup=CALLED.clear, observe=lambda: list(CALLED))


@pytest.mark.parametrize("read", [
    "a, b = counted(); r = a", "{1, 2}.intersection(counted())", "frozenset((1, 2)).intersection([1, 2, []])",
    "set().intersection([[]])", "frozenset((1,)).intersection([1, []], [])", "{1, 2}.issuperset(counted())",
    "{3}.isdisjoint(counted())", "3 in counted()", "any(counted())", "t = counted(); r = list(zip([1, 2], t)), next(t)",
    "t = counted(); r = list(zip(t, [1, 2])), next(t)",
])  # fmt: skip
def test_no_more_is_read_than_is_needed(read: str) -> None:
    """From an iterator without an end, too."""
    assert_same_as_eager(program_of(read), X, setup=CALLED.clear, observe=lambda: list(CALLED))


def test_a_generator_that_had_too_many_values_goes_on_after_them() -> None:
    """An unpacking that fails has read one item more than it has names for."""
    body = "t = counted()\n        try: a, b = t\n        except ValueError as e: r = [str(e), next(t)]"
    assert_same_as_eager(program_of(body), X, setup=CALLED.clear, observe=lambda: list(CALLED))


@pytest.mark.parametrize("symbol", ["&", "|", "-", "^"])
@pytest.mark.parametrize("sides", [("{1}", "{1.0}"), ("{1, 2}", "{1.0}"), ("{1}", "{1.0, 2.0}"), ("{True, 3}", "{1, 3.0}")])
def test_which_of_two_equal_members_stays(symbol: str, sides: tuple[str, str]) -> None:
    """1 or 1.0, by operator, by method, with an iterable and in place."""
    method = {"&": "intersection", "|": "union", "-": "difference", "^": "symmetric_difference"}[symbol]
    lhs, rhs = sides
    body = f"r = [repr({lhs} {symbol} {rhs}), repr({lhs}.{method}({rhs})), repr({lhs}.{method}(list({rhs})))]"
    assert_same_as_eager(program_of(f"{body}; t = {lhs}; t {symbol}= {rhs}; r += [repr(t), t]"), X)


def test_colliding_members_keep_their_order() -> None:
    """Iterated and printed in the order of their table, which the order of adding decides."""
    assert_same_as_eager(program_of("r = {(0, 0)}; r.add((1, 1)); r.add((2, 2)); r = r, repr(r), list(r), frozenset(r)"), X)
