"""engine/runtime/reachable_state.py: a call finds everything that it can change as the first call found it, wherever it is held."""

from __future__ import annotations

import argparse
import collections
import functools
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from dynexplore.engine.runtime.call_snapshot import CallSnapshot

pytestmark = pytest.mark.plain("keeps and puts back state around any run")


class Trained:
    """What a call changes: a module, numbers, containers, tensors, an optimizer of a tensor that no module has."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        vars(self.model)["calls"] = 0
        self.count = 0
        self.log: list[Any] = []
        self.table: dict[str, Any] = collections.OrderedDict(a=1)
        self.recent: collections.deque[int] = collections.deque([1], maxlen=2)
        self.data = bytearray(b"a")
        self.names = {"a"}
        self.cache = torch.zeros(2)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.optimizer = torch.optim.SGD([self.weight], lr=0.5, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.random = random.Random(0)

    def change(self) -> float:
        """Change all of it."""
        loss = self.model(torch.ones(3, 2)).sum() * self.weight.sum() + self.cache.sum() + self.count + self.random.random()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        vars(self.model)["calls"] += 1
        self.model.eval()
        self.count += 1
        self.late = self.count
        self.log.append([self.count])
        self.table["b"] = self.count
        self.table["a"] = 2
        self.recent.append(self.count)
        self.data.append(98)
        self.names.add("b")
        self.cache.add_(1)
        return float(loss.item())

    def seen(self) -> Any:
        """All of it as plain data."""
        tensors = [*self.model.parameters(), *self.model.buffers(), self.cache, self.weight]
        gradients = [tensor.grad is None for tensor in tensors]
        containers = list(self.log), dict(self.table), list(self.recent), bytes(self.data), set(self.names)
        plain = self.count, hasattr(self, "late"), containers
        rates = self.optimizer.param_groups[0]["lr"], self.schedule.last_epoch, self.model.training, vars(self.model)["calls"]
        return [tensor.tolist() for tensor in tensors], gradients, plain, rates, self.random.getstate()


class Trainer:
    """A plain object."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def step(self) -> float:
        return self.trained.change()

    def __call__(self) -> float:
        return self.trained.change()


class InSlots:
    __slots__ = ("late", "trained")

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def step(self) -> float:
        return self.trained.change()


@dataclass
class Settings:
    trained: Trained
    more: list[Trained] = field(default_factory=list)

    def step(self) -> float:
        return self.trained.change()


class Pair(list[Any]):
    """A list with an attribute."""


class Net(torch.nn.Module):
    """A module with a plain object."""

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.trainer = Trainer(trained)

    def forward(self) -> float:
        return self.trainer.step()


GLOBAL: list[Trained] = []


def by_global() -> float:
    return GLOBAL[0].change()


def by_a_helper() -> float:
    return by_global()


class UsesAGlobal:
    def step(self) -> float:
        return self.inner()

    def inner(self) -> float:
        return by_global()


def in_a_namespace(trained: Trained) -> Callable[[], float]:
    """A module of the program, whose attribute a function reads."""
    module = types.ModuleType("settings_of_the_program")
    vars(module)["trained"] = trained
    namespace: dict[str, Any] = {"settings": module, "__name__": "program"}
    exec("def step():\n    return settings.trained.change()\n", namespace)
    step: Callable[[], float] = namespace["step"]
    return step


def with_attribute(trained: Trained) -> Callable[[], float]:
    pair = Pair()
    pair.trained = trained  # type: ignore[attr-defined]
    return lambda: pair.trained.change()  # type: ignore[attr-defined]


def with_default(trained: Trained) -> Callable[[], float]:
    def step(own: Trained = trained) -> float:
        return own.change()

    return step


def with_keyword_default(trained: Trained) -> Callable[[], float]:
    def step(*, own: Trained = trained) -> float:
        return own.change()

    return step


