"""A change of a dictionary is seen through its other names: module and globals, object and `__dict__`, a window and its dict."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(2)
OF_A_MODULE = """
import holds_a_number

number = 0

def by_attribute(x, n):
    before = number
    holds_a_number.number = n
    return x * number + before, holds_a_number.number

def by_both(x, n):
    global number
    number = n
    between = holds_a_number.number
    holds_a_number.number = n + 1
    return x * number + between

def by_its_dictionary(x, n):
    before = number
    vars(holds_a_number)["number"] = n
    return x * number + before

def by_globals(x, n):
    before = number
    globals()["number"] = n
    return x * number + before

def by_a_functions_globals(x, n):
    before = number
    by_globals.__globals__["number"] = n
    return x * number + before

def other_names(x, n):
    holds_a_number.another = n
    return x * number + holds_a_number.another
"""


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A module of the program, whose functions change what is in it."""
    made = types.ModuleType("holds_a_number")
    sys.modules[made.__name__] = made
    exec(OF_A_MODULE, made.__dict__)
    yield made
    del sys.modules[made.__name__]


WAYS = ["by_attribute", "by_both", "by_its_dictionary", "by_globals", "by_a_functions_globals", "other_names"]


@pytest.mark.parametrize("name", WAYS)
def test_a_module_and_its_globals_are_one(module: Any, name: str) -> None:
    """What is assigned in one way is read in the other."""

    def calls(fn: Callable[..., Any]) -> list[Any]:
        module.number = 0
        return [fn(X, n) for n in (1, 2, 3)]

    eager = calls(getattr(module, name))
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager")(getattr(module, name)))) == repr(eager)
    assert graphs_compiled()


def test_other_names_of_a_module_are_in_one_graph(module: Any) -> None:
    """A global that is read, and another one that is assigned through the module: no break."""
    assert_same_as_eager(module.other_names, X, 1, graphs=1, breaks=0)


class Holder:
    def __init__(self) -> None:
        self.value = 1


def writes_the_dictionary(x: Any, held: Any, own: Any, n: int) -> Any:
    before = held.value
    own["value"] = n
    between = held.value
    held.value = n * 10
    return x * between + before, own["value"], len(own)


def writes_the_object(x: Any, held: Any, own: Any, n: int) -> Any:
    held.value = n
    held.another = n
    return x * own["value"], "another" in own


def function() -> None:
    """Has an attribute."""


@pytest.mark.parametrize("fn", [writes_the_dictionary, writes_the_object])
@pytest.mark.parametrize("kind", [Holder, nn.Identity, lambda: function], ids=["object", "module", "function"])
def test_attributes_and_their_dictionary_are_one(fn: Any, kind: Any) -> None:
    """`vars(held)` is an argument beside `held`."""

    def calls(fn: Callable[..., Any]) -> list[Any]:
        held = kind()
        held.value = 1
        vars(held).pop("another", None)
        return [fn(X, held, vars(held), n) for n in (1, 2, 3)]

    eager = calls(fn)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager")(fn))) == repr(eager)
    assert graphs_compiled()


def test_what_a_module_registers_and_its_registry_are_one() -> None:
    """A parameter is taken out of `_parameters`, which is an argument."""

    def takes_away(x: Any, layer: Any, registry: Any) -> Any:
        had = layer.bias is not None
        registry["bias"] = None
        return x + 1, had, layer.bias is None

    def calls(fn: Callable[..., Any]) -> list[Any]:
        layers = [nn.Linear(2, 2) for _ in range(2)]
        return [fn(X, layer, layer._parameters) for layer in layers]

    eager = calls(takes_away)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager")(takes_away))) == repr(eager)
    assert graphs_compiled()


def test_a_window_and_the_dict_behind_it_are_one() -> None:
    """A `MappingProxyType` shows what is assigned to the dict, and that of a class what is assigned to the class."""

    class Kind:
        value = 1

    def calls(fn_of: Callable[[Any], Any]) -> list[Any]:
        Kind.value = 1
        entries = {"value": 1}
        window, attributes = types.MappingProxyType(entries), Kind.__dict__

        def writes(x: Any, n: int) -> Any:
            before = window["value"] + attributes["value"]
            entries["value"] = entries[f"at {n}"] = n
            Kind.value = n
            return x * window["value"] + attributes["value"] + before, list(window)

        fn = fn_of(writes)
        return [fn(X, n) for n in (1, 2, 3)]

    eager = calls(lambda fn: fn)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager"))) == repr(eager)
    assert graphs_compiled()


# -- apart in the first call, one dictionary in a later one ----------------------------------------------------------


def changes_the_dictionary(x: Any, own: Any, held: Any) -> Any:
    own["value"] = own["value"] + 5
    return x * held.value, sorted(own) == sorted(vars(held))


def changes_the_attribute(x: Any, own: Any, held: Any) -> Any:
    held.value = held.value + 5
    return x * own["value"]


def finds_no_attribute(x: Any, own: Any, held: Any) -> Any:
    own["another"] = x
    return x * (2 if hasattr(held, "another") else 3)


def module_of_the_program() -> types.ModuleType:
    return types.ModuleType("of_the_program")


