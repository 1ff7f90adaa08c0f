"""What is written at the end of a graph: which modified code may run with the frame hook off."""

from __future__ import annotations

import gc
from typing import Any

import torch

import dynexplore
from dynexplore.engine.runtime.cache import CompiledEntry
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)


def entries_made(backend: CountingBackend, fn: Any) -> list[CompiledEntry]:
    """The entries that the first call of a function made for it, and for what goes on behind its breaks."""
    before = {id(entry) for entry in gc.get_objects() if type(entry) is CompiledEntry}
    dynexplore.optimize(backend)(fn)(X)
    made = [entry for entry in gc.get_objects() if type(entry) is CompiledEntry and id(entry) not in before]
    return sorted((entry for entry in made if entry.code.co_name == fn.__name__), key=lambda entry: entry.number)


def test_code_that_only_calls_its_graph_runs_alone() -> None:
    """Where a frame runs its graph and packs the results, the hook is off: CPython calls the graph as it calls any function."""

    def packs(x: torch.Tensor) -> object:
        return {"sum": x + 1, "rest": [x * 2, (x, 3)]}

    (entry,) = entries_made(CountingBackend(), packs)
    assert entry.runs_alone
    assert_same_as_eager(packs, X)


def test_what_the_program_calls_behind_a_graph_is_seen() -> None:
    """A function that runs for real behind a graph is a frame of its own, and its graph is made: the hook stays on."""

    def tell(value: torch.Tensor) -> torch.Tensor:
        print(end="")
        return value * 3

    def breaks(x: torch.Tensor) -> torch.Tensor:
        return tell(x + 1) * 2

    backend = CountingBackend()
    with dynexplore.config.patch(nested_graph_breaks=False):
        assert [entry.runs_alone for entry in entries_made(backend, breaks)] == [False, True]
        assert len(backend.graphs) == 3
        assert torch.equal(dynexplore.optimize(backend)(breaks)(X), (X + 1) * 6)


def test_an_operator_that_fails_in_code_that_runs_alone() -> None:
    """The frame runs again as plain Python where an operator of its graph fails, with the hook on behind it."""

    def picks(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] + 1

    def caller(x: torch.Tensor, index: torch.Tensor) -> object:
        print(end="")
        try:
            return picks(x, index)
        except IndexError as error:
            print(end="")
            return str(error), x * 2

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(caller)
    for index in (torch.tensor([0]), torch.tensor([7]), torch.tensor([2]), torch.tensor([-9])):
        found, expected = optimized(X, index), caller(X, index)
        assert type(found) is type(expected)
        if isinstance(expected, tuple):
            assert found[0] == expected[0] and torch.equal(found[1], expected[1])
        else:
            assert torch.equal(found, expected)
    assert len(backend.graphs) == 1
