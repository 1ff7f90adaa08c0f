"""Stores: who owns what was compiled.

The idea: code objects only borrow their cache entries (native/cache.c). A `Store` owns them: one per backend and set of options,
so that a function that is wrapped twice shares its entries and its limit. The store is owned by its backend: by the backend
callable itself, in its `__dict__`, where the garbage collector sees the cycle of backend, entries and graphs and can free all of
it at once; or, for a backend known by name, by a table in this file, until `reset()`.

In: a backend, `nopython`, `dynamic`. Out: their `Store`. PyTorch's counterpart: none; it has one cache per code object
(extra_state.cpp) that all backends share.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, MethodType
from typing import Any

from dynexplore.engine.native import CacheStore, Entry, FrameState, Region
from dynexplore.engine.provenance.guard_filter import GuardFilter
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.records import record
from dynexplore.engine.runtime.backends import Backend
from dynexplore.engine.runtime.observers import Observers
from dynexplore.engine.specialization.break_chains import BreakChains
from dynexplore.engine.specialization.module_classes import ModuleClasses
from dynexplore.engine.specialization.size_oblivious import BackendSizeGuards

_births = itertools.count()


@record()
class Options:
    """The options that, besides the backend, affect what is compiled."""

    nopython: bool = False
    dynamic: bool | None = None
    guard_filter: GuardFilter | None = None
    entry_limit: int | None = None


class Store:
    """What was compiled with one backend and one set of options, and the region in which it is used.

    A backend may have, as attributes, a `recorder` of events, and an `entry_limit` that replaces the limit of entries per code
    object.
    """

    def __init__(self, backend: Backend, options: Options) -> None:
        self.backend = backend
        self.options = options
        self.native = CacheStore()
        self.callback: Callable[[FrameState], Entry | None] | None = None
        """The function that creates a new entry; the region's callback, unless another backend is forced."""
        self.region = Region(self.native, None)
        self.observers = Observers(recorder=getattr(backend.function, "recorder", _recorders[-1] if _recorders else None))
        self.entry_limit: int | None = getattr(backend.function, "entry_limit", None)
        self.module_classes = ModuleClasses()
        self.break_chains = BreakChains()
        self.backend_size_guards = BackendSizeGuards()
        self.patience = 1.0
        """Halved by each frame whose translation took too long: its callees, run next, probably do, too. A graph restores it."""
        self.idle_seconds: weakref.WeakKeyDictionary[CodeType, float] = weakref.WeakKeyDictionary()
        """The translation time of a function's latest consecutive resume functions without any tensor operation."""
        self.used = next(_births)
        _all.add(self)

    def note_use(self) -> None:
        """Record that this store is used for a compilation: `run()` without a function uses the latest one."""
        self.used = next(_births)

    def has_entries_for(self, code: CodeType) -> bool:
        """Whether something was compiled for this code object."""
        return any(cache.code is code and cache.entries for cache in self.native.caches())


_all: weakref.WeakSet[Store] = weakref.WeakSet()
_named: dict[Hashable, Store] = {}
_unowned: dict[Hashable, tuple[Any, Store]] = {}
"""Stores of callables that can hold no attribute (C functions, classes with slots), with the callable, until reset()."""


class _Owned:
    """The stores of one backend callable, kept in its `__dict__`. A copy of the callable has none."""

    def __init__(self, owner: Any) -> None:
        self.owner = weakref.ref(owner)
        self.stores: dict[Hashable, Store] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing_owned, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Owned:
        return _nothing_owned()


class _NoOwner:
    pass


def _nothing_owned() -> _Owned:
    return _Owned(_NoOwner())


_ATTRIBUTE = "__dynexplore_stores__"

Make = Callable[[Backend, Options], Store]


def store_of_name(key: Hashable, backend: Backend, options: Options, make: Make) -> Store:
    """The store of a backend known by name; `key` is the name and its arguments."""
    store_key = (key, options)
    store = _named.get(store_key)
    if store is None:
        store = _named[store_key] = make(backend, options)
    return store


def store_of_callable(function: Any, backend: Backend, options: Options, make: Make) -> Store:
    """The store of a backend callable, owned by it. For a bound method, its object is the owner."""
    owner, method = (function.__self__, function.__func__) if isinstance(function, MethodType) else (function, None)
    owned = _owned_by(owner)
    if owned is None:
        unowned = _unowned.get((id(owner), method, options))
        if unowned is None:
            unowned = _unowned[id(owner), method, options] = (owner, make(backend, options))
        return unowned[1]
    store = owned.stores.get((method, options))
    if store is None:
        store = owned.stores[method, options] = make(backend, options)
    return store


def _owned_by(owner: Any) -> _Owned | None:
    """The stores kept in an object's own `__dict__`; None if it has none."""
    own = getattr(owner, "__dict__", None)
    if not isinstance(own, dict):
        return None
    attribute = own.get(_ATTRIBUTE)
    # functools.wraps copies the attribute to another function, which is not the owner
    if not isinstance(attribute, _Owned) or attribute.owner() is not owner:
        try:
            attribute = own[_ATTRIBUTE] = _Owned(owner)
        except TypeError:  # cannot be weakly referenced
            return None
    return attribute


# -- a recorder for all of them ----------------------------------------------------------------------------------------------

_recorders: list[Recorder] = []


@contextlib.contextmanager
def recorded_by(recorder: Recorder) -> Iterator[None]:
    """Attach a recorder in a `with` block to all stores without one, existing or new."""
    unrecorded = [store for store in _all if store.observers.recorder is None]
    for store in unrecorded:
        store.observers.recorder = recorder
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)
        for store in list(_all):
            if store.observers.recorder is recorder:
                store.observers.recorder = None


# -- another backend for all of them -----------------------------------------------------------------------------------------

_forced: list[Callable[[Store], Store]] = []
_led: weakref.WeakSet[Store] = weakref.WeakSet()  # those that a program enters; tools use their own


def force(other: Callable[[Store], Store] | None) -> None:
    """Redirect the regions of the program's stores, now and later, to `other(store)`; None: to the store itself."""
    _forced[:] = [] if other is None else [other]
    for store in list(_led):
        lead(store)


def lead(store: Store) -> Store:
    """Redirect the region of a store that the program uses as currently configured; returns the store."""
    _led.add(store)
    led_to = _forced[0](store) if _forced else store
    store.region.store, store.region.callback = led_to.native, led_to.callback
    return store


def store_of_region(region: object) -> Store | None:
    """The store whose region this is; None for a foreign region or None."""
    return next((store for store in _all if store.region is region), None)


def all_stores() -> Iterator[Store]:
    """Every living store, the most recently used first."""
    return iter(sorted(_all, key=lambda store: -store.used))


def clear() -> None:
    """Drop everything that was compiled, and release the stores of named backends."""
    for store in list(_all):
        store.native.clear()
        store.module_classes.forget()
        store.break_chains.forget()
        store.observers.modified_codes.clear()
    _unowned.clear()
