"""How a fuzzer is run: rounds of drawn cases from seeds that are printed, what fails shrunk, what counts counted.

The idea: a case counts when the engine made at least one graph of it; a fuzzer whose programs never reach a graph would find
nothing, and say that all is well. So a check says how its case went, in words (`"1 graph"`, `"aot_eager"`, `"raises"`), and the
shares of these words stand beside the result.

In:  a Hypothesis strategy of cases, and a check that raises AssertionError or gives a `Passed`.
Out: `run_slice` for `make test` (always the same seed), `run_for_long` for `make soak`: DYNEXPLORE_SOAK_PROGRAMS cases that count
(5000 by default), from DYNEXPLORE_SOAK_SEED.
"""

from __future__ import annotations

import collections
import os
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

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


@dataclass
class Tally:
    """How many cases there were, how many count, and what they were cases of."""

    cases: int = 0
    counted: int = 0
    words: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, passed: Passed) -> None:
        """Note a case that passed."""
        self.cases += 1
        if passed.graphs:
            self.counted += 1
            self.words.update(passed.words)

    def __str__(self) -> str:
        shares = ", ".join(f"{word} {count / max(self.counted, 1):.0%}" for word, count in sorted(self.words.items()))
        return f"{self.counted} of {self.cases} cases count, {len(self.failures)} rounds failed ({shares})"


def run_slice(cases: st.SearchStrategy[Any], check: Check, count: int, at_least: float = 0.5) -> Tally:
    """A short run, the same each time. Fails with the shrunk case, or when too few cases count."""
    tally = Tally()
    for round_seed in range(0, count, _FEW):
        failure = _round(cases, check, round_seed, _FEW, tally)
        assert not failure, failure
        assert dynexplore.counters["frames"]["total"], "the engine was not asked about the last case"
    assert tally.counted >= at_least * tally.cases, f"too few cases reach a graph: {tally}"
    return tally


def run_for_long(cases: st.SearchStrategy[Any], check: Check, say: Callable[[str], object]) -> Tally:
    """Rounds of new cases until enough of them counted; `say` is told of each round and each failure."""
    wanted = int(os.environ.get("DYNEXPLORE_SOAK_PROGRAMS", "5000"))
    start = int(os.environ.get("DYNEXPLORE_SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
    tally, began = Tally(), time.monotonic()
    for round_seed in range(start, start + 10 * wanted, _EACH):
        failure = _round(cases, check, round_seed, _EACH, tally)
        if failure:
            tally.failures.append(failure)
            say(failure)
        say(f"seed {round_seed}, {time.monotonic() - began:.0f} s: {tally}")
        if tally.counted >= wanted:
            break
    return tally


def _round(cases: st.SearchStrategy[Any], check: Check, round_seed: int, count: int, tally: Tally) -> str:
    """Draw cases from a seed; what the first one that fails is, shrunk, or ""."""

    @seed(round_seed)
    @settings(_RELAXED, max_examples=count, phases=(Phase.generate, Phase.shrink))
    @given(cases)
    def run(case: Any) -> None:
        tally.add(check(case))

    try:
        run()
    except Exception as error:
        where = "" if isinstance(error, AssertionError) else "".join(traceback.format_exception(error)[-6:])
        return f"seed {round_seed}: {type(error).__name__}: {error}\n{where}"
    return ""
