"""`as_strided` behind the end of the memory: what is counted, held against what torch itself refuses."""

from __future__ import annotations

import itertools

import pytest
import torch

from dynexplore.engine.graph.storage_bounds import refuse_what_lies_outside
from engine_checks import assert_same_as_eager

aten = torch.ops.aten


@pytest.mark.plain("asks what torch refuses, below what `disable` switches off")
@pytest.mark.parametrize("x", [torch.ones(6), torch.ones(2, 3)[1], torch.ones(3, 4, dtype=torch.half).t(), torch.ones(0)], ids=str)
def test_it_refuses_what_torch_refuses(x):
    """Of all combinations of a few sizes, strides and offsets, in the same words."""
    all_sizes, all_strides = [(), (3,), (2, 3), (0, 9), (4, 2)], [(), (1,), (3, 1), (2, 2)]
    for sizes, strides, offset in itertools.product(all_sizes, all_strides, [None, 0, 2, 5]):
        if len(sizes) == len(strides):
            said = []
            for call in (aten.as_strided.default, lambda *args: refuse_what_lies_outside(aten.as_strided.default, args, {})):
                try:
                    call(x, sizes, strides, offset)
                    said.append("")
                except RuntimeError as error:
                    said.append(str(error))
            assert said[0] == said[1], (sizes, strides, offset)


def outside(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, str]:
    try:
        x.sin().as_strided((rows, 3), (3, 1), 1)
        return x * 2, "inside"
    except RuntimeError as error:
        return x * 3, str(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_places_that_are_not_there_are_refused_though_nobody_uses_the_result(backend: str) -> None:
    """The program hears it; sizes that vary are Python's."""
    for rows in (1, 2, 3, 1, 5):
        assert_same_as_eager(outside, torch.arange(8.0), rows, backend=backend)
