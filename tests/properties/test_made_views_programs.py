"""Random programs on views of what the program itself makes, written to before and behind a graph break.

The idea: a compiler makes calls without writes of a graph that writes through views, and hands out what is left: views that the
program never made, or none where it made some. Whoever changes them behind the graph meets autograd, which goes by where and how
a view was made. Every tensor of the program is returned, so that each has its part in the backward.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from properties.fuzz_rounds import Passed, finds, run_drawn_for_long, run_slice
from properties.two_worlds import World, function_of, graphs_of_same_worlds

from dynexplore.engine.aliasing import output_aliases

MADE = ("x * 2", "x.detach() * 3", "x + w", "x.clone()", "torch.zeros_like(x)", "(x * 4).to(torch.complex64).real")
VIEWS = (
    "{0}.view(-1)", "{0}.mT", "{0}.transpose(0, -1)", "{0}.unsqueeze(0)", "{0}[0]", "{0}[..., 1:]", "{0}[:]", "{0}.view_as({0})",
    "{0}.flatten()", "{0}.select(-1, 0)", "{0}.narrow(0, 0, 1)", "{0}.mT[1:].mT", "{0}.view(-1)[2:6]", "{0}.diagonal(0, -2, -1)",
)  # fmt: skip
WRITES = ("{0}.mul_(2)", "{0}.add_(1)", "{0} += w.sum()", "{0}[0] = 3", "{0}.zero_()", "{0}[...] = w.sum()", "{0}.neg_()")


@dataclass(frozen=True)
class Case:
    """What is done before and behind the break, and which of the two inputs have a gradient."""

    before: tuple[tuple[int, int, int], ...]
    behind: tuple[tuple[int, int, int], ...]
    wanted: tuple[bool, bool]
    backend: str

    @property
    def text(self) -> str:
        """The source of the program: what is made of nothing that fits is made anew."""
        names = ["a"]
        lines = [f"a = {MADE[self.before[0][2] % len(MADE)]}"]
        for steps in (self.before, self.behind):
            for what, which, how in steps:
                _add(lines, names, what, which, how)
            if steps is self.before:
                lines.append("print('here')")
        body = "".join(f"    {line}\n" for line in lines)
        return f"def program(x, w):\n{body}    return {', '.join(names)}, x * w\n"


def _add(lines: list[str], names: list[str], what: int, which: int, how: int) -> None:
    chosen = names[which % len(names)]
    if what == 0 or (what == 1 and len(names) < 6):
        new = f"{'abcdefghij'[len(names)]}"
        lines.append(f"{new} = {VIEWS[how % len(VIEWS)].format(chosen) if what else MADE[how % len(MADE)]}")
        names.append(new)
    else:
        lines.append(WRITES[how % len(WRITES)].format(chosen))


_STEPS = st.tuples(st.sampled_from([0, 1, 1, 2, 2, 2]), st.integers(0, 5), st.integers(0, 20))


def cases(*backends: str) -> st.SearchStrategy[Case]:
    """Drawn cases for these backends."""
    some = st.lists(_STEPS, min_size=1, max_size=4).map(tuple)
    return st.builds(Case, some, some, st.tuples(st.booleans(), st.booleans()), st.sampled_from(backends))


def world_of(case: Case) -> World:
    """One side: two inputs, made anew for each call."""
    function, leaves = function_of(case.text, {"torch": torch}), []

    def prepare() -> tuple[Any, ...]:
        inputs = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(1, 2, 4)
        leaves[:] = [one.requires_grad_(wanted) for one, wanted in zip(inputs, case.wanted, strict=True)]
        return tuple(leaves)

    return World(function, [prepare] * 2, lambda: leaves[:], lambda: leaves[:])


def _is_refused(case: Case) -> bool:
    world = world_of(case)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns once in a process, so a second try would differ
            world.function(*world.calls[0]())
    except (RuntimeError, IndexError):
        return True
    return False


def check(case: Case) -> Passed:
    """The case does under the engine what it does without.

    Not counted are programs that eager refuses: a view is taken for a leaf, and may not be changed, until somebody asks for the
    history that a write to its base gave it. Under a compiler somebody has.
    """
    if _is_refused(case):
        return Passed(0)
    text = f"{case.text}\ngradients: {case.wanted}"
    return Passed(graphs_of_same_worlds(lambda: world_of(case), case.backend, text), (case.backend,))


@pytest.mark.parametrize(("backend", "count"), [("eager", 20), ("aot_eager", 20)])
def test_views_of_what_is_made_do_the_same(backend: str, count: int) -> None:
    """Random programs that change what a graph made, before and behind its end, equal eager in everything."""
    print(run_slice(cases(backend), check, count))


@pytest.mark.soak
def test_the_fuzzer_finds_views_that_refuse(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(output_aliases, "_mutated_intermediates", lambda graph: [])
    difference = finds(cases("aot_eager"), check)
    with capfd.disabled():
        print(f"\n{difference}")
    assert difference


@pytest.mark.soak
def test_views_of_what_is_made_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of such programs, from a seed that is printed."""
    with capfd.disabled():
        tally = run_drawn_for_long(cases("eager", "aot_eager", "aot_eager"), check)
    assert not tally.failures, "\n\n".join(tally.failures)