HOLDERS: dict[str, Callable[[Trained], Callable[[], float]]] = {
    "closure": lambda trained: lambda: trained.change(),
    "closure of a closure": lambda trained: (lambda inner: lambda: inner())(lambda: trained.change()),
    "attribute of a plain object": lambda trained: (lambda trainer: lambda: trainer.trained.change())(Trainer(trained)),
    "attribute of an object in a list": lambda trained: (lambda outer: lambda: outer[0].trained.change())([Trainer(trained)]),
    "bound method": lambda trained: Trainer(trained).step,
    "callable object": lambda trained: Trainer(trained),
    "slot": lambda trained: InSlots(trained).step,
    "dict": lambda trained: (lambda table: lambda: table["trained"].change())({"trained": trained}),
    "list": lambda trained: (lambda items: lambda: items[0].change())([trained]),
    "tuple": lambda trained: (lambda items: lambda: items[1].change())((0, trained)),
    "set": lambda trained: (lambda items: lambda: next(iter(items)).change())({trained}),
    "deque": lambda trained: (lambda items: lambda: items[0].change())(collections.deque([trained])),
    "defaultdict": lambda trained: (lambda table: lambda: table["x"].change())(collections.defaultdict(Trained, x=trained)),
    "namespace object": lambda trained: (lambda space: lambda: space.trained.change())(types.SimpleNamespace(trained=trained)),
    "namespace of argparse": lambda trained: (lambda space: lambda: space.trained.change())(argparse.Namespace(trained=trained)),
    "UserDict": lambda trained: (lambda table: lambda: table["trained"].change())(collections.UserDict(trained=trained)),
    "attribute of a list": with_attribute,
    "dataclass": lambda trained: Settings(trained).step,
    "default": with_default,
    "keyword default": with_keyword_default,
    "partial": lambda trained: functools.partial(lambda own: own.change(), trained),
    "keyword of a partial": lambda trained: functools.partial(lambda own: own.change(), own=trained),
    "partial of a bound method": lambda trained: functools.partial(Trainer.step, Trainer(trained)),
    "nn.Module": lambda trained: Net(trained),
    "global": lambda trained: (GLOBAL.__setitem__(slice(None), [trained]), by_global)[1],
    "global of a helper": lambda trained: (GLOBAL.__setitem__(slice(None), [trained]), by_a_helper)[1],
    "global of a method": lambda trained: (GLOBAL.__setitem__(slice(None), [trained]), UsesAGlobal().step)[1],
    "attribute of a module": in_a_namespace,
}


@pytest.fixture(autouse=True)
def _empty_global() -> Iterator[None]:
    yield
    GLOBAL.clear()


@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")  # torch counts steps of the optimizer on its method
@pytest.mark.parametrize("name", HOLDERS)
def test_each_run_begins_alike(name: str) -> None:
    """Whatever holds it: three runs return the same, and afterwards everything is as before."""
    torch.manual_seed(0)
    trained = Trained()
    call = HOLDERS[name](trained)
    before = trained.seen()
    start = CallSnapshot(call, (), {})
    results = []
    for _ in range(3):
        args, kwargs = start.fresh()
        results.append(call(*args, **kwargs))
        assert trained.seen() != before
    start.fresh()
    assert results[0] == results[1] == results[2]
    assert trained.seen() == before


def test_an_argument_that_cannot_be_copied_is_restored() -> None:
    """All runs share it, so that it is restored in place."""

    class Uncopied(Trainer):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("no")

    trained = Trained()
    before = trained.seen()
    start = CallSnapshot(Trainer.step, (Uncopied(trained),), {})
    for _ in range(2):
        args, kwargs = start.fresh()
        Trainer.step(*args, **kwargs)
    start.fresh()
    assert trained.seen() == before


def test_tensors_have_their_paths() -> None:
    """Names of two modules' tensors do not hide each other."""
    both = Trainer(Trained()), Trainer(Trained())
    reached = CallSnapshot(lambda: [one.step() for one in both], (), {}).reached()["state"]
    assert {"0.weight", "both[0].trained.cache", "both[1].trained.cache", "both[1].trained.weight"} <= set(reached)
    assert sum(name.startswith("0.weight") for name in reached) == 2