def calls_of_pairs(fn: Callable[..., Any], kind: Callable[[], Any]) -> list[Any]:
    """One dict and one holder, then a holder and its dictionary, then again two that are apart."""
    results = []
    for is_pair in (False, True, True, False):
        held = kind()
        held.value = 1
        results.append(fn(X, vars(held) if is_pair else {"value": 3}, held))
    return results


@pytest.mark.parametrize("fn", [changes_the_dictionary, changes_the_attribute, finds_no_attribute])
@pytest.mark.parametrize("kind", [Holder, nn.Identity, module_of_the_program], ids=["object", "nn module", "module"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_dict_that_is_a_holders_own_in_a_later_call(fn: Any, kind: Any, backend: str) -> None:
    """That a dict was not the one that keeps an object's attributes is guarded where one of the two is changed."""
    eager = calls_of_pairs(fn, kind)
    dynexplore.reset()
    assert repr(calls_of_pairs(dynexplore.optimize(backend)(fn), kind)) == repr(eager)
    assert graphs_compiled()


def test_a_dict_that_is_a_known_modules_registry_in_a_later_call() -> None:
    """A module of a closure counts its calls in a dict, which becomes its own, or that in which a layer registers."""

    def calls(fn_of: Callable[[Any], Any]) -> list[Any]:
        layer = nn.Linear(2, 2, bias=False)
        layer.counts = {}

        def counts(x: Any) -> Any:
            layer.counts["bias"] = None
            return x + 1, layer.bias is None, "bias" in layer.__dict__

        fn = fn_of(counts)
        results = [fn(X), fn(X)]
        for own in (layer._parameters, vars(layer), {}):
            layer.counts = own
            results.append(fn(X))
        return results

    eager = calls(lambda fn: fn)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager"))) == repr(eager)
    assert graphs_compiled()


GLOBALS = """
number = 1

def assigns(x, own):
    own["number"] = number + 5
    return x * number
"""


def test_a_dict_that_is_the_functions_globals_in_a_later_call() -> None:
    """The globals of the function itself are an argument, after a dict that they are not."""

    def calls(wrap: Callable[[Any], Any]) -> list[Any]:
        names: dict[str, Any] = {}
        exec(GLOBALS, names)
        fn = wrap(names["assigns"])
        return [fn(X, own) for own in ({}, names, {}, names)]

    eager = calls(lambda fn: fn)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager"))) == repr(eager)
    assert graphs_compiled()


def test_a_window_onto_the_dict_in_a_later_call() -> None:
    """A `MappingProxyType` shows another dict, or another class, in the first call."""

    def writes(x: Any, entries: Any, window: Any, cls: Any, attributes: Any) -> Any:
        entries["value"] += 5
        cls.value += 5
        return x * window["value"], attributes["value"]

    def calls(fn: Callable[..., Any]) -> list[Any]:
        first, second = type("First", (), {"value": 1}), type("Second", (), {"value": 2})
        results = []
        for cls, other in ((first, second), (first, first), (second, first), (second, second)):
            entries = {"value": 1}
            window = types.MappingProxyType(entries if cls is other else {"value": 3})
            results.append(fn(X, entries, window, cls, other.__dict__))
        return results

    eager = calls(writes)
    dynexplore.reset()
    assert repr(calls(dynexplore.optimize("eager")(writes))) == repr(eager)
    assert graphs_compiled()


def test_two_objects_that_share_their_attributes() -> None:
    """`second.__dict__ = first.__dict__`, in all calls or in later ones: what is assigned to one is read of the other."""

    def assigns(x: Any, first: Any, second: Any) -> Any:
        first.value = first.value + 5
        return x * second.value

    def calls(fn: Callable[..., Any], shared: tuple[bool, ...]) -> list[Any]:
        results = []
        for is_shared in shared:
            first, second = Holder(), Holder()
            if is_shared:
                second.__dict__ = first.__dict__
            results.append(fn(X, first, second))
        return results

    for shared in ((True, True, False), (False, False, True, True, False)):
        eager = calls(assigns, shared)
        dynexplore.reset()
        assert repr(calls(dynexplore.optimize("eager")(assigns), shared)) == repr(eager)
        assert graphs_compiled()


def changes_each(rows, holders, x):
    for row in rows:
        x = x * row["number"]
        row["seen"] = True
    for holder in holders:
        x = x + holder.number
    return x


def test_dicts_of_which_the_same_is_to_be_said_share_a_guard() -> None:
    """Each dict and each holder is looked at once in a call, however many they are; one of them that is another's own is heard."""

    def made(count: int) -> tuple[list[dict[str, Any]], list[Any]]:
        return [{"number": float(place)} for place in range(count)], [types.SimpleNamespace(number=1.0) for _ in range(count)]

    compiled = dynexplore.optimize("eager")(changes_each)
    rows, holders = made(4)
    assert torch.equal(compiled(rows, holders, X), changes_each(*made(4), X))
    guards = [guard.source for guard in dynexplore.explain(changes_each, *made(4), X).guards if guard.kind == "NO_DICT_ALIAS"]
    assert len(guards) == 1
    for place in range(4):
        rows, holders = made(4)
        rows[place] = vars(holders[3 - place])
        ours = compiled(rows, holders, X)
        assert "seen" in vars(holders[3 - place])
        rows, holders = made(4)
        rows[place] = vars(holders[3 - place])
        assert torch.equal(ours, changes_each(rows, holders, X))
