"""What Python refuses by the types of its operands, in Python's words; and what a capture does not ask the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)
LOG: list[str] = []


class Named(dict):
    """A dict by another name."""


class Listed(list):
    """A list by another name."""


class Bare:
    """Neither iterable nor a number."""


def stars():
    return [*None]  # type: ignore[misc]


def stars_of_an_int():
    return (1, *3)  # type: ignore[misc]


def merges():
    return {**3}  # type: ignore[misc]


def looks_in():
    return 1 in Bare()  # type: ignore[operator]


def unpacks():
    _a, _b = 3  # type: ignore[misc]


def two_for_a_dict():
    return Named(1, 2)  # type: ignore[call-arg]


def two_for_a_list():
    return Listed([1], [2])  # type: ignore[call-arg]


def adds():
    return Named() + 1  # type: ignore[operator]


def adds_the_other_way():
    return 1 + Named()  # type: ignore[operator]


def orders():
    return Named() < 3  # type: ignore[operator]


REFUSED = [
    stars, stars_of_an_int, merges, looks_in, unpacks, two_for_a_dict, two_for_a_list, adds, adds_the_other_way, orders,
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda fn: fn.__name__)
def test_what_python_refuses_has_its_words(refused: Any) -> None:
    """The message of a TypeError that the program catches is CPython's."""

    def fn(x):
        try:
            refused()
        except TypeError as error:
            return x + 1, str(error)
        return x, ""

    assert_same_as_eager(fn, X, graphs=1, breaks=0)


class Listening:
    """Hears of each look at its attributes."""

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)


class ListeningDict(dict):
    """The same of a dict."""

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)


GIVEN = [Listening(), ListeningDict()]


@pytest.mark.parametrize("place", [0, 1])
def test_a_capture_does_not_ask_an_object_for_its_class(place: int) -> None:
    """`__getattribute__` of the program hears only of what the program looks at: isinstance would ask for `__class__`."""

    def fn(x):
        given = GIVEN[place]
        return (x + 1) if given is not None else x

    assert_same_as_eager(fn, X, setup=LOG.clear, observe=lambda: list(LOG), calls=2, graphs=1, breaks=0)


class ModuleWithHook(torch.nn.Module):
    """A module whose `__getattribute__` learns first that a parameter is no plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def __getattribute__(self, name: str) -> Any:
        try:
            return super().__getattribute__(name)
        except AttributeError:
            if name in ("weight", "absent"):
                LOG.append(name)
            raise

    def forward(self, x):
        try:
            self.absent
        except AttributeError as error:
            return x * self.weight, str(error)
        return x, ""


def test_a_module_with_a_hook_asks_its_registries_last() -> None:
    """`__getattr__` of nn.Module answers, or says what is missing, when the program's `__getattribute__` has raised."""
    assert_same_as_eager(ModuleWithHook(), X, setup=LOG.clear, observe=lambda: list(LOG), graphs=1, breaks=0)


class Upper:
    """`super()` of a function inside a method takes that function's first argument."""

    def scaled(self, x):
        def inner(y):
            try:
                return super().scaled(y)  # type: ignore[misc]
            except TypeError as error:
                return y + 1, str(error)

        return inner(x)


def test_super_of_an_unrelated_object_has_the_words_of_this_python() -> None:
    """Python 3.13 names the object's type."""
    assert_same_as_eager(lambda x: Upper().scaled(x), X, graphs=1, breaks=0)


@pytest.mark.parametrize("call", [
    lambda: spread_into(*3), lambda: spread_into(**3), lambda: max(*3), lambda: spread_into(*[1], *3),
])
def test_what_cannot_be_spread_names_the_callee(call: Callable[[], Any]) -> None:
    """`f(*3)` says whose argument it was."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        try:
            call()
        except TypeError as error:
            return x * 2, str(error)
        return x, ""

    assert_same_as_eager(program, torch.ones(3), graphs=range(1, 3))


def spread_into(*args: Any, **kwargs: Any) -> None:
    """Takes anything."""


class Base:
    label = "the base's"


class Asks(Base):
    """Nested functions have the cell of the class, and whatever first argument they are given."""

    def ask(self, x):
        def inner(first):
            self.found = getattr(super(), "label", "nothing")
            return self.found, getattr(super(), "__self__", "no key"), getattr(super(Asks, first), "label", "nothing")

        return x + 1, inner(self), inner(None), getattr(super(Asks), "label", "nothing"), self.found


    def own(self, x):
        made = super()
        return x + 1, made.__self__ is self, made.__thisclass__ is Asks, made.__self_class__ is type(self), hasattr(made, "__get__")


def test_a_super_object_has_attributes_of_its_own() -> None:
    """They are asked when no class has the name."""
    assert_same_as_eager(type("Below", (Asks,), {})().own, torch.ones(2), calls=2)


def test_super_of_none_is_unbound() -> None:
    """CPython takes None for no object: the super object then has its own attributes, and raises nothing."""
    assert_same_as_eager(Asks().ask, torch.ones(2), calls=2)
