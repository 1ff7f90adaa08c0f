"""Work on numbers alone runs as it is written, under guards: what is left of them, and that tensors are captured all the same."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections import namedtuple
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
    types = entries[0].types
    assert types is not None
    assert [types.holds((None, *pair)) for pair in ((1, 2), (1, True), (X, 2))] == [True, False, False]
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
    guards = [entry.types for entry in entries_of(stores, negated.__code__) if entry.hits]
    taken = [[type(value) for value in (1, 1.5, True) if types is not None and types.holds((value,))] for types in guards]
    assert sorted(taken, key=str) == [[bool], [float], [int]]
    assert all(entry.left_to_python for entry in entries_of(stores, negated.__code__))


class Costly:
    """Its cost stands in its dictionary."""

    def __init__(self, cost: Any) -> None:
        self.cost = cost


class Slotted:
    """Its cost stands in a slot."""

    __slots__ = ("cost",)

    def __init__(self, cost: Any) -> None:
        self.cost = cost


class Hidden:
    """Its cost is a property."""

    def __init__(self, cost: Any) -> None:
        self._cost = cost

    @property
    def cost(self) -> Any:
        return self._cost


class Asked:
    """Its cost comes from `__getattr__`."""

    def __init__(self, cost: Any) -> None:
        self.kept = cost

    def __getattr__(self, name: str) -> Any:
        return self.kept


Pair = namedtuple("Pair", "name cost")


def by_cost(a: Any, b: Any) -> Any:
    """What a comparison function does."""
    return a.cost - b.cost


def by_second(a: Any, b: Any) -> Any:
    """What a comparison function of pairs does."""
    return a[1] - b[1]


def compared(compare: Callable[[Any, Any], Any], items: list[Any]) -> list[Any]:
    """What a comparison function gives for neighbours, in turn."""
    return [compare(a, b) for a, b in itertools.pairwise(items)]


@pytest.mark.parametrize(
    ("compare", "make"),
    [(by_cost, Costly), (by_cost, Slotted), (by_cost, Hidden), (by_cost, lambda cost: Pair("a", cost)),
     (by_second, lambda cost: ("a", cost)), (by_second, lambda cost: ["a", cost])],
    ids=["attribute", "slot", "property", "named tuple", "tuple", "list"],
)  # fmt: skip
def test_a_comparison_of_what_objects_hold_asks_only_c(
    compare: Callable[[Any, Any], Any], make: Callable[[Any], Any], stores: list[CacheStore]
) -> None:
    """Of a comparison of attributes or items the classes of objects and numbers are left to ask; a tensor there is captured."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(compare)
    items = [make(number) for number in NUMBERS]
    assert compared(optimized, items) == compared(compare, items)
    assert backend.graphs == []
    (entry, *_) = [entry for entry in entries_of(stores, compare.__code__) if entry.hits > 4]
    assert entry.left_to_python
    assert (entry.check, entry.types is not None) == (None, True)
    assert torch.equal(optimized(make(X), make(2)), X - 2)
    assert len(backend.graphs) == 1
    assert compared(optimized, items) == compared(compare, items)


