"""The test of one capture method: capture, then call the captured program and compare its answers with eager's.

The idea: this code runs in the child process of each method, and in that of eager before all others. Every run starts from the
same state, and the result is plain data.

In: a method (`Lens`), the calls to try and eager's answers. Out: `Outcome`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.events import clip
from dynexplore.lenses.answers import Answer, answer_of, judge
from dynexplore.lenses.lens import Call, Captured, Lens, explain_failure
from dynexplore.lenses.outcome import REFUSES, Outcome, Verdict
from dynexplore.lenses.probes import path_of

MOST_WARNINGS = 5
"""The most warnings that are kept per capture."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One call to try: its name, and the state it starts from (the engine's `CallSnapshot`)."""

    name: str
    start: Any


@dataclass(frozen=True, slots=True)
class EagerRun:
    """One call in eager: its answer, the operators that ran, the time in seconds."""

    answer: Answer
    path: tuple[tuple[str, str], ...]
    seconds: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators without their constants."""
        return tuple(operator for operator, _ in self.path)


def in_eager(fn: Callable[..., Any], trials: Sequence[Trial]) -> list[EagerRun]:
    """Eager's answers. The given call runs once beforehand, because capturing it runs it once, too."""
    answer_of(fn, trials[0].start, fn)
    answers = [answer_of(fn, trial.start, fn) for trial in trials]
    return [
        EagerRun(answer, () if answer.raised else _path(fn, trial), 0.0 if answer.raised else _seconds(fn, trial))
        for trial, answer in zip(trials, answers, strict=True)
    ]


def _path(fn: Callable[..., Any], trial: Trial) -> tuple[tuple[str, str], ...]:
    args, kwargs = trial.start.fresh()
    return tuple(path_of(lambda: fn(*args, **kwargs)))


def _seconds(run: Callable[..., Any], trial: Trial, repeats: int = 3) -> float:
    """The shortest time of several calls."""
    shortest = _cached_seconds(run, trial, lambda: 0, repeats)
    assert shortest is not None
    return shortest


def _cached_seconds(run: Callable[..., Any], trial: Trial, count: Callable[[], int], repeats: int = 3) -> float | None:
    """The shortest time of several calls that captured nothing; None if each of them did.

    A call that starts from the state of before may be captured anew each time (torch.compile and an optimizer whose state is gone).
    Then the calls go on from where the last one ended, as in a training loop, until as many captured nothing: the first of them may
    still fill caches.
    """
    seconds: list[float] = []
    args, kwargs = trial.start.fresh()
    for number in range(3 * repeats):
        if 0 < number < repeats:
            args, kwargs = trial.start.fresh()
        if len(seconds) >= repeats:
            break
        before = count()
        start = time.perf_counter()
        run(*args, **kwargs)
        took = time.perf_counter() - start
        seconds += [took] if count() == before else []
    return min(seconds, default=None)


def examine(
    lens: Lens, fn: Callable[..., Any], trials: Sequence[Trial], expected: Sequence[Answer], dynamic: bool | None = None
) -> Outcome:
    """Run one method on all calls and return the outcome."""
    about = {name: getattr(lens, name) for name in ("key", "name", "works_on", "how", "purpose")}
    args, kwargs = trials[0].start.fresh()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warm_up(lens)
        caught.clear()
        start = time.perf_counter()
        try:
            captured = lens.capture(Call(fn, args, kwargs, dynamic))
            seconds = time.perf_counter() - start
            graphs = tuple(captured.graphs())
        except Exception as error:  # raised by the method: the reason is part of the outcome
            failure, message = explain_failure(lens, error)
            return Outcome(**about, failure=failure, message=message)
        verdicts = [_verdict(captured, trial, answer, fn) for trial, answer in zip(trials, expected, strict=True)]
        works = verdicts[0].outcome != REFUSES and not expected[0].raised
        return Outcome(
            **about,
            graphs=graphs,
            verdicts=tuple(verdicts),
            breaks=tuple(captured.breaks()),
            warnings=_texts(caught),
            notes=tuple(captured.notes),
            capture_seconds=seconds,
            call_seconds=_cached_seconds(captured.run, trials[0], captured.count) if works else None,
        )


def _warm_up(lens: Lens) -> None:
    """Import and initialize what a method needs at its first use, so that capture time does not include it."""
    lens.prepare()
    with contextlib.suppress(Exception):  # the capture itself will report the error
        lens.capture(Call(_add_one, (torch.ones(1),), {}))


def _add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _verdict(captured: Captured, trial: Trial, expected: Answer, fn: Callable[..., Any]) -> Verdict:
    before = captured.count()
    outcome, words = judge(expected, answer_of(captured.run, trial.start, fn))
    return Verdict(trial.name, outcome, words, captured.count() > before)


def _texts(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """The texts of a method's warnings, except deprecation warnings, which do not concern this function."""
    notable = [entry for entry in caught if not issubclass(entry.category, DeprecationWarning) and str(entry.message).strip()]
    texts = dict.fromkeys(clip(str(entry.message).strip().splitlines()[0], 200) for entry in notable)
    return tuple(texts)[:MOST_WARNINGS]
