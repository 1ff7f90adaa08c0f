"""A program that counts how often its keys are hashed and compared counts what it counts in eager.

Theme: hashes and comparisons by methods of the program (variables/objects/user_hash_key.py). The engine reads the keys of a dict to
know them; where that could be noticed, the operation runs for real.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.counters import counters
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(3)
COUNT: collections.Counter[str] = collections.Counter()


class Key:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        COUNT["hash"] += 1
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        COUNT["eq"] += 1
        return isinstance(other, Key) and self.number == other.number


@dataclass(frozen=True)
class Frozen:
    number: int
    name: str

    def __hash__(self) -> int:
        COUNT["hash of a dataclass"] += 1
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and self.number == other.number


class Quiet:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quiet) and self.number == other.number


ONE, TWO, ANOTHER_ONE = Key(1), Key(2), Key(1)
BY_KEY = {ONE: 1, TWO: 2}
KEYS = {ONE, TWO}
FROZEN = {Frozen(1, "one"): 5.0}
QUIET = {Quiet(1): 3.0}


def item(x):
    return (x + 1) * BY_KEY[ONE], x * BY_KEY[ANOTHER_ONE]


def contained(x):
    x = x * 2
    return x + 1 if ANOTHER_ONE in BY_KEY and ANOTHER_ONE in KEYS else x - 1


def walked(x):
    for value in BY_KEY.values():
        x = x + value
    for _, value in BY_KEY.items():
        x = x * value
    return x + len(list(BY_KEY))


def built(x):
    x = x + 1
    made = {ONE: x, TWO: x + 1, ANOTHER_ONE: x + 2}
    return sum(made.values()), len({ONE, TWO, ANOTHER_ONE})


def changed(x):
    made = dict.fromkeys([ONE, TWO], x)
    made[ANOTHER_ONE] = x * 2
    made.pop(TWO)
    return x + len(made), made.get(ONE)


def across_a_break(x):
    x = x + 1
    made = {ONE: x}
    print("between")
    return x * len(made), made[ANOTHER_ONE]


def united(x):
    return x * len(KEYS | {ANOTHER_ONE}), x + len(KEYS & {TWO})


def asked(x):
    return x * (hash(ONE) + 1)


def of_a_dataclass(x):
    return x * FROZEN[Frozen(1, "another")]


PROGRAMS = [item, contained, walked, built, changed, across_a_break, united, asked, of_a_dataclass]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_keys_are_asked_as_often_as_in_eager(program: Callable[..., Any]) -> None:
    """`__hash__` and `__eq__` of keys are called as often as in eager, in the first call and in cached ones."""

    def counts(x):
        COUNT.clear()
        found = program(x * 1)
        return found, dict(COUNT)

    report = assert_same_as_eager(counts, X, calls=3, setup=COUNT.clear, observe=lambda: dict(COUNT))
    assert report.graphs


def test_keys_that_only_answer_are_traced() -> None:
    """Methods that change nothing may be asked any number of times: their dicts stay in the graph."""
    assert_same_as_eager(lambda x: x * QUIET[Quiet(1)] + 1, X, calls=2, graphs=1, breaks=0)


@dataclass(frozen=True)
class Plain:
    number: int
    name: str


class WithMethod:
    def method(self) -> int:
        return 3


def test_the_hash_of_a_dataclass_is_that_of_its_fields() -> None:
    """What `hash` gives is what the method that `dataclass` writes computes, alone and inside of tuples and frozensets."""

    def fn(x: torch.Tensor, key: Plain) -> Any:
        numbers = hash(key), hash((key, 1)), hash(frozenset([key]))
        return x * (numbers[0] % 7), numbers, numbers[0] == hash((key.number, key.name))

    assert_same_as_eager(fn, X, Plain(1, "a"), then=[(X, Plain(2, "b"))])


def test_a_tuple_of_its_parts_is_another_key() -> None:
    """A dataclass and a bound method are no tuples, whatever stands for them while a frame is traced."""
    owner = WithMethod()

    def fn(x: torch.Tensor, key: Plain) -> Any:
        parts = Plain, key.number, key.name
        table = {parts: 1, key: 2, (WithMethod.method, owner): 3, owner.method: 4}
        return x * len(table), table[key], table[owner.method], {parts: 1}.get(key), owner.method in {owner.method}

    assert_same_as_eager(fn, X, Plain(1, "a"))


def test_the_hash_of_a_bound_method_is_its_own() -> None:
    """It is computed of where the object lies, which the program alone knows."""
    owner = WithMethod()

    def fn(x: torch.Tensor) -> Any:
        return x + 1, hash(owner.method)

    number = dynexplore.optimize("eager")(fn)(X)[1]
    assert number == hash(owner.method)
    assert graphs_compiled() == 1


class ByText:
    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, ByText) else other)


class Given(ByText):
    def __hash__(self) -> int:
        return int(self.text)


def test_a_hash_of_the_program_that_fits_a_word_is_taken_as_it_is() -> None:
    """`hash(n)` of a large number is another one than n: an object whose hash is that of a text is found under the text."""

    def fn(x: torch.Tensor, key: ByText) -> Any:
        return x * 2, hash(key), key in {key.text: 1}, key.text in {key: 1}, len({key, key.text})

    more = [(X, Given(str(number))) for number in (2**63 - 1, 2**61 - 1, -(2**62), -1, 2**63, 10**30)]
    assert_same_as_eager(fn, X, ByText("k"), then=more)


ALIKE = [False]


class Colliding:
    """All hashes are equal, and `__eq__` says what the flag says."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return ALIKE[0]


