"""A wrong handler of a load, a store, an operator, a jump or a call is flagged at its own step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_opinion.planted import first_of, recorded, toy

import dynexplore
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable


def subtracts(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(binary(ctx, {"+": "-"}.get(step.arg, step.arg), left, right))


def swaps_operands(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(compare(ctx, step.arg, right, left))


def loads_zero(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(ConstantVariable(0))


def loads_another_local(frame: Any, step: Any, ctx: Any) -> None:
    name = "a" if step.arg == "b" else step.arg
    frame.locals[name] = value = frame.locals[name].read(ctx)
    frame.push(value)


def stores_nothing(frame: Any, step: Any, ctx: Any) -> None:
    value = frame.pop()
    if step.arg == "x":
        value = frame.locals["a"]
    frame.locals[step.arg] = value


def turns_around(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(TupleVariable(frame.popn(step.arg)[::-1]))


def jumps_never(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()


def negates_nothing(frame: Any, step: Any, ctx: Any) -> None:
    """Leaves the operand as it is."""


def turns_the_arguments_around(frame: Any, step: Any, ctx: Any) -> None:
    args = frame.popn(step.arg[0])
    function = next(value for value in frame.popn(2) if value.kind != "null")
    frame.push(function.call(ctx, args[::-1], {}))


def takes_the_first(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()
    frame.push(frame.pop().get_item(ctx, ConstantVariable(0)))


def two_arguments(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.cat((a, b)) * 2


def branches(a: torch.Tensor, n: int) -> torch.Tensor:
    if n > 5:
        a = a + 1
    return a * 2


PLANTED = [
    ("BINARY_OP", "+", subtracts, toy, ()),
    ("BINARY_OP", "+", subtracts, lambda a, b: a * (len(b.shape) + 2), ()),
    ("COMPARE_OP", "<", swaps_operands, lambda a, b: torch.where(a < b, a, b), ()),
    ("LOAD_CONST", "1", loads_zero, toy, ()),
    ("LOAD_FAST", "b", loads_another_local, lambda a, b: a * 2 + b, ()),
    ("STORE_FAST", "x", stores_nothing, toy, ()),
    ("BUILD_TUPLE", "2", turns_around, two_arguments, ()),
    ("POP_JUMP_IF_FALSE", "", jumps_never, branches, (3,)),
    ("UNARY_OP", "neg", negates_nothing, lambda a, b: -a * b, ()),
    ("CALL", "", turns_the_arguments_around, lambda a, b: torch.sub(a, b), ()),
    ("BINARY_SUBSCR", "", takes_the_first, lambda a, b: a[1] + b, ()),
]


@pytest.mark.parametrize(
    ("op", "arg", "handler", "program", "more"), PLANTED, ids=[f"{row[0]}-{row[2].__name__}" for row in PLANTED]
)
def test_a_wrong_handler_is_flagged_at_its_step(
    op: str, arg: str, handler: Any, program: Callable[..., Any], more: tuple[Any, ...]
) -> None:
    """Whatever instruction is interpreted wrongly: the first divergence stands at that very step, and its rule is the handler."""
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])
    arguments = (a, *more) if more else (a, b)
    assert recorded(program, *arguments).divergences == ()
    dynexplore.reset()
    with dispatch.override(op, handler):
        recording = recorded(program, *arguments)
    divergence, step = first_of(recording)
    assert (divergence.where, step.op) == ("step", op)
    assert arg in step.arg
    assert step.rule.endswith(f" {handler.__name__}")
    assert divergence.offset == step.offset
    assert {one.step for one in recording.divergences if one.frame == divergence.frame and one.where == "step"} >= {divergence.step}


def test_a_wrong_in_place_operator_is_flagged() -> None:
    """`x += y` that subtracts: the operands are copied before they are written to."""

    def wrong(frame: Any, step: Any, ctx: Any) -> None:
        right, left = frame.pop(), frame.pop()
        frame.push(binary(ctx, {"+=": "-="}.get(step.arg, step.arg), left, right))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y += x
        return y

    with dispatch.override("BINARY_OP", wrong):
        recording = recorded(f, torch.ones(2))
    divergence, step = first_of(recording)
    assert (step.op, step.arg, divergence.expected) == ("BINARY_OP", "+=", "3")


def test_a_wrong_operator_on_sizes_is_flagged() -> None:
    """Symbolic numbers are computed again, too."""
    with dispatch.override("BINARY_OP", subtracts):
        recording = recorded(lambda x: x.sum() * (x.shape[0] + 2), torch.ones(5), dynamic=True)
    divergence, step = first_of(recording)
    assert (step.arg, divergence.expected, divergence.actual) == ("+", "7", "3")
