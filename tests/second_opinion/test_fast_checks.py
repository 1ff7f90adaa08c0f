"""A fast check passes most steps, and only those that the full check passes too; moves are checked by their opcode's words."""

from __future__ import annotations

import contextlib
import operator
import types
from typing import Any

import pytest
import torch
from second_opinion.planted import first_of, flagged_by_handler, recorded
from torch import nn

import dynexplore
from dynexplore.engine.bytecode import OPCODES, Step
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorMethodVariable
from dynexplore.second_opinion import fast_checks, step_checker
from dynexplore.second_opinion.before_step import state_before
from dynexplore.second_opinion.deferred_checks import CheckedStep
from dynexplore.second_opinion.large_containers import LargeContainers
from dynexplore.second_opinion.opcode_checks import verdict

X = torch.arange(6.0).reshape(2, 3)
SCALE = 2.0


class Block(nn.Module):
    """A module with some of everything that a forward does."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.factor = 3

    def forward(self, x, mask=None):
        seen = []
        for layer in self.layers:
            if mask is None:
                x = layer(x).relu() * self.factor + SCALE
            seen.append(x)
        (a, b), kept = seen, {"sum": torch.add(seen[0], seen[1])}
        return a - b if x.ndim > 1 else b, kept["sum"]


def branches(x, flag=True):
    y = x + 1 if flag else x - 1
    return y.clamp(min=1, max=len([y, x])) > 2


@pytest.mark.parametrize("fn", [Block(), branches], ids=["module", "function"])
def test_what_passes_a_fast_check_passes_the_full_check(monkeypatch, fn):
    """In a step that a fast check passes the full check finds nothing wrong, and most steps are such."""
    passed: list[bool] = []
    wrong: list[Any] = []
    fast_check = fast_checks.is_right

    def both(step: Any, frame: Any, before: Any, local: Any, made: Any, journal: Any) -> bool:
        is_right = fast_check(step, frame, before, local, made, journal)
        passed.append(is_right)
        if is_right:
            large = LargeContainers(journal)
            state = state_before(frame, step, large)
            answer = verdict(CheckedStep(step, frame, before, frame.stack, local, made, False, state, journal, large))
            if answer is not None:
                wrong.append((step, answer))
        return is_right

    monkeypatch.setattr(step_checker.fast_checks, "is_right", both)
    assert recorded(fn, X).divergences == ()
    assert wrong == []
    assert sum(passed) > 0.5 * len(passed) > 5


def load_one_more(frame, step, ctx):
    value = step.arg
    frame.push(ConstantVariable(value + 1 if type(value) is float else value))


def load_another_method(frame, step, ctx):
    frame.push(TensorMethodVariable(frame.pop(), "tanh"))


def add_in_any_case(frame, step, ctx):
    right, left = frame.pop(), frame.pop()
    frame.push(ctx.operation("call_function", torch.add, [left, right], {}))


def jump_the_other_way(frame, step, ctx):
    if frame.pop().truth(ctx):
        frame.jump(step.target)


@pytest.mark.parametrize(
    ("op", "handler", "fn"),
    [
        ("LOAD_CONST", load_one_more, lambda x: x * 2.5),
        ("LOAD_ATTR", load_another_method, lambda x: x.relu()),
        ("BINARY_OP", add_in_any_case, lambda x: x * x),
        ("POP_JUMP_IF_FALSE", jump_the_other_way, lambda x: x + 1 if x.ndim == 2 else x - 1),
    ],
    ids=["a constant", "a method", "an operator", "a jump"],
)
def test_a_wrong_step_passes_no_fast_check(op, handler, fn):
    """A planted wrong handler is flagged at its step, though its instruction has a fast check."""
    divergence, step = flagged_by_handler(op, handler, fn, X)
    assert step.op == op
    assert divergence.expected != divergence.actual


# -- moves -------------------------------------------------------------------------------------------------------------


def duplicate(frame, step, ctx):
    frame.push(frame.stack[-1])


def turn_all_around(frame, step, ctx):
    frame.stack.reverse()


def drop_the_one_below(frame, step, ctx):
    del frame.stack[-2]


def leave_all_as_it_is(frame, step, ctx):
    """Does nothing."""


def push_none(frame, step, ctx):
    frame.push(ConstantVariable(None))


def copy_the_one_below(frame, step, ctx):
    frame.push(frame.stack[-step.arg - 1])


def move_the_top_down(frame, step, ctx):
    frame.stack.insert(len(frame.stack) - step.arg, frame.pop())


def drop_for_the_next(frame, step, ctx):
    frame.pop()
    frame.push(ConstantVariable(None))


class Stack:
    """As much of a frame as a move needs."""

    def __init__(self, values):
        self.stack = list(values)
        self.returned = None
        self.pc = 0

    def push(self, value):
        self.stack.append(value)

    def pop(self):
        return self.stack.pop()


WRONG_MOVES = [
    ("NOP", None, turn_all_around),
    ("NOP", None, push_none),
    ("POP_TOP", None, drop_the_one_below),
    ("POP_TOP", None, drop_for_the_next),
    ("PUSH_NULL", None, push_none),
    ("PUSH_NULL", None, duplicate),
    ("COPY", 1, copy_the_one_below),
    ("COPY", 2, copy_the_one_below),
    ("COPY", 2, turn_all_around),
    ("SWAP", 2, turn_all_around),
    ("SWAP", 3, move_the_top_down),
    ("SWAP", 3, turn_all_around),
]


NOT_RESUMED: Any = types.SimpleNamespace(resume=None)
"""All of the interpreter that a move looks at."""


def checked_move(op, arg, handler):
    """Whether a handler of a move passes the fast check, and the verdict of the full check."""
    values = [ConstantVariable(name) for name in "abcd"]
    frame, step = Stack(values), Step(op, arg, None, 0)
    handler(frame, step, NOT_RESUMED)
    passes = fast_checks.is_right(step, frame, values, None, (), Journal())
    journal = Journal()
    large = LargeContainers(journal)
    return passes, verdict(CheckedStep(step, frame, values, frame.stack, None, (), False, {}, journal, large))


@pytest.mark.plain("calls the checks on a stack that is made by hand")
@pytest.mark.parametrize(("op", "arg", "handler"), WRONG_MOVES, ids=[f"{op}-{arg}-{f.__name__}" for op, arg, f in WRONG_MOVES])
def test_a_wrong_move_is_flagged(op, arg, handler):
    """A handler that leaves other values, or the same in another order, passes neither check; the right one passes both."""
    assert {name for name, _, _ in WRONG_MOVES} == {row.name for row in OPCODES.values() if row.only_moves}
    assert checked_move(op, arg, dispatch.HANDLERS[op]) == (True, None)
    passes, answer = checked_move(op, arg, handler)
    assert not passes
    assert answer is not None


def between(x, low=1, high=3):
    return x + 1 if low < x.ndim < high else x


def calls(x):
    add_one = lambda value: value + 1
    return add_one(x)


def drops(x):
    x.abs()
    return x * 2


PLANTED_MOVES = [
    ("SWAP", leave_all_as_it_is, between, (X,)),
    ("COPY", duplicate, between, (X,)),
    ("POP_TOP", leave_all_as_it_is, drops, (X,)),
    ("PUSH_NULL", push_none, calls, (X,)),
]


@pytest.mark.parametrize(("op", "handler", "fn", "args"), PLANTED_MOVES, ids=[row[0] for row in PLANTED_MOVES])
def test_a_wrong_move_is_flagged_at_its_step(op, handler, fn, args):
    """The first divergence of a program stands at the move that went wrong, whatever it leads to afterwards."""
    assert recorded(fn, *args).divergences == ()
    dynexplore.reset()
    with dispatch.override(op, handler), dynexplore.explain(fn) as watched:
        with contextlib.suppress(Exception):
            watched(*args)
        recording = watched.explanation.recording
    divergence, step = first_of(recording)
    assert step.op == op
    assert divergence.expected != divergence.actual


def lose_what_lies_below(frame, step, ctx):
    right, left = frame.pop(), frame.pop()
    frame.stack.reverse()
    frame.push(ctx.operation("call_function", operator.add, [left, right], {}))


def test_what_lies_below_the_operands_stays():
    """An instruction that computes the right value and disturbs what lies below its operands is flagged."""
    divergence, step = flagged_by_handler("BINARY_OP", lose_what_lies_below, lambda x: (x, 3, x + 2), X)
    assert (step.op, divergence.aspect) == ("BINARY_OP", "value on the stack")