def test_what_a_program_shares_is_not_entered() -> None:
    """No code of the user runs, and modules, classes and objects of the standard library stay as they are."""

    class Noisy:
        kept = [1]

        @property
        def model(self) -> Any:
            raise AssertionError("a property was read")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("an attribute was looked up")

    noisy = Noisy()
    start = CallSnapshot(lambda: (noisy, noisy.model, sys.modules), (), {})
    sys.modules["a_module_that_a_call_imports"] = types.ModuleType("a")
    try:
        start.fresh()
        assert "a_module_that_a_call_imports" in sys.modules
    finally:
        sys.modules.pop("a_module_that_a_call_imports", None)


MANY: list[Any] = []
NEAR: list[int] = []


def reads_many() -> int:
    NEAR.append(len(MANY))
    return len(NEAR)


@pytest.mark.parametrize(("item", "is_complete"), [(str, True), (float, True), (lambda at: [at], False)])
def test_what_is_near_is_found_first(item: Callable[[int], Any], is_complete: bool) -> None:
    """Numbers and strings change nothing and do not count; of too many objects, those that the call names come first, and the
    caller is told.
    """
    MANY[:] = map(item, range(30_000))
    try:
        start = CallSnapshot(reads_many, (), {})
        results = []
        for _ in range(2):
            start.fresh()
            results.append(reads_many())
        start.fresh()
        assert results == [1, 1] and not NEAR and start.is_complete is is_complete
    finally:
        MANY.clear()


class Refuses:
    """Whatever Python would ask of it raises."""

    def __init__(self) -> None:
        object.__setattr__(self, "log", [])

    def __getattribute__(self, name: str) -> Any:
        raise OSError("an attribute was looked up")


class RefusesItsDict:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise OSError("the property __dict__ was read")


class Key:
    """Its hash and comparison can be forbidden."""

    forbidden = False

    def __hash__(self) -> int:
        if Key.forbidden:
            raise OSError("hashed")
        return 1

    def __eq__(self, other: object) -> bool:
        if Key.forbidden:
            raise OSError("compared")
        return self is other


def test_no_code_of_the_user_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither lookups nor hashes, when the state is noted and when it is restored."""
    refuses, own, key = Refuses(), RefusesItsDict(), Key()
    table, members = {key: 1}, {key}

    def call() -> Any:
        return refuses, own, table, members

    monkeypatch.setattr(Key, "forbidden", True)
    start = CallSnapshot(call, (), {})
    log = object.__getattribute__(refuses, "log")
    log.append(1)
    members.clear()
    table.clear()
    start.fresh()
    assert log == [] and len(members) == len(table) == 1 and next(iter(members)) is next(iter(table)) is key


def test_what_is_unchanged_is_not_written() -> None:
    """A container may be iterated over while a call is tried."""
    items, recent, table, names = [1, 2], collections.deque([1, 2]), {1: 2, 3: 4}, {1, 2}
    start = CallSnapshot(lambda: (items, recent, table, names), (), {})
    iterators: list[Iterator[int]] = [iter(items), iter(recent), iter(table), iter(names)]
    for iterator in iterators:
        next(iterator)
    start.fresh()
    assert [len(list(iterator)) for iterator in iterators] == [1, 1, 1, 1]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:Lazy modules are a new feature:UserWarning")
def test_modules_without_plain_registries() -> None:
    """TorchScript has its own registries, and a lazy module parameters without a size."""
    scripted, lazy, log = torch.jit.script(torch.nn.Linear(2, 2)), torch.nn.LazyLinear(2), [0]

    def call() -> Any:
        with torch.no_grad():
            scripted.weight.add_(1)
        log.append(1)
        return lazy

    start = CallSnapshot(call, (), {})
    before = scripted.weight.tolist()
    for _ in range(2):
        start.fresh()
        call()
        assert scripted.weight.tolist() != before
    start.fresh()
    assert scripted.weight.tolist() == before and log == [0]
