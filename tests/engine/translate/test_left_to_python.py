"""Work on numbers alone runs as it is written, under guards: what is left of them, and that tensors are captured all the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.native import CacheStore
from dynexplore.engine.runtime.cache import CompiledEntry
from dynexplore.engine.runtime.stores import Store
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)
NUMBERS = [3, 1, 2, 2, 5, 4, 9, 7, 8, 0]


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> list[CacheStore]:
    """The native stores that are made during the test."""
    made: list[CacheStore] = []
    make = Store.__init__

    def noted(self: Store, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        made.append(self.native)

    monkeypatch.setattr(Store, "__init__", noted)
    return made


def entries_of(stores: list[CacheStore], code: CodeType) -> list[CompiledEntry]:
    """The entries of a code object, in the order in which they are tried."""
    caches = [cache for store in stores for cache in store.caches() if cache.code is code]
    return [entry for cache in caches for entry in cache.entries if isinstance(entry, CompiledEntry)]


def test_numbers_first_and_tensors_later() -> None:
    """A function that was called with numbers, and ran plain, is captured when it is called with a tensor."""

    def add(a: Any, b: int) -> Any:
        return a + b

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(add)
    assert optimized(1, 2) == 3
    assert backend.graphs == []
    assert torch.equal(optimized(X, 1), X + 1)
    assert (len(backend.graphs), optimized(3, 4), optimized(5.5, 1)) == (1, 7, 6.5)
    assert torch.equal(optimized(X, 1), X + 1)
    assert (len(backend.graphs), backend.runs) == (1, 2)


def test_a_comparison_called_by_c_code_makes_no_graph(stores: list[CacheStore]) -> None:
    """A method that compares numbers, called by `sort`, is an entry that asks the classes of two arguments, and nothing else."""

    class Sorter(torch.nn.Module):
        def compare(self, a: int, b: int) -> int:
            return (a > b) - (a < b)

        def forward(self, x: torch.Tensor, items: list[int]) -> tuple[torch.Tensor, list[int]]:
            return x + 1, sorted(items, key=functools.cmp_to_key(self.compare))

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(Sorter())
    for _ in range(3):
        y, items = optimized(X, NUMBERS)
        assert torch.equal(y, X + 1)
        assert items == sorted(NUMBERS)
    assert backend.targets() == [["add"]]
    entries = entries_of(stores, Sorter.compare.__code__)
    assert [entry.left_to_python for entry in entries] == [True] * len(entries)
    assert entries[0].slot_types == (None, int, int)
    assert entries[0].hits > 20
    assert entries[0].check is None
    assert entries[0].code is Sorter.compare.__code__


def test_a_number_that_seldom_brings_tensor_work_is_still_asked() -> None:
    """Of what a number decides only the conditions that were seen to change are given up: the hundredth step is captured."""

    def step(i: int) -> Any:
        if i % 100 == 0:
            return torch.full((2,), 1.0) * i
        return i + 1

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(step)
    assert [optimized(i) for i in range(1, 100)] == list(range(2, 101))
    assert backend.graphs == []
    assert torch.equal(optimized(100), torch.full((2,), 100.0))
    assert len(backend.graphs) == 1


def test_compiled_entries_are_tried_before_those_of_plain_frames(stores: list[CacheStore]) -> None:
    """Guards that were given up hide no entry that was compiled."""

    def step(i: int) -> Any:
        return torch.full((2,), 1.0) if i == 0 else i > 5

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(step)
    for i in (0, 1, 7, 3, 0):
        optimized(i)
    assert (len(backend.graphs), backend.runs) == (1, 2)
    kinds = [entry.left_to_python for entry in entries_of(stores, step.__code__)]
    assert kinds == sorted(kinds)


def test_an_attribute_that_becomes_a_tensor_is_captured() -> None:
    """The class of what a plain frame computed with is asked, wherever the value stood."""

    class Scaled:
        scale: Any = 2

    def scaled(scaling: Scaled, n: int) -> Any:
        return scaling.scale * n

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(scaled)
    scaling = Scaled()
    for number in (2, 3, 4, 5):
        scaling.scale = number
        assert optimized(scaling, number) == number * number
    assert backend.graphs == []
    scaling.scale = X
    assert torch.equal(optimized(scaling, 3), X * 3)
    assert len(backend.graphs) == 1


def test_a_method_that_looks_at_a_parameter_is_captured() -> None:
    """A module in reach is no reason to run plain, nor to be captured: looking at a tensor is."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, 3))

        def forward(self) -> int:
            return int(self.weight.detach().argmax() + self.weight.shape[0])

    assert_same_as_eager(Model(), graphs=1)


def test_what_is_always_plain_is_left_alone_at_last(stores: list[CacheStore]) -> None:
    """Code that met nothing worth a graph under as many different guards as it may have entries is not asked again."""

    def kind(value: object) -> str:
        return type(value).__name__

    classes = [type(f"Kind{number}", (), {}) for number in range(12)]
    optimized = dynexplore.optimize(CountingBackend())(kind)
    assert [optimized(cls()) for cls in classes] == [cls.__name__ for cls in classes]
    (cache,) = [cache for store in stores for cache in store.caches() if cache.code is kind.__code__]
    assert (cache.skip, len(cache.entries)) == (True, dynexplore.config.cache_size_limit)


def call_often(function: Callable[..., Any], *values: Any) -> list[Any]:
    """What a function gives for each value, in turn."""
    return [function(value) for value in values]


def test_other_types_of_arguments_are_looked_at_anew(stores: list[CacheStore]) -> None:
    """Each combination of argument classes has an entry of its own, and bool is no int."""

    def negated(value: Any) -> Any:
        return -value

    optimized = dynexplore.optimize(CountingBackend())(negated)
    assert call_often(optimized, 1, 2, 3, 1.5, 2.5, True, False, 4) == [-1, -2, -3, -1.5, -2.5, -1, 0, -4]
    types = {entry.slot_types for entry in entries_of(stores, negated.__code__) if entry.hits}
    assert types == {(int,), (float,), (bool,)}
    assert all(entry.left_to_python for entry in entries_of(stores, negated.__code__))
