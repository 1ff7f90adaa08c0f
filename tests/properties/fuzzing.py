"""How a fuzzer of program texts is run: a case for each seed, counted where there was a graph, failures shrunk to a few lines.

Which idea lives here: a case that compiled nothing shows nothing. So a run counts the cases in which at least one graph was
compiled, goes on until there were as many as wanted, and says how large their share was. A case is drawn by `random.Random(seed)`,
so that a seed names it whatever else is installed. What fails is shrunk by taking out calls, lines and whole blocks as long as
it still fails.

In:  a `Fuzzer`: how a case is drawn, and a check that raises when a case is wrong and returns how many graphs there were. Or any
     round of cases, for `run_for_long`: those that Hypothesis draws are in fuzz_rounds.py.
Out: a `Tally`: cases, cases with a graph, the failures as text.

A long run is spread over processes by its seed: of every fuzzer DYNEXPLORE_SOAK_SEED says where it starts, and
DYNEXPLORE_SOAK_CASES how many cases with a graph it wants. DYNEXPLORE_SOAK_DEVICE=cuda has the programs make their tensors there.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

import dynexplore

_GOES_ON = re.compile(r" *(except|else|elif|finally)\b")
MOST_TRIES = 600
"""How many smaller programs are tried for one failure."""


@dataclass(frozen=True)
class Case:
    """One drawn program: its text, and what each call passes."""

    text: str
    calls: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the configuration, by name."""

    def __str__(self) -> str:
        return f"calls = {list(self.calls)}, options = {dict(self.options)}\n{self.text}"


def say_at_once(text: str) -> None:
    """Print a line that is seen while the run goes on."""
    print(f"\n{text}", end="", flush=True)


@dataclass
class Tally:
    """What a run did: how many cases it drew, in how many there was a graph, what those were cases of, and what failed."""

    cases: int = 0
    with_graph: int = 0
    words: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        of = ", ".join(f"{word} {count / max(self.with_graph, 1):.0%}" for word, count in sorted(self.words.items()))
        counts = f"{self.cases} cases, {self.with_graph} with a graph ({self.with_graph / max(self.cases, 1):.0%})"
        return f"{counts}, {len(self.failures)} failed{f' ({of})' if of else ''}"


def first_seed(otherwise: int | None = None) -> int:
    """Where a run begins: DYNEXPLORE_SOAK_SEED, or else a number that is printed."""
    known = os.environ.get("DYNEXPLORE_SOAK_SEED")
    return int(known) if known else random.SystemRandom().randrange(10**6) if otherwise is None else otherwise


def cases_wanted(otherwise: int = 5000) -> int:
    """How many cases a long run wants: DYNEXPLORE_SOAK_CASES."""
    return int(os.environ.get("DYNEXPLORE_SOAK_CASES", otherwise))


def runs_on_a_gpu() -> bool:
    """Whether DYNEXPLORE_SOAK_DEVICE is a GPU, on which some programs have no answer to compare with."""
    return os.environ.get("DYNEXPLORE_SOAK_DEVICE") == "cuda"


def device_wanted() -> contextlib.AbstractContextManager[Any]:
    """A block in which programs make their tensors on the device DYNEXPLORE_SOAK_DEVICE, if there is one."""
    device = os.environ.get("DYNEXPLORE_SOAK_DEVICE")
    return torch.device(device) if device else contextlib.nullcontext()


def run_for_long(
    one_round: Callable[[int, Tally], None], *, step: int = 1, say_each: int = 1, say: Callable[[str], object] = say_at_once
) -> Tally:
    """Rounds until enough cases had a graph. A round is called with its seed and adds to the tally; `step` leads to the next."""
    wanted, seed = cases_wanted(), first_seed()
    tally, began = Tally(), time.monotonic()
    say(f"first seed {seed}")
    rounds = 0
    while tally.with_graph < wanted and tally.cases < 10 * wanted:
        known = len(tally.failures)
        with device_wanted():
            one_round(seed, tally)
        for failure in tally.failures[known:]:
            say(failure)
        seed, rounds = seed + step, rounds + 1
        if rounds % say_each == 0:
            say(f"{tally}, {time.monotonic() - began:.0f} s, next seed {seed}")
    say(f"{tally}, {time.monotonic() - began:.0f} s")
    return tally


