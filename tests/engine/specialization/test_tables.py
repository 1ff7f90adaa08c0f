"""engine/specialization/tables.py: all combinations of facts, decided by the tables and by formulas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest

from dynexplore.engine.specialization.profile import NO_OTHER, Comparison
from dynexplore.engine.specialization.tables import (
    NUMBER_ROWS,
    OBJECT_ROWS,
    SIZE_ROWS,
    STRIDE_ROWS,
    Kind,
    NumberFacts,
    ObjectFacts,
    SizeFacts,
    first,
)

pytestmark = pytest.mark.plain("tables of decisions, asked without a frame")

BOOLS = (False, True)
OPTIONS = (None, False, True)
SEEN = (NO_OTHER, Comparison(True, 7), Comparison(True))


def all_sizes() -> Iterator[SizeFacts]:
    """Every combination of what may be known of a size."""
    for size, seen, option, mark, layout, depends, oblivious, serves in itertools.product(
        (0, 1, 4), SEEN, OPTIONS, ("", "static", "dynamic", "maybe", "unbacked"), ("", "view", "wrapper", "written view"),
        BOOLS, BOOLS, BOOLS,
    ):  # fmt: skip
        yield SizeFacts(size, 0, seen, option, mark, layout, depends, oblivious, serves)


def kind_of_size(it: SizeFacts) -> Kind:
    """The kind of a size as a formula."""
    if it.fixed_layout or it.option is False or it.mark == "static":
        return Kind.STATIC
    if it.mark in ("unbacked", "dynamic"):
        return Kind(it.mark)
    varies = it.option is True or it.seen.differs or it.depends_on_data or it.mark == "maybe"
    is_served = it.size > 1 or (it.option is None and it.depends_on_data and it.serves_zero_and_one)
    if not (varies and is_served):
        return Kind.STATIC
    return Kind.SIZE_OBLIVIOUS if it.depends_on_data and it.is_oblivious and it.mark != "maybe" else Kind.DYNAMIC


def test_sizes() -> None:
    """Marks come before the options and the profile; 0 and 1 are static unless marked, or data-dependent and served."""
    wrong = [(facts, decided) for facts in all_sizes() if (decided := first(SIZE_ROWS, facts)).kind is not kind_of_size(facts)]
    assert not wrong


def test_strides() -> None:
    """A stride is a symbol of its own only where another one was seen, and the layout may have symbols."""
    for facts in all_sizes():
        is_dynamic = facts.seen.differs and facts.size > 1 and not facts.fixed_layout
        assert (first(STRIDE_ROWS, facts).kind is Kind.DYNAMIC) == is_dynamic


def all_numbers() -> Iterator[NumberFacts]:
    """Every combination of what may be known of a number or string."""
    for value, in_graph, seen, is_dynamic, changes, resume, unstable, option, specializes, takes in itertools.product(
        (5, 0, 2.5, 0.0, math.inf, "text"), BOOLS, SEEN[:2], BOOLS, ("", "loop"), BOOLS, BOOLS, OPTIONS, BOOLS, BOOLS
    ):
        if not (is_dynamic and not seen.differs) and not (unstable and type(value) is not int):
            yield NumberFacts(value, in_graph, seen, is_dynamic, changes, resume, unstable, option, specializes, takes)


def kind_of_number(it: NumberFacts) -> Kind:
    """The kind of a number as a formula."""
    is_int, is_float = type(it.value) is int, type(it.value) is float
    if not it.in_graph and not (is_int and it.is_dynamic):
        if it.changes or it.is_resume_argument or it.is_of_unstable:
            return Kind.UNSPECIALIZED
    if not (is_int or is_float) or it.option is False or it.specializes:
        return Kind.STATIC
    varies = it.changes or it.seen.differs
    if is_float and not it.in_graph:
        return Kind.UNSPECIALIZED if varies else Kind.STATIC
    is_regular = is_int or (math.isfinite(it.value) and it.value != 0)
    return Kind.DYNAMIC if varies and it.takes_symbols and is_regular else Kind.STATIC


def test_numbers() -> None:
    """What a loop or a resume function changes is unspecialized; an int that varied, and a float in a graph, are dynamic."""
    wrong = [(facts, got) for facts in all_numbers() if (got := first(NUMBER_ROWS, facts)).kind is not kind_of_number(facts)]
    assert not wrong


def all_objects() -> Iterator[ObjectFacts]:
    """Every combination of what may be known of an object."""
    for has_filter, has_index, seen_at, changes in itertools.product(BOOLS, BOOLS, ("", "self.layer"), ("", "block", "loop")):
        yield ObjectFacts(has_filter, has_index, seen_at, "layer" if changes else "", changes)


def test_objects() -> None:
    """An object is guarded by identity where nothing speaks against it."""
    for facts in all_objects():
        is_stable = not (facts.has_guard_filter or facts.has_dynamic_index or facts.other_seen_at or facts.changes_at)
        assert (first(OBJECT_ROWS, facts).kind is Kind.STATIC) == is_stable


@pytest.mark.parametrize(
    ("rows", "facts"),
    [(SIZE_ROWS, all_sizes), (STRIDE_ROWS, all_sizes), (NUMBER_ROWS, all_numbers), (OBJECT_ROWS, all_objects)],
    ids=["sizes", "strides", "numbers", "objects"],
)
def test_each_row_decides_something(rows: Any, facts: Any) -> None:
    """No row is hidden by those above it, and each gives its reason in a sentence without gaps."""
    deciding: dict[Any, Any] = {}
    for case in facts():
        deciding.setdefault(next(row for row in rows if row.applies(case)), case)
    assert set(deciding) == set(rows)
    for case in deciding.values():
        because = first(rows, case).because
        assert because and "None" not in because and "{" not in because, because
