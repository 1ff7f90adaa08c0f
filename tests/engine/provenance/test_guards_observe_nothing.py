"""A guard observes nothing and changes nothing: no method of a container, of a key or of an object is asked when it is checked.

The table: each program relies on something in its own way, and is called with each pair of values, so that what was relied on of
one is checked on the other. What is asked of the values, and what stands in them afterwards, is as in plain Python.
"""

from __future__ import annotations

import gc
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.provenance.guard_codegen import compile_check
from dynexplore.engine.provenance.guards import GuardSet
from dynexplore.engine.provenance.sources import LocalSource, Scope
from engine_checks import graphs_compiled

ASKED: list[str] = []


def _asking(base: Any, *names: str) -> Any:
    """A class whose methods note that they are asked."""

    def method(name: str) -> Any:
        inherited = getattr(base, name)

        def asked(self: Any, *args: Any) -> Any:
            ASKED.append(f"{base.__name__}.{name}")
            return inherited(self, *args)

        return asked

    return type(f"Asking{base.__name__}", (base,), {name: method(name) for name in names})


_READS = ("__getitem__", "__contains__", "__iter__", "__len__", "__eq__")
AskingDict = _asking(dict, *_READS, "get", "keys", "values", "items")
AskingOrdered = _asking(OrderedDict, *_READS, "keys", "values", "items")
AskingDefault = _asking(defaultdict, *_READS, "__missing__")
AskingList = _asking(list, *_READS)
AskingTuple = _asking(tuple, *_READS)
AskingSet = type("AskingSet", (_asking(set, "__contains__", "__iter__", "__len__", "__eq__"),), {"__hash__": None})


class Filling(dict[str, Any]):
    """A dict that fills itself."""

    def __missing__(self, key: str) -> Any:
        ASKED.append(f"missing {key}")
        self[key] = [1]
        return self[key]


class Key:
    """A key that is asked whether it equals others: it has the hash of "p"."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        ASKED.append("Key.__eq__")
        return False


class Text(str):
    """A text that is asked the same."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        ASKED.append("Text.__eq__")
        return str.__eq__(self, other)


class Watching:
    """An object that hears of each attribute that is read."""

    def __getattribute__(self, name: str) -> Any:
        ASKED.append(f"get {name}")
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        ASKED.append(f"missing {name}")
        return 1


class Plain:
    """An object with an attribute."""

    p: Any

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def _with(kind: Any) -> dict[str, Callable[[], Any]]:
    return {
        f"{kind.__name__} p": lambda: kind({"p": [1]}),
        f"{kind.__name__} q": lambda: kind({"q": [1]}),
        f"{kind.__name__} empty": kind,
    }


VALUES: dict[str, Callable[[], Any]] = {
    **_with(dict),
    **_with(OrderedDict),
    **_with(Filling),
    **_with(AskingDict),
    **_with(AskingOrdered),
    "defaultdict p": lambda: defaultdict(list, p=[1]),
    "defaultdict q": lambda: defaultdict(list, q=[1]),
    "AskingDefault p": lambda: AskingDefault(list, p=[1]),
    "AskingDefault empty": lambda: AskingDefault(list),
    "proxy p": lambda: MappingProxyType({"p": [1]}),
    "proxy of own": lambda: MappingProxyType(AskingDict({"p": [1]})),
    "proxy q": lambda: MappingProxyType({"q": [1]}),
    "an own key": lambda: {Key("other"): [1]},
    "an own key in order": lambda: OrderedDict({Key("other"): [1]}),
    "an own key by default": lambda: defaultdict(list, {Key("other"): [1]}),
    "an own text": lambda: defaultdict(list, {Text("p"): [1]}),
    "list": lambda: ["p"],
    "empty list": list,
    "own list": lambda: AskingList(["p"]),
    "tuple": lambda: ("p", 1),
    "own tuple": lambda: AskingTuple(("p", 1)),
    "list of keys": lambda: [Key("p")],
    "set": lambda: {"p"},
    "own set": lambda: AskingSet({"p"}),
    "set of keys": lambda: {Key("other")},
    "set of texts": lambda: {Text("q")},
    "frozen": lambda: frozenset({"p"}),
    "object p": lambda: Plain(p=[1]),
    "object q": lambda: Plain(q=[1]),
    "watching": Watching,
    "None": lambda: None,
}


def has(x: Any, a: Any) -> Any:
    return x + 1 if "p" in a else x + 2


def takes(x: Any, a: Any) -> Any:
    return x + len(a["p"]) if "p" in a else x + 7


def takes_alone(a: Any) -> Any:
    return a["p"] if "p" in a else 7


def compares(x: Any, a: Any) -> Any:
    return x + 1 if a == {"p": [1]} else x + 2


def counts(x: Any, a: Any) -> Any:
    return x * len(a)


def walks(x: Any, a: Any) -> Any:
    for one in a:
        x = x + len(repr(type(one)))
    return x


def subscripts(x: Any, a: Any) -> Any:
    try:
        return x + len(a[0])
    except (KeyError, TypeError, IndexError) as error:
        return x, type(error).__name__


def asks(x: Any, a: Any) -> Any:
    return x + 1 if getattr(a, "p", None) else x + 2


def is_true(x: Any, a: Any) -> Any:
    return x + 1 if a else x + 2


def takes_apart(x: Any, a: Any) -> Any:
    return x + 1, [*a], type(a)


PROGRAMS: tuple[Any, ...] = (has, takes, takes_alone, compares, counts, walks, subscripts, asks, is_true, takes_apart)
ROWS = [
    pytest.param(program, marks=pytest.mark.plain("without a tensor there is no graph to see"))
    if program is takes_alone
    else program
    for program in PROGRAMS
]


