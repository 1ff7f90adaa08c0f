"""engine/runtime/stores.py: a store belongs to its backend."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.runtime import stores
from dynexplore.engine.runtime.api import store_for
from dynexplore.engine.runtime.stores import Options
from engine_checks import CountingBackend

PLAIN = Options()


def backend(graph: Any, inputs: Any) -> Any:
    return graph.forward


class WithSlots:
    __slots__ = ()

    def __call__(self, graph: Any, inputs: Any) -> Any:
        return graph.forward


class WithMethod:
    def compile(self, graph: Any, inputs: Any) -> Any:
        return graph.forward


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_one_store_for_each_backend_and_options() -> None:
    """The same backend with the same options has one store; other options or another backend have another."""
    other = CountingBackend()
    assert store_for(backend, PLAIN) is store_for(backend, Options())
    assert store_for("eager", PLAIN) is store_for("eager", PLAIN) is not store_for(backend, PLAIN)
    found = {store_for(one, options) for one in (backend, other, "eager") for options in (PLAIN, Options(nopython=True))}
    assert len(found) == 6


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_a_bound_method_is_one_backend() -> None:
    """obj.compile is a new object each time it is read, and the same backend; another instance is another."""
    one, two = WithMethod(), WithMethod()
    assert store_for(one.compile, PLAIN) is store_for(one.compile, PLAIN) is not store_for(two.compile, PLAIN)


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_a_backend_that_can_hold_no_attribute() -> None:
    """C functions and classes with slots have a store, too; it is kept until reset."""
    slotted = WithSlots()
    store = store_for(slotted, PLAIN)
    assert store_for(slotted, PLAIN) is store
    dynexplore.reset()
    assert store_for(slotted, PLAIN) is not store


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_a_wrapper_of_a_backend_has_its_own_store() -> None:
    """functools.wraps copies attributes, and the store must not go along."""
    store_for(backend, PLAIN)

    @functools.wraps(backend)
    def wrapper(graph: Any, inputs: Any) -> Any:
        return backend(graph, inputs)

    assert store_for(wrapper, PLAIN) is not store_for(backend, PLAIN)


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_a_copy_of_a_backend_has_its_own_store() -> None:
    """A backend object that owns a store can be copied and pickled as before."""
    original = WithMethod()
    store = store_for(original.compile, PLAIN)
    for copied in (copy.copy(original), copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert store_for(copied.compile, PLAIN) is not store
    assert store_for(original.compile, PLAIN) is store


def test_all_stores_begins_with_the_latest_used() -> None:
    """The store into which something was compiled last comes first."""
    first, second = CountingBackend(), CountingBackend()
    for number, one in enumerate((first, second, first)):
        dynexplore.optimize(one)(lambda x, n: x + n)(torch.ones(2), number + 0.5)
    assert next(stores.all_stores()) is store_for(first, PLAIN)


@pytest.mark.plain("stores by themselves; nothing is compiled")
def test_a_store_dies_with_its_backend() -> None:
    """Nothing else holds a store that belongs to a callable."""
    temporary = CountingBackend()
    dynexplore.optimize(temporary)(lambda x: x + 1)(torch.ones(2))
    reference = weakref.ref(store_for(temporary, PLAIN))
    del temporary
    gc.collect()
    assert reference() is None
