"""engine/runtime/cache.py: what is known of an entry beside what C knows, and why it does not fit."""

from __future__ import annotations

import gc
from typing import Any

import torch

import dynexplore
from dynexplore.engine.native import CodeCache, FrameState, Region, RegionCall
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.runtime import cache as caches
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import resolve
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options, Store

X = torch.ones(3)


def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


def compiled(fn: Any, *calls: tuple[Any, ...]) -> tuple[Store, CodeCache]:
    """A store in which `fn` was called with each of these arguments, and the cache of its code."""
    store = make_store(resolve("eager"), Options())
    for args in calls:
        wrap(fn, store.region)(*args)
    return store, store.native.cache_of(fn.__code__)


@dynexplore.config.patch(specialize_float=True)
def test_what_an_entry_knows() -> None:
    """Number, graphs, guards; a new entry stands first."""
    _, cache = compiled(scaled, (X, 1.5), (X, 2.5))
    newest, oldest = cache.entries
    assert isinstance(newest, caches.CompiledEntry) and newest.number == oldest.number + 1
    assert len(newest.graphs) == 1 and newest.graphs[0].startswith("__compiled_fn_")
    assert [guard.kind for guard in newest.guards.guards].count("TENSOR_MATCH") == 1


@dynexplore.config.patch(specialize_float=True)
def test_why_entries_do_not_fit() -> None:
    """One miss for each entry, with the guard, expected and actual, in the order in which they are tried."""
    _, cache = compiled(scaled, (X, 1.5), (X, 2.5))
    found = caches.misses(cache, Scope({"x": X, "factor": 9.5}, None, globals()))
    assert [(miss.source, miss.kind, miss.expected, miss.actual) for miss in found] == [
        ("factor", "EQUALS", "2.5", "9.5"),
        ("factor", "EQUALS", "1.5", "9.5"),
    ]
    assert str(found[0]) == "local 'factor' EQUALS: expected 2.5, found 9.5" and not found[0].is_identity
    assert caches.misses(cache, Scope({"x": X, "factor": 1.5}, None, globals()))[0].entry is cache.entries[0]


def test_another_instance_is_an_identity_miss() -> None:
    """That only another object stands there is told apart: one entry may then serve all of them."""
    block = torch.nn.Linear(3, 3)

    def call(module: Any, x: torch.Tensor) -> torch.Tensor:
        return module(x)

    _, cache = compiled(call, (block, X))
    (miss,) = caches.misses(cache, Scope({"module": torch.nn.Linear(3, 3), "x": X}, call.__closure__, globals()))
    assert miss.is_identity and miss.source == "module"


def test_blocks_of_one_class_need_two_entries() -> None:
    """Many instances of the same block make two entries and not one each."""
    blocks = [torch.nn.Linear(3, 3) for _ in range(6)]

    def call(module: Any, x: torch.Tensor) -> torch.Tensor:
        return module(x)

    _, cache = compiled(call, *[(block, X) for block in blocks], (blocks[0], X))
    assert len(cache.entries) == 2


def test_an_entry_leaves_when_its_object_dies() -> None:
    """The weak callback takes it out, and nothing else."""
    block = torch.nn.Linear(3, 3)

    def call(module: Any, x: torch.Tensor) -> torch.Tensor:
        return module(x) if module is not None else x + 1

    store, cache = compiled(call, (block, X), (None, X))
    assert len(cache.entries) == 2
    del block
    gc.collect()
    assert len(cache.entries) == 1 and cache.entries[0].valid
    assert torch.equal(wrap(call, store.region)(None, X), X + 1) and len(cache.entries) == 1


def test_an_entry_may_die_before_its_object() -> None:
    """Forgetting everything first, and dropping the object later, disturbs nobody."""
    block = torch.nn.Linear(3, 3)
    store, cache = compiled(lambda module, x: module(x), (block, X))
    assert len(cache.entries) == 1
    store.native.clear()
    del cache
    gc.collect()
    del block
    gc.collect()


def test_fits_is_what_the_hook_does() -> None:
    """A frame that waited for the lock finds the entry that was made meanwhile, under the same guards."""
    _, cache = compiled(scaled, (X, 1.5))
    answers: list[bool] = []

    def look(state: FrameState) -> None:
        answers.append(caches.fits(cache.entries[0], state))

    watch = RegionCall(scaled, Region(None, look))
    for args in ((X, 1.5), (X, 2.5), (X.double(), 1.5), (None, 1.5)):
        try:
            watch(*args)
        except TypeError:
            assert args[0] is None
    assert answers == [True, False, False, False]
    cache.entries[0].valid = False
    watch(X, 1.5)
    assert answers[-1] is False


def test_the_state_of_a_code_object() -> None:
    """What earlier calls looked like is kept in the cache's payload, once."""
    _, cache = compiled(scaled, (X, 1.5))
    assert caches.state_of(cache) is caches.state_of(cache) is cache.payload
    assert dynexplore.counters["frames"]["total"] == 1
