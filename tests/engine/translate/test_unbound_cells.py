"""Cell variables that are unbound: after a break, too, CPython says of them what it says in eager."""

# ruff: noqa: F821
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.before_and_after import seen

import dynexplore
from engine_checks import assert_same_as_eager

# mypy: disable-error-code="used-before-def, attr-defined, name-defined"


def deleted_before_a_break(x: Any) -> Any:
    v = x + 1
    later = lambda: v
    del v
    dynexplore.graph_break()
    return v, later


def deleted_after_a_break(x: Any) -> Any:
    v = x + 1
    later = lambda: v
    dynexplore.graph_break()
    del v
    return v, later


def deleted_twice(x: Any) -> Any:
    v = x + 1
    later = lambda: v
    dynexplore.graph_break()
    del v
    dynexplore.graph_break()
    del v
    return later


def read_where_it_is_free(x: Any) -> Any:
    v = x + 1
    later = lambda: v
    del v
    dynexplore.graph_break()
    return later()


def deleted_by_the_closure(x: Any) -> Any:
    def forget() -> None:
        nonlocal v
        dynexplore.graph_break()
        del v

    v = x + 1
    forget()
    dynexplore.graph_break()
    return v


def deleted_twice_by_the_closure(x: Any) -> Any:
    def forget() -> None:
        nonlocal v
        dynexplore.graph_break()
        del v
        dynexplore.graph_break()
        del v

    v = x + 1
    forget()


def bound_in_one_branch(x: Any) -> Any:
    later = lambda: v
    dynexplore.graph_break()
    if x.sum() > 100:
        v = 1
    return v, later


def name_of_a_handler(x: Any) -> Any:
    v: Any = x + 1
    later = lambda: v
    try:
        dynexplore.graph_break()
        raise ValueError("a")
    except ValueError as v:
        dynexplore.graph_break()
        x = x + 1
    dynexplore.graph_break()
    return v, later


def caught_in_a_loop(x: Any) -> Any:
    for v in range(3):
        later = lambda: v
        dynexplore.graph_break()
        del v
        try:
            later()
        except NameError as error:
            print(type(error), error)
        try:
            v
        except NameError as error:
            print(type(error), error)
    v = x + 1
    return later()


def argument(x: Any) -> Any:
    later = lambda: x
    del x
    dynexplore.graph_break()
    return x, later


def argument_in_a_closure(x: Any) -> Any:
    del x
    dynexplore.graph_break()
    later = lambda: x
    return later()


def changed_in_place(x: Any) -> Any:
    v = 1
    later = lambda: v
    dynexplore.graph_break()
    del v
    dynexplore.graph_break()
    v += 1
    return v, later


def in_a_comprehension(x: Any) -> Any:
    v = 1
    later = lambda: v
    del v
    print(x.sum().item())
    return [v for _ in range(2)], later


def bound_again(x: Any) -> Any:
    v = x + 1
    later = lambda: v
    del v
    dynexplore.graph_break()
    v = x + 2
    dynexplore.graph_break()
    return later(), v


@pytest.mark.parametrize("program", [
    deleted_before_a_break, deleted_after_a_break, deleted_twice, read_where_it_is_free, deleted_by_the_closure,
    deleted_twice_by_the_closure, bound_in_one_branch, name_of_a_handler, caught_in_a_loop, argument, argument_in_a_closure,
    changed_in_place, in_a_comprehension, bound_again,
])  # fmt: skip
def test_an_unbound_cell_is_spoken_of_as_in_eager(program: Callable[..., Any]) -> None:
    """A variable of the function itself is local, one of an enclosing function free; type, words and line agree."""
    without_tensors = (argument, argument_in_a_closure, changed_in_place)
    graphs = 0 if program in without_tensors else None
    report = assert_same_as_eager(program, torch.ones(3), then=[(torch.zeros(3),)], graphs=graphs)
    assert report.breaks


def kept_by_a_list(x: Any, later: list[Any]) -> Any:
    m = 2
    n = [3]
    later.append(lambda: (m, deeper()))
    deeper = lambda: n
    return x + 1


def test_a_closure_that_a_list_keeps_holds_its_variables() -> None:
    """The cells of a function that leaves the frame only through a list are written, and those of what they hold."""
    assert_same_as_eager(kept_by_a_list, torch.ones(2), [], then=[(torch.zeros(2), [])])
    seen: list[Any] = []
    dynexplore.optimize("eager")(kept_by_a_list)(torch.ones(2), seen)
    assert seen[0]() == (2, [3])


def test_a_variable_of_an_enclosing_function_is_bound_again() -> None:
    """That nothing was bound to it is relied on: in the frame's own closure, and in that of a function inside it."""
    n = 2

    def unbind() -> None:
        nonlocal n
        del n

    def bind() -> None:
        nonlocal n
        n = 4

    def times(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * n
        except NameError:
            return x * 100

    def inlines(x: torch.Tensor) -> torch.Tensor:
        return times(x)

    for program in (times, inlines):
        bind()
        seen(program, unbind, before=4, after=100)
        seen(program, bind, before=100, after=4)


def unbound_by_a_closure_or_not(x: Any, unbind: bool) -> Any:
    v = 2

    def change() -> None:
        nonlocal v
        dynexplore.graph_break()
        if unbind:
            del v
        else:
            v += 1

    change()
    try:
        return x * v
    except NameError as error:
        return x - 1, str(error)


def test_that_nothing_is_bound_is_relied_on_behind_a_break() -> None:
    """A function's own variable that is unbound behind a break in one call, and bound in the next."""
    x = torch.ones(2)
    assert_same_as_eager(unbound_by_a_closure_or_not, x, True, then=[(x, False), (x, True), (x, False)])
