"""Complex constants in a graph: torch.fx writes them as `repr` does, which for a negative zero is the text of another number."""

from __future__ import annotations

import ast
import math

import pytest
import torch

from dynexplore.engine.graph.constant_codegen import round_trippable_constant
from engine_checks import assert_same_as_eager

INFINITE, NONE = math.inf, math.nan
CONSTANTS = [
    complex(real, imag)
    for real in (0.0, -0.0, 1.0, -2.0, INFINITE, NONE)
    for imag in (0.0, -0.0, 3.0, -3.0, -INFINITE, NONE)
]  # fmt: skip


def parts_of(x, number):
    """The values, and the signs of their zeros, which comparing values does not tell."""
    made = torch.full((2,), number), x * number
    return made, [torch.view_as_real(one).signbit() & (torch.view_as_real(one) == 0) for one in made]


@pytest.mark.parametrize("number", CONSTANTS, ids=repr)
def test_a_complex_constant_keeps_its_parts(number):
    """Signed zeros, infinities and nan, of which `repr` writes an expression with another value or a name that is none."""
    assert_same_as_eager(parts_of, torch.ones(2), number, graphs=1, breaks=0)


def test_a_branch_cut_is_on_the_side_of_the_zero():
    """The square root of -1 is 1j or -1j, by the sign of the imaginary part's zero; the second number is another constant."""

    def root(x, number):
        return torch.full((2,), number).sqrt() * x

    assert_same_as_eager(root, torch.ones(2), complex(-1, -0.0), then=[(torch.ones(2), complex(-1, 0.0))])


@pytest.mark.plain("nothing is captured")
@pytest.mark.parametrize("number", (1j, 2 + 3j, -1 + 2j, -2j + 1), ids=repr)
def test_what_repr_writes_rightly_stays_as_it_is(number):
    """Graphs stay easy to read."""
    assert type(round_trippable_constant(number)) is complex and ast.literal_eval(repr(number)) == number
