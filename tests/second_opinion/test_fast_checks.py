"""A glance says "right" of most steps, and only of those of which the long look says it, too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from second_opinion.planted import flagged_by_handler, recorded
from torch import nn

from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor import TensorMethodVariable
from dynexplore.second_opinion import fast_checks, step_checker
from dynexplore.second_opinion.before_step import state_before
from dynexplore.second_opinion.deferred_checks import CheckedStep
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
def test_what_a_glance_says_the_long_look_says_too(monkeypatch, fn):
    """Of every step that is right at a glance the long look finds nothing wrong, and most steps are."""
    told: list[bool] = []
    wrong: list[Any] = []
    glance = fast_checks.is_right

    def both(step: Any, frame: Any, before: Any, bound: Any, made: Any, journal: Any) -> bool:
        right = glance(step, frame, before, bound, made, journal)
        told.append(right)
        if right:
            found = verdict(CheckedStep(step, frame, before, frame.stack, bound, made, False, state_before(frame, step), journal))
            if found is not None:
                wrong.append((step, found))
        return right

    monkeypatch.setattr(step_checker.fast_checks, "is_right", both)
    assert recorded(fn, X).divergences == ()
    assert wrong == []
    assert sum(told) > 0.5 * len(told) > 5


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
def test_a_wrong_step_is_not_right_at_a_glance(op, handler, fn):
    """A planted wrong handler is flagged at its step, though its instruction is one of those that are glanced at."""
    found, step = flagged_by_handler(op, handler, fn, X)
    assert step.op == op
    assert found.expected != found.actual
