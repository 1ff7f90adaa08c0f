"""`types.MappingProxyType` of every kind of mapping, made in the frame or passed to it: it answers as what is behind it does."""

from __future__ import annotations

import operator
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager


class Overriding(dict[str, int]):
    """A dict whose methods answer otherwise."""

    def keys(self) -> Any:
        return ["mine"]

    def __missing__(self, key: str) -> int:
        return 7


class Plain:
    """An object whose `__dict__` is shown."""

    def __init__(self) -> None:
        self.a, self.b = 1, 2


MAPPINGS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {"a": 1, "b": 2},
    "OrderedDict": lambda: OrderedDict(a=1, b=2),
    "defaultdict": lambda: defaultdict(lambda: 5, a=1, b=2),
    "Counter": lambda: Counter("ab"),
    "subclass": lambda: Overriding(a=1, b=2),
    "ChainMap": lambda: ChainMap({"a": 1}, {"b": 2}),
    "UserDict": lambda: UserDict(a=1, b=2),
    "proxy": lambda: MappingProxyType({"a": 1, "b": 2}),
    "__dict__": lambda: vars(Plain()),
}

OPERATIONS: tuple[Callable[[Any], Any], ...] = (
    lambda m: (type(m.keys()), list(m.keys())),
    lambda m: (type(m.values()), list(m.values())),
    lambda m: (type(m.items()), list(m.items())),
    lambda m: (m["a"], m.get("a"), m.get("none"), m.get("none", 3)),
    lambda m: (type(iter(m)), list(m), type(reversed(m)), list(reversed(m))),
    lambda m: ("a" in m, "none" in m, len(m), bool(m)),
    lambda m: (type(m.copy()), m.copy()),
    lambda m: (type(m | {"c": 3}), m | {"c": 3}),
    lambda m: (type({"c": 3} | m), {"c": 3} | m),
    lambda m: (m == m, m == {"a": 1, "b": 2}, m == OrderedDict(b=2, a=1), m != {}),
    lambda m: (dict(m), {**m}, isinstance(m, dict), type(m)),
    lambda m: m["none"],
    lambda m: operator.setitem(m, "a", 2),
    lambda m: operator.delitem(m, "a"),
    lambda m: operator.ior(m, {"c": 3}),
    repr,
)


@pytest.mark.parametrize("made", [True, False], ids=["made", "argument"])
@pytest.mark.parametrize("kind", MAPPINGS)
def test_it_answers_as_what_is_behind_it(kind: str, made: bool) -> None:
    """Every operation, with its exception; afterwards what is behind is compared, too."""
    shown = MAPPINGS[kind]()
    of_the_frame = shown if made else None  # what a function holds is copied for each side, and a proxy is not

    def setup() -> None:
        for key in set(shown) - {"a", "b"}:
            del shown[key]

    for operation in OPERATIONS:

        def f(x: torch.Tensor, proxy: Any, operation: Callable[[Any], Any] = operation) -> Any:
            return x + 1, operation(proxy if of_the_frame is None else MappingProxyType(of_the_frame))

        assert_same_as_eager(f, torch.ones(2), MappingProxyType(shown), setup=setup, observe=lambda: dict(shown))


@pytest.mark.parametrize("kind", ["dict", "OrderedDict", "defaultdict", "__dict__"])
def test_it_shows_later_changes(kind: str) -> None:
    """A proxy is a view: what is stored behind it after it was made is there."""

    def f(x: torch.Tensor) -> Any:
        shown = MAPPINGS[kind]()
        proxy = MappingProxyType(shown)
        keys = proxy.keys()
        shown["c"] = x + 1
        del shown["a"]
        return proxy["c"] * 2, list(proxy), list(keys), "a" in proxy, len(proxy), proxy, shown

    assert_same_as_eager(f, torch.ones(2), calls=2, graphs=1, breaks=0)


def test_it_shows_later_attributes() -> None:
    """What is stored in the object is seen through a proxy of its `__dict__`."""

    def f(x: torch.Tensor) -> Any:
        thing = Plain()
        proxy = MappingProxyType(vars(thing))
        thing.c = x + 1  # type: ignore[attr-defined]
        del thing.a
        return proxy["c"] * 2, list(proxy), "a" in proxy

    assert_same_as_eager(f, torch.ones(2), calls=2, graphs=1, breaks=0)


@pytest.mark.parametrize("kind", [lambda: OrderedDict(a=1), lambda: defaultdict(list, a=1), lambda: {"a": 1}])
@pytest.mark.parametrize("through", ["dict", "other proxy", "missing"])
def test_a_change_of_what_is_behind_it_is_seen(kind: Callable[[], Any], through: str) -> None:
    """The proxy and the mapping are both passed in: they have one tracker, or the graph breaks."""

    def f(x: torch.Tensor, proxy: Any, other: Any, mapping: Any) -> Any:
        before = proxy["a"]
        if through == "missing" and type(mapping) is defaultdict:
            proxy["new"].append(1)
            return x + before, other["new"], len(mapping)
        mapping["a"], mapping["b"] = 7, x + before
        seen = other if through == "other proxy" else proxy
        return x + seen["a"], seen["b"] * 2, "b" in seen, len(seen)

    outcomes = []
    for engine in (lambda fn: fn, dynexplore.optimize("eager")):
        mapping = kind()
        optimized = engine(f)
        answers = [optimized(torch.ones(2), MappingProxyType(mapping), MappingProxyType(mapping), mapping) for _ in range(2)]
        unrelated = kind()
        answers.append(optimized(torch.ones(2), MappingProxyType(kind()), MappingProxyType(unrelated), unrelated)
                       if through == "other proxy" else None)
        outcomes.append(str((answers, mapping)))
    assert outcomes[0] == outcomes[1]
    assert dynexplore.counters["stats"]["graphs"] > 0
