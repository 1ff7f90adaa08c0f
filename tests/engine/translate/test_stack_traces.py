"""A traceback through compiled code has the frames, lines and columns that eager has.

Theme: what a program sees of its own frames when an exception passes (native/tail_call.c, translate/resume.py,
translate/graph_call.py). `assert_same_as_eager` compares each traceback entry by entry, and those of contexts and causes.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.errors import BackendCompilerError
from engine_checks import assert_same_as_eager

X = torch.ones(3)


class Refused(Exception):
    """Raised by the programs below."""


def refuse(value: object) -> None:
    raise Refused(value)


def breaks_then_refuses(x):
    x = x + 1
    dynexplore.graph_break()
    return refuse(x.sum())


@contextlib.contextmanager
def announced(name: str) -> Iterator[str]:
    try:
        yield name
    except Refused as error:
        raise LookupError(name) from error


# -- programs, each of which raises or handles ------------------------------------------------------------------


def after_one_break(x):
    y = x + 1
    dynexplore.graph_break()
    y = y * 2
    raise ValueError(y.sum())


def after_three_breaks(x):
    y = x + 1
    dynexplore.graph_break()
    y = y * 2
    dynexplore.graph_break()
    y = y - 3
    dynexplore.graph_break()
    return refuse(y.sum())


def at_the_broken_instruction(x):
    y = x + 1
    return y, refuse(y.sum())


def in_a_loop(x):
    for round in range(4):
        x = x + round
        dynexplore.graph_break()
        if round == 2:
            refuse(x.sum())
    return x


def in_nested_loops(x):
    for outer in range(2):
        for inner in range(3):
            x = x + outer * inner
            dynexplore.graph_break()
            if outer and inner == 1:
                x = x + refuse(inner)
    return x


def in_a_callee(x):
    y = x * 2
    z = breaks_then_refuses(y)
    return y + z


def in_a_callee_of_a_callee(x):
    def middle(x):
        y = in_a_callee(x + 1)
        return y * 2

    return middle(x) + 1


def in_a_lambda_of_a_comprehension(x):
    dynexplore.graph_break()
    return [call(x) for call in (lambda x: x + 1, lambda x: refuse(x.sum()))]


def caught_and_kept(x):
    y = x + 1
    try:
        dynexplore.graph_break()
        y = y * 2
        refuse(y.sum())
    except Refused as error:
        dynexplore.graph_break()
        return y + 1, traceback.extract_tb(error.__traceback__)[0].lineno


def caught_and_raised_again(x):
    y = x + 1
    try:
        dynexplore.graph_break()
        refuse(y.sum())
    except Refused:
        dynexplore.graph_break()
        raise


def caught_and_another_raised(x):
    y = x + 1
    try:
        breaks_then_refuses(y)
    except Refused:
        y = y + 1
        dynexplore.graph_break()
        raise ValueError("another one")


def caught_and_raised_from(x):
    y = x + 1
    try:
        breaks_then_refuses(y)
    except Refused as error:
        dynexplore.graph_break()
        raise ValueError("because of that") from error


def caught_and_hidden(x):
    try:
        breaks_then_refuses(x)
    except Refused:
        raise ValueError("only this one") from None


def through_finally(x):
    y = x + 1
    try:
        dynexplore.graph_break()
        refuse(y.sum())
    finally:
        dynexplore.graph_break()
        y.add_(1)


def through_finally_that_raises(x):
    try:
        dynexplore.graph_break()
        refuse(x.sum())
    finally:
        dynexplore.graph_break()
        raise KeyError("in finally")


def through_with(x):
    with announced("block"):
        y = x + 1
        dynexplore.graph_break()
        refuse(y.sum())
    return x


def through_no_grad(x):
    with torch.no_grad():
        y = x + 1
        dynexplore.graph_break()
        y = y * 2
        refuse(y.sum())
    return y


def in_a_loop_with_try(x):
    caught = []
    for round in range(4):
        try:
            x = x + round
            dynexplore.graph_break()
            if round % 2:
                refuse(round)
        except Refused as error:
            caught.append([(at.name, at.lineno) for at in traceback.extract_tb(error.__traceback__)])
    if caught:
        raise ValueError(caught)
    return x


def in_a_generator(x):
    def numbers(x):
        yield x + 1
        dynexplore.graph_break()
        yield refuse(x.sum())

    return sum(numbers(x * 2))


def in_a_method(x):
    class Layer:
        def __init__(self, weight):
            self.weight = weight

        def __call__(self, x):
            dynexplore.graph_break()
            return self.apply(x * self.weight)

        def apply(self, x):
            dynexplore.graph_break()
            return refuse(x.sum())

    return Layer(2)(x)


def with_a_group(x):
    y = x + 1
    errors = []
    for number in range(2):
        try:
            breaks_then_refuses(y + number)
        except Refused as error:
            errors.append(error)
    dynexplore.graph_break()
    raise ExceptionGroup("both", errors)


def with_a_group_split(x):
    try:
        with_a_group(x)
    except* Refused as group:
        dynexplore.graph_break()
        raise ValueError(len(group.exceptions)) from group
    return x


def an_operator_that_fails(x):
    y = x + 1
    index = torch.full((2,), 7)
    return y[index] * 2


def an_operator_that_fails_after_a_break(x):
    y = x + 1
    dynexplore.graph_break()
    index = (y.sum() + 7).long().reshape(1)
    z = torch.gather(y, 0, index)
    return z * 2


def an_operator_that_fails_in_a_callee(x):
    def pick(x, index):
        return torch.index_select(
            x,
            0,
            index,
        )

    y = x + 1
    return pick(y, torch.full((2,), 7)) * 2


def shapes_that_do_not_fit(x):
    y = x + 1
    dynexplore.graph_break()
    return y @ torch.ones(4, 2)


def a_missing_attribute(x):
    y = x + 1
    dynexplore.graph_break()
    return (
        y
        .no_such_method()
    )  # fmt: skip


def an_unbound_local(x):
    x = x * 2
    if x.dim() == 7:
        y = x
    dynexplore.graph_break()
    return y + x


def a_class_body(x):
    x = x * 2
    dynexplore.graph_break()

    class Odd:
        value = refuse(1)

    return x + Odd.value


def an_assertion(x):
    y = x * 2
    assert y.sum() < 0, y.sum()
    return y


def recursive(x, depth=3):
    x = x + depth
    dynexplore.graph_break()
    if depth == 0:
        refuse(x.sum())
    return recursive(x, depth - 1) + 1


PROGRAMS = [
    after_one_break,
    after_three_breaks,
    at_the_broken_instruction,
    in_a_loop,
    in_nested_loops,
    in_a_callee,
    in_a_callee_of_a_callee,
    in_a_lambda_of_a_comprehension,
    caught_and_kept,
    caught_and_raised_again,
    caught_and_another_raised,
    caught_and_raised_from,
    caught_and_hidden,
    through_finally,
    through_finally_that_raises,
    through_with,
    through_no_grad,
    in_a_loop_with_try,
    in_a_generator,
    in_a_method,
    with_a_group,
    with_a_group_split,
    an_operator_that_fails,
    an_operator_that_fails_after_a_break,
    an_operator_that_fails_in_a_callee,
    shapes_that_do_not_fit,
    a_missing_attribute,
    an_unbound_local,
    a_class_body,
    an_assertion,
    recursive,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_traceback_is_that_of_eager(program: Callable[..., Any], backend: str) -> None:
    """Where a compiled program raises, after breaks or in a graph, each traceback has eager's entries, call after call."""
    report = assert_same_as_eager(program, X, calls=3, backend=backend)
    assert report.graphs


