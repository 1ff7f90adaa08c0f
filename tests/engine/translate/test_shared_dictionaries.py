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
