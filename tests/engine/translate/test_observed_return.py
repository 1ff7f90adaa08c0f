"""What a callee held while the graph broke in it ends when it returns, before the next line of its caller, as in eager."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

EVENTS: list[str] = []
KEPT: list[Any] = []
X = torch.ones(3)


class Ends:
    """An object whose end is noted."""

    def __init__(self, name: str, part: object = None) -> None:
        self.name = name
        self.part = part

    def __del__(self) -> None:
        EVENTS.append(self.name)


class Plain:
    """An object that only a weak reference watches."""

    part: object = None


@dynexplore.disable
def finalized() -> Any:
    """Its class has a `__del__`."""
    return Ends("ended")


@dynexplore.disable
def watched() -> Any:
    """A weak reference to it has a callback."""
    target = Plain()
    KEPT.append(weakref.ref(target, lambda _: EVENTS.append("ended")))
    return target


@dynexplore.disable
def kept(value: Any) -> Any:
    """Something else refers to the object, too."""
    KEPT.append(value)
    return value


@dynexplore.disable
def note(event: str) -> None:
    """Note it at once."""
    EVENTS.append(event)


Make = Callable[[], Any]


def local(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A local variable."""
    observed = make()
    x = x + 1
    print("break")
    return x * 2 + (observed is not None)


def unused(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A local variable that nothing reads."""
    observed = make()
    x = x + 1
    print("break")
    return x * 2


def in_cell(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A cell, and a closure over it."""
    observed = make()

    def is_there() -> bool:
        return observed is not None

    x = x + 1
    print("break")
    return x * 2 + is_there()


def in_closure(x: torch.Tensor, make: Make) -> torch.Tensor:
    """Only a closure holds it."""
    is_there = (lambda observed: lambda: observed is not None)(make())
    x = x + 1
    print("break")
    return x * 2 + is_there()


def in_list(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A list and a local variable."""
    observed = make()
    values = [observed, observed]
    x = x + 1
    print("break")
    return x * 2 + len(values)


def in_attribute(x: torch.Tensor, make: Make) -> torch.Tensor:
    """An attribute of a new object."""
    owner = Plain()
    owner.part = make()
    x = x + 1
    print("break")
    return x * 2 + (owner.part is not None)


def on_stack(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A value on the stack while the graph breaks."""
    x = x + 1
    pair = (x * 2, make(), print("break"))
    return pair[0] * 2


def made_behind(x: torch.Tensor, make: Make) -> torch.Tensor:
    """A local variable that another break behind the first creates."""
    x = x + 1
    print("break")
    observed = make()
    return x * 2 + (observed is not None)


def argument(x: torch.Tensor, make: Make) -> torch.Tensor:
    """An argument that only the callee holds."""
    return taking(x * 2, make())


def taking(x: torch.Tensor, observed: Any) -> torch.Tensor:
    """Break while the argument is held."""
    x = x + 1
    print("break")
    return x * 2 + (observed is not None)


CALLEES = [local, unused, in_cell, in_closure, in_list, in_attribute, on_stack, made_behind, argument]


def at_depth(callee: Callable[..., Any], depth: int) -> Callable[..., Any]:
    """A function that calls the callee through so many others, and notes what comes behind each call."""

    def caller(x: torch.Tensor, make: Make) -> torch.Tensor:
        x = callee(x * 3, make)
        EVENTS.append(f"behind the call in {depth}")
        return x + 1

    if depth == 1:
        return caller
    return renamed(at_depth(caller, depth - 1), depth)


def renamed(function: Callable[..., Any], depth: int) -> Callable[..., Any]:
    """With code of its own: a code object twice in a chain does not nest."""
    function.__code__ = function.__code__.replace(co_name=f"caller_{depth}")
    return function


def start() -> None:
    """Before each call."""
    EVENTS.clear()
    KEPT.clear()


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize(("callee", "make"), list(itertools.product(CALLEES, [finalized, watched])))
def test_ends_before_the_next_line_of_the_caller(callee: Callable[..., Any], make: Make, depth: int) -> None:
    """Whatever holds the object, and however deep the callee is."""
    assert_same_as_eager(at_depth(callee, depth), X, make, calls=2, setup=start, observe=lambda: list(EVENTS))


def test_weakly_referenced_tensor() -> None:
    """A weak reference with a callback to a tensor that the callee holds."""

    def callee(x: torch.Tensor) -> torch.Tensor:
        weights = torch.ones(3)
        watch(weights)
        return x * 2 + weights.sum()

    @dynexplore.disable
    def watch(value: Any) -> None:
        KEPT.append(weakref.ref(value, lambda _: EVENTS.append("ended")))

    def caller(x: torch.Tensor) -> torch.Tensor:
        y = callee(x * 3)
        note("behind the call")
        return y + 1

    assert_same_as_eager(caller, X, calls=2, setup=start, observe=lambda: list(EVENTS))


def test_what_something_else_holds_is_not_released() -> None:
    """The rest of the callee and its caller stays one graph."""

    def callee(x: torch.Tensor) -> torch.Tensor:
        shared = kept(Plain())
        return x * 2 + (shared is not None)

    def caller(x: torch.Tensor) -> torch.Tensor:
        return callee(x * 3) + 1

    assert_same_as_eager(caller, X, graphs=2, breaks=1, calls=2, setup=start)


def returns_it(x: torch.Tensor, make: Make) -> Any:
    """The result is the object."""
    observed = make()
    return x * 2, observed


def caller_of_it(x: torch.Tensor, make: Make) -> torch.Tensor:
    """The object lives on in the caller."""
    y, observed = returns_it(x * 3, make)
    EVENTS.append("behind the call")
    return y + (observed is not None)


def test_what_the_callee_returns_is_not_released() -> None:
    """It ends with the caller, whose graph is that of the callee."""
    assert_same_as_eager(
        caller_of_it, X, finalized, graphs=2, breaks=1, calls=2, setup=start, observe=lambda: list(EVENTS)
    )  # fmt: skip
