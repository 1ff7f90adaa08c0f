"""What a compiled function looked at changes between calls, and the next call sees it (changes_between_calls.py says how).

A short run takes a sample of another seed each day; `-m soak` runs 20,000, or as many as DYNEXPLORE_SOAK_CASES says.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterable, Iterator

import pytest
from properties.changes_between_calls import (
    CHANGES,
    HOSTS,
    LOOKS,
    NAME_CHANGES,
    NAMES,
    PLACES,
    Case,
    answers_of_a_fresh_process,
    changes_the_answer,
    run,
    telling_cases,
)
from properties.fuzzing import cases_wanted, device_wanted, first_seed

import dynexplore
from dynexplore.engine.config import config
from dynexplore.engine.variables.objects.user_object import UserObjectVariable

SEED = first_seed(739_943)  # fixed: a suite that has passed passes again


def sampled(seed: int) -> Iterator[Case]:
    """Cases without end in which eager's answer changes, one in five about names."""
    draw = random.Random(seed)
    while True:
        tables = (["nothing"], NAMES, NAME_CHANGES) if draw.random() < 0.2 else (HOSTS, LOOKS, CHANGES)
        host, look, change = (draw.choice(list(table)) for table in tables)
        if changes_the_answer(Case(host, look, change, "argument")):
            yield Case(host, look, change, draw.choice(list(PLACES)))


def check(cases: Iterable[Case], say: Callable[[str], object] = lambda text: None) -> tuple[int, int, list[str]]:
    """Run each case: how many there were, how many say something, and those that came out wrong; `say` is told at once."""
    total = counted = 0
    wrong = []
    with warnings.catch_warnings(), config.patch(log_level="ERROR"), device_wanted():
        warnings.simplefilter("ignore")  # programs that use torch in odd ways
        for case in cases:
            outcome = run(case)
            total += 1
            counted += outcome.counts
            assert counted or total < 20, "no case says anything: nothing is compiled"
            if outcome.differs and answers_of_a_fresh_process(case) == outcome.compiled:
                say(f"CPython answers as the engine does in a fresh process, and otherwise here: {case}")
            elif outcome.differs:
                wrong.append(f"{case}\n{''.join(case.pieces())}\nplain    {outcome.plain}\ncompiled {outcome.compiled}")
                say(f"difference {len(wrong)}: {wrong[-1]}")
            if total % 500 == 0:
                say(f"{total} cases, {counted} counted, {len(wrong)} wrong")
    return total, counted, wrong


def test_a_sample_of_changes_is_seen() -> None:
    """Whatever a program looked at, in whatever way and place: when it changes, the next call answers as eager does."""
    total, counted, wrong = check(itertools.islice(sampled(SEED), 120))
    print(f"seed {SEED}: {total} cases, {counted} with a graph and another answer of eager's")
    assert not wrong, f"seed {SEED}\n" + "\n\n".join(wrong[:3])
    assert counted > total // 2


@pytest.mark.soak
def test_the_fuzzer_finds_an_absence_that_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(UserObjectVariable, "guard_on_absence", lambda self, ctx, name: None)
    wrong = next((wrong for case in itertools.islice(sampled(0), 2000) if (wrong := check([case])[2])), [])
    with capfd.disabled():
        print("".join(f"\n{text}" for text in wrong))
    assert wrong


@pytest.mark.soak
def test_every_kind_of_change_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    """The same for a shuffled part of all combinations."""

    def say(text: str) -> None:
        with capfd.disabled():
            print(f"\n{text}", flush=True)

    cases = telling_cases()
    random.Random(SEED).shuffle(cases)
    total, counted, wrong = check(cases[: cases_wanted(20_000)], say)
    say(f"seed {SEED}: {total} of {len(cases)} cases, {counted} with a graph and another answer of eager's")
    assert not wrong, f"seed {SEED}, {len(wrong)} wrong\n" + "\n\n".join(wrong[:5])


def test_a_case_that_changes_nothing_is_not_counted() -> None:
    """A change that eager does not notice says nothing about the engine."""
    dynexplore.reset()
    outcome = run(Case("instance", "attribute", "class attribute changed", "argument"))
    assert outcome.graphs == 1
    assert not outcome.counts
    assert not outcome.differs