class OwnSet(set[Any]):
    pass


def _dict_of(keys: list[Any]) -> Any:
    container = {}
    for key in keys:
        container[key] = 1
    return container


def _ordered_of(keys: list[Any]) -> Any:
    container: Any = collections.OrderedDict()
    for key in keys:
        container[key] = 1
    return container


def _own_set_of(keys: list[Any]) -> Any:
    container = OwnSet()
    for key in keys:
        container.add(key)
    return container


@pytest.mark.parametrize("breaks", [False, True], ids=["returned", "over a break"])
@pytest.mark.parametrize("make", [_dict_of, _ordered_of, set, frozenset, _own_set_of], ids=lambda make: make.__name__)
def test_colliding_keys_are_compared_when_the_program_does(make: Callable[[list[Any]], Any], breaks: bool) -> None:
    """What keeps two keys apart is asked when they are put in, and not again when modified code makes the container."""

    def fn(x: torch.Tensor) -> Any:
        ALIKE[0] = False
        container = make([Colliding(1), Colliding(2)])
        ALIKE[0] = True
        if breaks:
            dynexplore.graph_break()
        return x + 1, container

    assert len(dynexplore.optimize("eager")(fn)(X)[1]) == len(fn(X)[1]) == 2
    assert dynexplore.counters["frames"]["total"] > 0


def test_a_key_compares_by_a_variable_that_is_not_set_yet() -> None:
    """`__eq__` reads a variable of the function, which has the dict only later."""

    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        dynexplore.graph_break()

        class Key(int):
            def __hash__(self) -> int:
                return 13

            def __eq__(self, other: object) -> bool:
                if len(d) > 1:
                    d.clear()
                return False

        d: Any = {}
        d = {Key(1): 1, Key(2): 2}
        dict.fromkeys(d)
        return y, len(d)

    assert_same_as_eager(fn, X, calls=2)


class Changing:
    number = 1

    def __hash__(self) -> int:
        if self.number == 0:
            raise LookupError("no hash")
        return self.number


AFTER_STORING = (
    "key.number = 2",
    "key.number = 0",
    "key.number = 2; key.number = 1",
    "key.number = 0\n    try: key in things\n    except LookupError: found = 7",
)


@pytest.mark.parametrize("after", AFTER_STORING)
@pytest.mark.parametrize("things", [{}, {"a": 1}, set(), collections.defaultdict(int)], ids=repr)
@pytest.mark.parametrize("place", ["key = Changing()", "things = type(things)(); key = Changing()", "key = given"])
def test_a_key_whose_hash_changes_after_it_is_stored(things: Any, after: str, place: str) -> None:
    """The dict or set has stored the hash: it is not asked for again, however the object changes later in the frame."""

    def put(things: Any, key: Any) -> None:
        if isinstance(things, set):
            things.add(key)
        else:
            things[key] = 1

    names: dict[str, Any] = {"put": put, "Changing": Changing}
    lines = (
        f"x = x + 1; found = None\n    {place}\n    put(things, key)\n    {after}\n    return x, found, len(things), key.number\n"
    )
    exec(f"def program(x, things, given):\n    {lines}", names)
    outcomes = []
    for program in (names["program"], dynexplore.optimize("eager")(names["program"])):
        for _ in range(2):
            own = things.copy()
            _, *rest = program(X, own, Changing())
            outcomes.append((*rest, len(own), [type(thing).__name__ for thing in own]))
    assert outcomes[:2] == outcomes[2:]
    assert counters["frames"]["total"] > 0


class Renumbered:
    """A key whose hash the program changes."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Renumbered)


STALE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "in dict": lambda key, d, s: key in d,
    "in set": lambda key, d, s: key in s,
    "get": lambda key, d, s: d.get(key),
    "set item": lambda key, d, s: (d.__setitem__(key, 5), len(d), list(d.values())),
    "set default": lambda key, d, s: (d.setdefault(key, 5), len(d)),
    "pop": lambda key, d, s: (d.pop(key, 5), len(d)),
    "copied dict": lambda key, d, s: (len({**d, key: 5}), len(dict(d)), len(d | {key: 5})),
    "copied set": lambda key, d, s: (len(s | {key}), len(s - {key}), len(set(s)), len({*s, key})),
    "equal": lambda key, d, s: (d == {key: 1}, s == {key}),
    "add": lambda key, d, s: (s.add(key), len(s)),
    "discard": lambda key, d, s: (s.discard(key), len(s)),
    "views": lambda key, d, s: (len(d.keys() & {key}), key in d.keys(), (key, 1) in d.items()),
    "walk": lambda key, d, s: [d.get(each, 7) for each in d],
    "tuple": lambda key, d, s: (key,) in {(key,): 1},
}


@pytest.mark.parametrize("when", ["before", "in the frame"])
@pytest.mark.parametrize("use", STALE)
def test_a_key_with_another_hash_than_the_stored_one(use: str, when: str) -> None:
    """Python looks in the place of the present hash, and the engine does so, too: in a dict and a set of before the frame."""
    ask = STALE[use]

    def run(optimized: bool) -> Any:
        key = Renumbered(1)
        d, s = {key: 1}, {key}
        if when == "before":
            key.number = 2

        def fn(x: torch.Tensor) -> Any:
            y = x + 1
            if when != "before":
                key.number += 1
            return y, ask(key, d, s)

        called = dynexplore.optimize("eager")(fn) if optimized else fn
        return [called(X)[1] for _ in range(2)]

    expected = run(optimized=False)
    assert run(optimized=True) == expected
    assert graphs_compiled()
