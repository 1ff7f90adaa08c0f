"""`as_strided` behind the end of the memory: what is counted, held against what torch itself refuses."""

from __future__ import annotations

import itertools

import pytest
import torch

import dynexplore
from dynexplore.engine.aliasing.storage import check_in_bounds_for_storage, overlap_in_other_elements
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
            for call in (aten.as_strided.default, lambda *args: check_in_bounds_for_storage(aten.as_strided.default, args, {})):
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


DIMENSIONS = [
    ((4,), (1,)), ((4,), (2,)), ((2, 3), (3, 1)), ((2, 2), (6, 1)), ((3, 2), (1, 5)), ((2, 1, 2), (4, 9, 2)), ((), ()),
]  # fmt: skip
LAYOUTS = [(*dimensions, begin) for dimensions in DIMENSIONS for begin in (0, 1, 3, 8)]


@pytest.mark.plain("arithmetic on layouts")
def test_places_that_two_tensors_share() -> None:
    """Of all pairs of a few layouts, as the places themselves say."""
    base, numbers = torch.zeros(24), torch.arange(24)
    for first, second in itertools.product(LAYOUTS, repeat=2):
        places = [set(numbers.as_strided(*layout).flatten().tolist()) for layout in (first, second)]
        plain = [numbers.as_strided(*layout).squeeze() for layout in (first, second)]
        is_same = plain[0].shape == plain[1].shape and torch.equal(*plain)
        expected = bool(places[0] & places[1]) and not is_same
        assert overlap_in_other_elements(base.as_strided(*first), base.as_strided(*second)) == expected, (first, second)


def reads_what_it_writes(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[::2].mul_(y[1:5])
    return y


def writes_a_column(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).view(4, 2)
    y[:, 0].mul_(y[:, 1])
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "row"), [(reads_what_it_writes, ["BE01"]), (writes_a_column, [])])
def test_an_operator_that_reads_as_other_elements_what_it_writes(program, row: list[str], backend: str) -> None:
    """Its result depends on the order of its writes, so no backend gets it; columns beside each other share nothing."""
    x = torch.arange(8.0)
    expected = program(x).tolist()
    assert dynexplore.optimize(backend, nopython=True)(program)(x).tolist() == expected
    assert dynexplore.counters["stats"]["graphs"] == 1
    assert [line[:4] for line in dynexplore.counters["backend_skipped"]] == (row if backend != "eager" else [])
