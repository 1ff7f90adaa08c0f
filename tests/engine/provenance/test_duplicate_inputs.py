"""Two arguments that are one object: what was captured for two is not used for one, and the other way round."""

from __future__ import annotations

import collections

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

X = torch.ones(3)


class Counter:
    def __init__(self):
        self.n = 1


def appends_and_measures(a, b, x):
    a.append(1)
    b.append(2)
    a.append(3)
    return x + len(b), list(a), list(b)


def puts_and_gets(a, b, x):
    a["k"] = 1
    return x + b["k"]


def adds_and_measures(a, b, x):
    a.add(5)
    return x + len(b)


def counts_and_reads(a, b, x):
    a.n += 1
    return x + b.n


def changes_and_reads(a, b, x):
    a.add_(1)
    return b * 2 + x


def appends_deep_down(a, b, x):
    a[0].append(1)
    return x + len(b[0])


def asks_for_identity(a, b, x):
    return x + 1 if a is b else x - 1


PROGRAMS = [
    (appends_and_measures, lambda: [0]),
    (appends_and_measures, lambda: collections.deque([0])),
    (puts_and_gets, lambda: {"k": 0}),
    (adds_and_measures, lambda: {1}),
    (counts_and_reads, Counter),
    (changes_and_reads, lambda: torch.ones(3)),
    (appends_deep_down, lambda: [[0]]),
    (asks_for_identity, list),
    (asks_for_identity, lambda: (lambda: 1)),
    (asks_for_identity, lambda: torch.ones(3)),
    (asks_for_identity, lambda: torch.nn.Linear(2, 2)),
]


@pytest.mark.parametrize("order", ["two one two", "one two one"])
@pytest.mark.parametrize(("program", "make"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_one_object_for_two(program, make, order):
    """In whichever order they come, each call gives what eager gives."""
    results = []
    for run in (program, dynexplore.optimize("eager")(program)):
        outcomes = []
        for which in order.split():
            first = make()
            second = first if which == "one" else make()
            outcomes.append(repr(run(first, second, X)))
        results.append(outcomes)
    assert results[0] == results[1]
    # a second module is another identity first, and then guarded by type and content
    assert graphs_compiled() == (3 if isinstance(make(), torch.nn.Module) else 2)


def test_the_guard_can_be_read() -> None:
    """A recording shows it as Python."""
    explanation = dynexplore.explain(asks_for_identity, torch.ones(3), torch.ones(3), X)
    assert any(guard.kind == "DISTINCT" or "is" in guard.expression for guard in explanation.guards)
    changed = dynexplore.explain(appends_and_measures, [0], [0], X)
    assert "b" in next(guard.expression for guard in changed.guards if guard.kind == "DISTINCT")
