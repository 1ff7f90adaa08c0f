"""Random programs do under the engine what they do without: values, exceptions, prints, identity, mutation, gradients.

`make test` runs those of the first seeds, always the same: what Hypothesis draws under a fixed seed moves with its version and with
every constant of our own sources. `make soak` draws new ones without end. A program that ever failed is
kept in `programs_that_failed/`, each file a program with the calls to make.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import Phase, given, seed, settings
from properties.drawn_programs import programs
from properties.fuzzing import Tally, run_for_long
from properties.program_files import CALL_LISTS, RELAXED, drawn_once, read_program
from properties.random_programs import assert_program_is_right

SEEDS = 120
KEPT = Path(__file__).parent / "programs_that_failed"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_program_does_the_same(seed: int) -> None:
    """A random program equals eager in all that can be noticed, in every call."""
    assert_program_is_right(*drawn_once(seed))


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_that_failed_once_does_the_same(path: Path) -> None:
    """Programs that were found to differ from eager do so no longer."""
    assert_program_is_right(*read_program(path.read_text(encoding="utf-8")))


@pytest.mark.plain("draws texts and runs none")
def test_a_seed_draws_one_program() -> None:
    """The same in each process, and another for each seed."""
    texts = {drawn_once(seed)[0] for seed in range(SEEDS)}
    assert len(texts) == SEEDS and drawn_once(0) == drawn_once(0)


@pytest.mark.soak
def test_random_programs_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of new programs, from a seed that is printed."""
    each = 100

    def one_round(round_seed: int, tally: Tally) -> None:
        failure = failure_of_round(round_seed, each)
        tally.cases += each
        tally.with_graph += each  # they are not counted: a program of no graph is one of those that are wanted
        tally.failures += [failure] * bool(failure)

    with capfd.disabled():
        tally = run_for_long(one_round, step=each)
    assert not tally.failures, "\n\n".join(tally.failures)


def failure_of_round(round_seed: int, count: int) -> str:
    """Draw programs from a seed; what the first one that fails is, shrunk, or ""."""

    @seed(round_seed)
    @settings(RELAXED, max_examples=count, phases=(Phase.generate, Phase.shrink))
    @given(programs(), CALL_LISTS)
    def run(text: str, more: list[str]) -> None:
        assert_program_is_right(text, more)

    try:
        run()
    except Exception as error:
        return f"seed {round_seed} ({zlib.crc32(str(error).encode()):08x}): {type(error).__name__}: {error}"
    return ""
