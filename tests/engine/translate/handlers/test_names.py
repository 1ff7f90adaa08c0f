"""Names that stand for two things: the variable of an inlined comprehension, and one of the frame or of its closure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager


def free_variable_of_callees(x):
    i = 1

    def pure():
        [i for i in range(3)]
        return i

    def breaks(y):
        z = y + i
        items = [i for i in range(3)]
        dynexplore.graph_break()
        return z * 2 + i, items

    return x + 1, pure(), breaks(x)


def parameter_of_the_function_around(x, k=3):
    def breaks(y):
        z = y + k
        items = [k * z for k in range(3)]
        dynexplore.graph_break()
        return z * 2 + k, items, [k for k in range(2)]

    return (*breaks(x), x * 2)


def cell_of_the_frame(x, k=3):
    return x + k, [k for k in range(k)], (lambda: k)()


def cell_over_a_break(x, k=3):
    items = [k for k in range(k)]
    dynexplore.graph_break()
    return x + k, items, (lambda: k)(), [k * x for k in range(2)]


@pytest.mark.parametrize(
    "program", [free_variable_of_callees, parameter_of_the_function_around, cell_of_the_frame, cell_over_a_break]
)
def test_the_variable_of_a_comprehension_is_called_like_another(program: Callable[..., Any]) -> None:
    """From Python 3.12 on both are in one frame; neither is taken for the other, nor for a bug of the engine."""
    assert_same_as_eager(program, torch.ones(2), calls=2)