def test_getattr_of_the_program_gives_what_it_gives_in_plain_python() -> None:
    """A comparison of what `__getattr__` computes is right with numbers, and captured with tensors."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(by_cost)
    items = [Asked(number) for number in NUMBERS]
    assert compared(optimized, items) == compared(by_cost, items)
    assert torch.equal(optimized(Asked(X), Asked(2)), X - 2)
    assert len(backend.graphs) == 1
    items[0].cost = 100  # `__getattr__` is not asked any more
    assert compared(optimized, items) == compared(by_cost, items)


def test_a_class_that_changes_below_a_plain_comparison_is_asked_again() -> None:
    """An attribute that becomes a property that computes a tensor, and an object that changes its class, are captured."""

    class Kind:
        def __init__(self, cost: Any) -> None:
            self.cost = cost

    class Tensorial(Kind):
        cost = property(lambda self: X * 2, lambda self, value: None)

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(by_cost)
    items = [Kind(number) for number in NUMBERS]
    assert compared(optimized, items) == compared(by_cost, items)
    changed = Kind(3)
    changed.__class__ = Tensorial
    assert torch.equal(optimized(changed, items[1]), X * 2 - 1)
    assert len(backend.graphs) == 1
    Kind.cost = property(lambda self: X * 3)
    assert torch.equal(optimized(items[0], items[1]), X * 0)
    assert len(backend.graphs) == 2


def test_a_flag_that_varied_and_then_is_a_tensor_is_captured(stores: list[CacheStore]) -> None:
    """Of a constant attribute that was seen to change its class is still asked."""

    def scaled(owner: Costly) -> Any:
        return 2 if owner.cost is True else owner.cost

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(scaled)
    assert [optimized(Costly(cost)) for cost in (True, False, True, False, True)] == [2, False, 2, False, 2]
    assert backend.graphs == []
    assert torch.equal(optimized(Costly(X)), X)
    (entry, *_) = [entry for entry in entries_of(stores, scaled.__code__) if entry.left_to_python]
    assert entry.types is not None
    assert [entry.types.holds((Costly(cost),)) for cost in (True, False, X)] == [True, True, False]


CALLS: list[Any] = [0]
SEEN: dict[str, Any] = {"calls": 0}


def counts_in_a_list(a: int, b: int) -> Any:
    CALLS[0] += 1
    return a - b


def counts_in_a_dict(a: int, b: int) -> Any:
    SEEN["calls"] += 1
    return a - b


def cell_that_counts() -> tuple[Callable[[int, int], Any], Callable[[Any], None]]:
    calls: Any = 0

    def counts(a: int, b: int) -> Any:
        nonlocal calls
        calls += 1
        return a - b

    def put(value: Any) -> None:
        nonlocal calls
        calls = value

    return counts, put


COUNTS, PUT = cell_that_counts()


@pytest.mark.parametrize(("compares", "put"), [
    (counts_in_a_list, lambda value: CALLS.__setitem__(0, value)),
    (counts_in_a_dict, lambda value: SEEN.__setitem__("calls", value)),
    (COUNTS, PUT),
], ids=["list", "dict", "cell"])  # fmt: skip
def test_a_comparison_that_counts_its_calls_is_asked_in_c(
    compares: Callable[[int, int], Any], put: Callable[[Any], None], stores: list[CacheStore]
) -> None:
    """What it counts in a global or a cell is asked for its class only, without a call; a tensor there is captured."""

    def sorts(numbers: list[int]) -> list[int]:
        return sorted(numbers, key=functools.cmp_to_key(compares))

    put(0)
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(sorts)
    assert [optimized(NUMBERS) for _ in range(3)] == [sorted(NUMBERS)] * 3
    assert backend.graphs == []
    entries = entries_of(stores, compares.__code__)
    assert entries[0].hits > 20 and entries[0].check is None and entries[0].types is not None
    put(torch.ones(3))
    assert optimized(NUMBERS) == sorted(NUMBERS)
    assert backend.targets() == [["iadd"]]


def test_what_finds_a_module_is_left_to_python(stores: list[CacheStore]) -> None:
    """A frame that looks at no tensor and gives a module runs as it is written, whichever module a number chooses."""
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(12)).requires_grad_(False)

    def chosen(layers: Any, number: int) -> Any:
        return layers[number]

    optimized = dynexplore.optimize(CountingBackend())(chosen)
    assert [optimized(layers, number) for number in range(12)] == list(layers)
    assert 1 <= len(entries_of(stores, chosen.__code__)) <= 3


def test_numbers_with_a_break_between_them_are_left_to_python(stores: list[CacheStore]) -> None:
    """A comparison that breaks, called by C code, runs plain as a whole once what follows its breaks was found to."""
    pointer, calls, numbers = ctypes.POINTER(ctypes.c_int), [0], [5, 3, 9, 1, 7, 2]
    array = (ctypes.c_int * len(numbers))()

    def compared(p: Any, q: Any) -> int:
        calls[0] += 1
        difference = p[0] - q[0]
        return 1 if difference > 0 else -1 if difference < 0 else 0

    called_back = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(compared)

    def sort(x: torch.Tensor) -> Any:
        y = x + 1
        array[:] = numbers
        ctypes.CDLL(None).qsort(array, len(numbers), ctypes.sizeof(ctypes.c_int), called_back)
        return y * 2, list(array), calls[0]

    expected = [sort(X)[1:] for _ in range(4)]
    calls[0] = 0
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(sort)
    found = [optimized(X) for _ in range(4)]
    assert [result[1:] for result in found] == expected
    assert all(torch.equal(result[0], (X + 1) * 2) for result in found)
    entries = entries_of(stores, compared.__code__)
    assert entries and all(entry.left_to_python for entry in entries)
    graphs, runs = len(backend.graphs), backend.runs
    optimized(X)
    assert (len(backend.graphs), backend.runs) == (graphs, runs + 2)  # those of the caller alone


def test_tensors_after_numbers_with_a_break_between_them() -> None:
    """A frame that broke, and was left to Python as a whole for numbers, is captured for a tensor."""

    def scaled(value: Any, by: int) -> Any:
        more = by + 1
        print(end="")
        return value * more

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(scaled)
    assert [optimized(number, 2) for number in (1, 2, 3, 4, 5)] == [3, 6, 9, 12, 15]
    graphs = len(backend.graphs)
    for _ in range(2):
        assert torch.equal(optimized(X, 2), X * 3)
    assert len(backend.graphs) == graphs + 1
    assert [optimized(number, 2) for number in (1, 2)] == [3, 6]


def test_a_frame_that_names_torch_is_looked_at_behind_its_break() -> None:
    """What goes on behind a break may make tensors where the function names torch: numbers in the first calls do not settle it."""

    def late(number: int) -> Any:
        more = number + 1
        print(end="")
        return torch.ones(3) * more if number > 2 else more

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(late)
    assert [optimized(number) for number in (0, 1, 2, 0, 1)] == [1, 2, 3, 1, 2]
    runs = backend.runs
    assert torch.equal(optimized(5), torch.ones(3) * 6)
    assert backend.runs > runs