class Block(torch.nn.Module):
    """Breaks, then raises in a submodule."""

    def __init__(self, inner: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.inner = inner

    def forward(self, x):
        x = self.linear(x)
        dynexplore.graph_break()
        x = x + 1
        return refuse(x.sum()) if self.inner is None else self.inner(x)


def test_a_module_s_traceback_is_that_of_eager() -> None:
    """A module that is optimized shows its own frames, and none that only calls it."""
    report = assert_same_as_eager(Block(Block()), X, calls=2)
    assert report.graphs


def _closes_over_a_variable() -> Callable[..., Any]:
    factor = 3

    def scaled(x):
        dynexplore.graph_break()
        return x * factor

    return scaled


def _shares_a_variable(x):
    shift, kept = x + 1, []
    dynexplore.graph_break()
    kept.append(lambda: shift + x)
    return kept[0]() * 2


def _closes_over_a_variable_in_a_block() -> Callable[..., Any]:
    factor = 3

    def scaled(x):
        try:
            dynexplore.graph_break()
            return x * factor
        finally:
            x = None

    return scaled


@pytest.mark.parametrize(
    ("function", "name"),
    [(_closes_over_a_variable(), "factor"), (_closes_over_a_variable_in_a_block(), "factor"), (_shares_a_variable, "shift")],
)
def test_the_locals_of_a_frame_that_could_not_go_on_are_shown(function: Callable[..., Any], name: str) -> None:
    """What is raised while a resume function is compiled has a frame whose variables, those of closures too, can be read."""
    compiled: list[object] = []

    def fails_behind_the_break(graph: torch.fx.GraphModule, inputs: object) -> Any:
        compiled.append(graph)
        if len(compiled) > (function is _shares_a_variable):
            raise KeyError("planted")
        return graph.forward

    with pytest.raises(BackendCompilerError) as caught:
        dynexplore.optimize(fails_behind_the_break)(function)(X)
    shown = [entry.frame.f_locals for entry in caught.traceback if entry.name == function.__name__]
    assert [type(values.get(name)) for values in shown] == [type(function(X)) if name == "shift" else int]
