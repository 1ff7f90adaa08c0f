"""Two rows of instructions, paired: what both came to stands together, pairs never cross, nothing is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynexplore.engine import events as ev
from dynexplore.two_engines.alignment import aligned, longest_rise
from dynexplore.two_engines.visits import Visit

pytestmark = pytest.mark.plain("instructions that are made up, paired without any engine")

CODE = ev.CodeView(1, "f", "model.py", 1, "def f(x):\n    return x\n", ())


def row(*offsets: int, path: tuple[object, ...] = ("model.py", 1)) -> list[Visit]:
    """The visits of one activation of a function, at these offsets."""
    times: dict[int, int] = {}
    visits = []
    for number, offset in enumerate(offsets):
        times[offset] = times.get(offset, -1) + 1
        visits.append(Visit(("model.py", 1, offset), path, times[offset], CODE, 1, number, offset, 2, "NOP", ()))
    return visits


def offsets(theirs: list[Visit], ours: list[Visit]) -> list[tuple[int | None, int | None]]:
    """The pairs, as offsets."""
    pairs = aligned(theirs, ours)
    return [
        (pair.torch_side.offset if pair.torch_side else None, pair.engine_side.offset if pair.engine_side else None)
        for pair in pairs
    ]


def test_what_one_side_read_alone_stands_between_the_pairs() -> None:
    """An instruction that only one came to has nothing beside it."""
    assert offsets(row(0, 2, 4, 6), row(0, 4, 6, 8)) == [(0, 0), (2, None), (4, 4), (6, 6), (None, 8)]


def test_a_loop_with_one_turn_more_pairs_the_turns_that_both_made() -> None:
    """The k-th turn of one is the k-th turn of the other."""
    assert offsets(row(0, 2, 0, 2, 4), row(0, 2, 4)) == [(0, 0), (2, 2), (0, None), (2, None), (4, 4)]


def test_a_call_that_only_one_makes_does_not_shift_those_behind_it() -> None:
    """Calls are told apart by where they are made: the second call is the second on both sides, though one never made the first."""
    first, second = ("model.py", 1, "a"), ("model.py", 1, "b")
    theirs = [*row(0), *row(100, 102, path=first), *row(10), *row(100, 102, path=second)]
    ours = [*row(0), *row(10), *row(100, 102, path=second)]
    assert offsets(theirs, ours) == [(0, 0), (100, None), (102, None), (10, 10), (100, 100), (102, 102)]


def test_where_a_break_cut_the_path_the_instruction_decides() -> None:
    """A callee that is a frame of its own on one side is the one that the other inlines."""
    theirs, ours = row(100, 102, path=("helper.py", 7)), row(100, 102, path=("model.py", 1, "call"))
    assert offsets([*row(0), *theirs, *row(4)], [*row(0), *ours, *row(4)]) == [(0, 0), (100, 100), (102, 102), (4, 4)]


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.permutations(range(7)))
def test_no_rise_is_longer(numbers: list[int]) -> None:
    """A longest rise goes up, and no choice of places that goes up is longer."""
    rise = longest_rise(numbers)
    assert all(numbers[one] < numbers[other] and one < other for one, other in itertools.pairwise(rise))
    lengths = [
        len(places)
        for size in range(len(numbers) + 1)
        for places in itertools.combinations(range(len(numbers)), size)
        if all(numbers[one] < numbers[other] for one, other in itertools.pairwise(places))
    ]
    assert len(rise) == max(lengths)
