"""Operators in place whose result does not fit: what is known of their shapes, held against what torch itself refuses."""

from __future__ import annotations

import pytest
import torch

from dynexplore.engine.graph.inplace_shape_checks import check_inplace_shape
from engine_checks import assert_same_as_eager

aten = torch.ops.aten
OPERATORS = {
    operator.name(): operator
    for operator in (
        aten.add_.Tensor, aten.eq_.Tensor, aten.copysign_.Tensor, aten.pow_.Tensor, aten.clamp_.Tensor, aten.atan2_.default,
        aten.logical_and_.default, aten.masked_fill_.Scalar, aten.floor_divide_.Tensor,
    )
}  # fmt: skip
SHAPES = [(), (1,), (3,), (1, 3), (2, 3), (2, 1), (0,), (2, 1, 3)]


def _beside(operator, shape):
    return (torch.ones(shape) > 0, 1.0) if operator is aten.masked_fill_.Scalar else (torch.ones(shape),)


@pytest.mark.plain("asks what torch refuses, below what `disable` switches off")
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_it_refuses_what_torch_refuses(operator):
    """Of all pairs of a few shapes: as many, and those."""
    for written in SHAPES:
        for other in SHAPES:
            outcomes = []
            for call in (operator, lambda *args: check_inplace_shape(operator, args, {})):
                try:
                    call(torch.ones(written), *_beside(operator, other))
                    outcomes.append("fits")
                except RuntimeError:
                    outcomes.append("does not")
            assert outcomes[0] == outcomes[1], (written, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_size_that_varies_fits_or_does_not(backend):
    """What was refused for one size is asked again for another."""

    def fn(x, y):
        try:
            return (x * 2).copysign_(y).sum()
        except RuntimeError as error:
            return str(error)

    calls = [(torch.ones(rows), -torch.ones(columns)) for rows, columns in ((2, 2), (3, 3), (3, 1), (1, 3), (4, 4))]
    first, *then = calls
    assert_same_as_eager(fn, *first, then=then, backend=backend, gradients=False)
