"""Checks that need real values, and how values without guards are compared."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.fx
from second_opinion.planted import first_of, recorded

from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.operators import binary
from dynexplore.second_opinion.deferred_checks import has_nodes, is_plain, same_constant


@pytest.mark.plain("compares two Python values")
@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (float("nan"), float("nan"), True),
        ((1, [2]), (1, [2]), True),
        (slice(1, 2), slice(1, 3), False),
    ],
)
def test_constants_are_the_same_for_a_program(left: Any, right: Any, same: bool) -> None:
    """Type and value, all the way down; NaN is NaN."""
    assert same_constant(left, right) is same


@pytest.mark.plain("asks what kind of value stands there")
def test_what_is_plain_and_what_needs_real_values() -> None:
    """Literals, dtypes and nests of them are plain; a nest with a node needs real values."""
    node = torch.fx.Graph().placeholder("x")
    assert is_plain((1, "a", slice(None, 2), torch.float32))
    assert not is_plain(operator.add)
    assert has_nodes([(1, slice(node, None))])
    assert not has_nodes([(1, slice(2, None))])


def test_a_step_that_makes_other_nodes_is_checked_on_real_values() -> None:
    """Two nodes in place of one are right when their values are, and flagged when they are not."""

    def in_two_steps(frame: Any, step: Any, ctx: Any) -> None:
        right, left = frame.pop(), frame.pop()
        frame.push(binary(ctx, "-", left, ctx.operation("call_function", operator.neg, [right], {})))

    def doubled(frame: Any, step: Any, ctx: Any) -> None:
        right, left = frame.pop(), frame.pop()
        frame.push(binary(ctx, "+", binary(ctx, "+", left, right), right))

    x = torch.ones(2)
    with dispatch.override("BINARY_OP", in_two_steps):
        right = recorded(lambda x: x + x, x)
    assert right.divergences == ()
    with dispatch.override("BINARY_OP", doubled):
        divergence, step = first_of(recorded(lambda x: x + x, x))
    assert (step.op, divergence.expected) == ("BINARY_OP", "2")
