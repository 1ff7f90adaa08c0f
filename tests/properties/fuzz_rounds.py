"""Rounds of cases that Hypothesis draws and shrinks.

The idea: a fuzzer whose programs never reach a graph would find nothing, and say that all is well. So a check says how many
graphs its case had, and in words what it was a case of (`"aot_eager"`, `"raises"`); the shares of these words stand beside the
result.

In:  a Hypothesis strategy of cases, and a check that raises AssertionError or gives a `Passed`.
Out: `run_slice` for `make test` (always the same seed), `run_drawn_for_long` for `make soak` (fuzzing.py says how long), `finds` to
     show that a fuzzer finds what it is for.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from properties.fuzzing import Tally, run_for_long

import dynexplore

Check = Callable[[Any], "Passed"]
_RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=False,
                    report_multiple_bugs=False)
_EACH = 100
_FEW = 6  # Hypothesis soon draws variations of what it has drawn: a short run begins anew more often


@dataclass(frozen=True)
class Passed:
    """A case that gave what eager gives."""

    graphs: int
    words: tuple[str, ...] = ()
    """What it was a case of."""


def run_slice(cases: st.SearchStrategy[Any], check: Check, count: int, at_least: float = 0.5) -> Tally:
    """A short run, the same each time. Fails with the shrunk case, or when too few cases count."""
    tally = Tally()
    for round_seed in range(0, count, _FEW):
        failure = _round(cases, check, round_seed, _FEW, tally)
        assert not failure, failure
        assert dynexplore.counters["frames"]["total"], "the engine was not asked about the last case"
    assert tally.with_graph >= at_least * tally.cases, f"too few cases reach a graph: {tally}"
    return tally


def finds(cases: st.SearchStrategy[Any], check: Check, most: int = 600) -> str:
    """The first failure among so many cases: a mend was taken out, and the fuzzer must miss it."""
    for round_seed in range(0, most, _EACH):
        failure = _round(cases, check, round_seed, _EACH, Tally())
        if failure:
            return failure
    return ""


def run_drawn_for_long(cases: st.SearchStrategy[Any], check: Check) -> Tally:
    """Rounds of new cases until enough of them had a graph."""

    def one_round(round_seed: int, tally: Tally) -> None:
        failure = _round(cases, check, round_seed, _EACH, tally)
        if failure:
            tally.failures.append(failure)

    return run_for_long(one_round)


def _round(cases: st.SearchStrategy[Any], check: Check, round_seed: int, count: int, tally: Tally) -> str:
    """Draw cases from a seed; what the first one that fails is, shrunk, or ""."""

    @seed(round_seed)
    @settings(_RELAXED, max_examples=count, phases=(Phase.generate, Phase.shrink))
    @given(cases)
    def run(case: Any) -> None:
        passed = check(case)
        tally.cases += 1
        if passed.graphs:
            tally.with_graph += 1
            tally.words.update(passed.words)

    try:
        run()
    except Exception as error:
        where = "" if isinstance(error, AssertionError) else "".join(traceback.format_exception(error)[-6:])
        return f"seed {round_seed}: {type(error).__name__}: {error}\n{where}"
    return ""
