"""Each method and operator of the builtin types, on the type and on classes that extend it, does what it does in plain Python.

The cases are listed by builtin_operations.py. A slice with a fixed seed runs with the tests; all of them are a long run.
"""

from __future__ import annotations

import random

import pytest
from properties.builtin_operations import Case, all_cases, difference, quiet, slice_of
from properties.fuzzing import Tally, cases_wanted, first_seed, say_at_once

import dynexplore

_SLICE = 1000
_AT_ONCE = 200
"""How many cases run before what they compiled is given back."""


def test_operations_of_builtin_types_do_the_same() -> None:
    """A slice of the cases."""
    tally = run(slice_of(34, _SLICE))
    assert tally.with_graph > _SLICE / 2
    assert not tally.failures, "\n".join(tally.failures)


@pytest.mark.soak
def test_operations_of_builtin_types_do_the_same_for_long() -> None:
    """As many cases as are wanted, of all of them in an order that a seed says."""
    cases = all_cases()
    random.Random(first_seed()).shuffle(cases)
    tally = run(cases[: cases_wanted()])
    say_at_once(f"{tally} of {len(cases)} that there are")
    assert not tally.failures, "\n".join(tally.failures)


@pytest.mark.plain("nothing is run: the table is looked at")
def test_each_type_name_kind_and_place_is_there() -> None:
    """The table is whole: what `dir` lists of a list is in it, made in each way and in each place."""
    cases = [case for case in all_cases() if case.type == "list"]
    assert {"append", "__add__", "__eq__", "__getitem__", "sort"} <= {case.name for case in cases}
    assert len({(case.kind, case.place) for case in cases}) == 20


def run(cases: list[Case]) -> Tally:
    """Run cases, and count those in which there was a graph."""
    quiet()
    tally = Tally()
    dynexplore.reset()
    for number, case in enumerate(cases, 1):
        before = dynexplore.counters["stats"]["graphs"]
        wrong = difference(case)
        tally.cases += 1
        tally.with_graph += dynexplore.counters["stats"]["graphs"] > before
        if wrong is not None:
            tally.failures.append(f"{case}\n{wrong}\n{case.text()}")
        if number % _AT_ONCE == 0:
            dynexplore.reset()
    return tally