def _told(call: Callable[[], Any], value: Any) -> str:
    """What a call shows: its result or what it raises, what was asked meanwhile, and what the value holds afterwards."""
    ASKED.clear()
    try:
        result = call()
    except Exception as error:
        result = f"raises {type(error).__name__}: {error}"
    asked = list(ASKED)
    return f"{_plain(result)}, asked {asked}, left {_plain(value)}"


def _plain(value: Any) -> str:
    for kind, items in ((dict, dict.items), (list, list.__iter__), (tuple, tuple.__iter__), (set, set.__iter__)):
        if type(value) is MappingProxyType:
            return f"proxy of {_plain(gc.get_referents(value)[0])}"
        if issubclass(type(value), kind):
            return f"{type(value).__name__}[{', '.join(map(_plain, items(value)))}]"  # type: ignore[operator]
    if type(value) in (Plain, Watching):
        return str(sorted(object.__getattribute__(value, "__dict__").items()))
    return type(value).__name__ if type(value) in (Key, Text) else str(value)


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.__name__)
def test_what_is_asked_of_values_is_what_the_program_asks(program: Any) -> None:
    """Each value with two others: first the one, then the other, then the first again."""
    _compare(program, [(first, second) for place, first in enumerate(VALUES) for second in _others(place, 2)])


@pytest.mark.soak
@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.__name__)
def test_what_is_asked_of_values_is_what_the_program_asks_for_each_pair(program: Any) -> None:
    """The same for all pairs."""
    _compare(program, list(itertools.product(VALUES, VALUES)))


def _others(place: int, count: int) -> list[str]:
    """Values that stand far from this one in the table, other ones for each."""
    names = list(VALUES)
    return [names[(place + 1 + 11 * step + place % 3) % len(names)] for step in range(count)]


def _compare(program: Any, pairs: list[tuple[str, str]]) -> None:
    wrong, graphs = [], 0
    for first, second in pairs:
        dynexplore.reset()
        optimized = dynexplore.optimize("eager")(program)
        for name in (first, second, first):
            calls = []
            for function in (program, optimized):
                value = VALUES[name]()
                args = (value,) if program is takes_alone else (torch.zeros(1), value)
                calls.append(_told(lambda function=function, args=args: function(*args), value))  # type: ignore[misc]
            if calls[0] != calls[1]:
                wrong.append(f"{first}, then {second}: {name}\n  {calls[0]}\n  {calls[1]}")
        graphs += graphs_compiled()
    assert not wrong, "\n".join(wrong[:20])
    assert graphs > len(pairs) / 2 or program is takes_alone


KINDS: list[tuple[str, Any]] = [
    ("DICT_KEYS", ("p",)),
    ("DICT_KEYS", (1, "p")),
    ("DICT_KEYS", ()),
    ("SET_CONTENT", frozenset({"p"})),
    ("SET_CONTENT", frozenset({1})),
    ("EQUALS", "p"),
    ("EQUALS", None),
    ("EQUALS", ("p", 1)),
    ("EQUALS", 1.5),
    ("LIST_LENGTH", 1),
    ("NUMBER", None),
    ("ATTRIBUTE_ABSENT", "p"),
]


@pytest.mark.plain("no function is captured: the check itself is called")
@pytest.mark.parametrize(("kind", "expected"), KINDS, ids=str)
def test_the_check_of_a_kind_asks_nothing(kind: str, expected: Any) -> None:
    """Behind the guard on its class, the generated check and the readable one run no code of any value, and change none."""
    for asked_of, name in itertools.product(VALUES, VALUES):
        guards = GuardSet()
        source = LocalSource("a", 0)
        cls = type(VALUES[asked_of]())
        source.runs_code = cls is Watching  # the translator notes it when it first sees such an object
        if cls.__name__.startswith("Asking") and kind in ("LIST_LENGTH", "DICT_KEYS"):
            continue  # a class that says its own length has no such guard
        if cls is MappingProxyType and kind in ("LIST_LENGTH", "DICT_KEYS"):
            continue  # the dict behind it has
        guards.add(source, "TYPE_MATCH", cls, 0)
        guards.add(source, kind, expected, 0)
        check = compile_check(guards, ("a",))
        value = VALUES[name]()
        before = _plain(value)
        ASKED.clear()
        scope = Scope({"a": value}, None, {})
        check.holds(scope)
        check.first_failure(scope)
        assert (ASKED, _plain(value)) == ([], before), f"{kind} {expected} of a {cls.__name__}, asked of {name}: {ASKED}"


@pytest.mark.plain("no function is captured: the check itself is called")
@pytest.mark.parametrize("key", ["p", 0, 1.5, None, ("p", 1)], ids=repr)
def test_the_way_to_an_item_asks_nothing(key: Any) -> None:
    """A path leads through items by the C type below a class, whatever stands there: no `__missing__` fills anything."""
    for name, make in VALUES.items():
        if name == "an own text" and key == "p":
            continue  # of the same hash: the dict itself asks whether they are equal, as the program's subscript does
        for item in (LocalSource("a", 0).item(key), LocalSource("a", 0).attribute("p", "hidden")):
            guards = GuardSet()
            guards.add(item, "EQUALS", 3, 0)
            check = compile_check(guards, ("a",))
            value = make()
            before = _plain(value)
            ASKED.clear()
            scope = Scope({"a": value}, None, {})
            if type(value) is not Watching:
                check.holds(scope)
            check.first_failure(scope)
            assert (ASKED, _plain(value)) == ([], before), f"the way to {item.text()} of {name}: {ASKED}"