@dataclass(frozen=True)
class Fuzzer:
    """How a case is drawn and checked."""

    draw: Callable[[random.Random], Case]
    check: Callable[[Case], int]

    def run(self, seed: int, tally: Tally) -> None:
        """Draw and check the case of one seed."""
        case = self.draw(random.Random(seed))
        tally.cases += 1
        failure = self.failure_of(case)
        if isinstance(failure, int):
            tally.with_graph += failure > 0
        elif not dynexplore.counters["frames"]["total"]:
            raise AssertionError(f"the engine was not asked about seed {seed}") from failure
        else:
            smallest = self.shrunk(case, type(failure))
            tally.failures.append(f"seed {seed}\n{smallest}\n{self.failure_of(smallest)}")

    def failure_of(self, case: Case) -> int | Exception:
        """How many graphs a case had, or why it is wrong."""
        try:
            return self.check(case)
        except Exception as error:
            error.__traceback__ = None
            return error

    def shrunk(self, case: Case, kind: type[Exception]) -> Case:
        """The smallest case that was found to fail in the same way."""
        tries, went_on = 0, True
        while went_on:
            went_on = False
            for smaller in smaller_cases(case):
                tries += 1
                if tries > MOST_TRIES:
                    return case
                if type(self.failure_of(smaller)) is kind:
                    case, went_on = smaller, True
                    break
        return case

    def finds(self, most: int = 5000) -> str:
        """The first failure among so many cases: a mend was taken out, and the fuzzer must miss it."""
        tally = Tally()
        for seed in range(most):
            self.run(seed, tally)
            if tally.failures:
                return tally.failures[0]
        return ""

    def slice(self, first: int, count: int) -> Tally:
        """The cases of these seeds."""
        tally = Tally()
        for seed in range(first, first + count):
            self.run(seed, tally)
        print(tally)
        return tally

    def run_for_long(self) -> Tally:
        """Cases without end until enough of them had a graph."""
        return run_for_long(self.run, say_each=100)


def smaller_cases(case: Case) -> Iterator[Case]:
    """The case with one call, one block or one line fewer, the largest parts first; only what compiles."""
    for index in range(len(case.calls)):
        if len(case.calls) > 1:
            yield replace(case, calls=case.calls[:index] + case.calls[index + 1 :])
    lines = case.text.splitlines()
    texts = dict.fromkeys("\n".join(fewer) + "\n" for fewer in sorted(_fewer_lines(lines), key=len))
    for text in texts:
        try:
            compile(text, "<smaller>", "exec")
        except SyntaxError:
            continue
        yield replace(case, text=text)


def _fewer_lines(lines: Sequence[str]) -> Iterator[list[str]]:
    for start, line in enumerate(lines):
        depth = _depth(line)
        own = _end(lines, start, depth)
        whole = own
        while whole < len(lines) and _depth(lines[whole]) == depth and _GOES_ON.match(lines[whole]):
            whole = _end(lines, whole, depth)
        before, after = list(lines[:start]), list(lines[whole:])
        yield before + after
        if own != whole:
            yield before + list(lines[own:])
        if own > start + 1:
            yield before + [inner[4:] for inner in lines[start + 1 : own]] + after
            yield [*before, line, " " * (depth + 4) + "pass", *list(lines[own:])]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 10**6


def _end(lines: Sequence[str], start: int, depth: int) -> int:
    """Where the block that a line heads is over."""
    end = start + 1
    while end < len(lines) and _depth(lines[end]) > depth:
        end += 1
    return end
