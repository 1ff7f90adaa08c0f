"""Who owns cache entries: stores do, code objects only borrow, and the garbage collector sees everything."""

from __future__ import annotations

import gc
import weakref
from types import CodeType

import pytest
from code_swaps import identical, swapped, swapping_region

from dynexplore.engine.native import (
    CacheStore,
    CodeCache,
    Entry,
    FrameState,
    GuardWalk,
    Region,
    TypeGuard,
    is_skipped,
    skip_code,
    skip_code_recursively,
    unskip_code,
)

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")


def new_code(name: str = "fn") -> CodeType:
    """A code object that nobody else holds."""
    scope: dict[str, object] = {}
    exec(f"def {name}(x):\n    return x", scope)
    return scope[name].__code__  # type: ignore[attr-defined]


class Thing:
    """Something that can be referenced weakly."""


def test_one_cache_per_code_object_and_store() -> None:
    """A store makes one cache for a code object, other stores make their own; `caches` lists the oldest first."""
    store, other, first, second = CacheStore(), CacheStore(), new_code("first"), new_code("second")
    assert store.caches() == []
    assert store.cache_of(first) is store.cache_of(first)
    assert store.cache_of(first) is not other.cache_of(first)
    assert [cache.code for cache in (store.cache_of(second), *store.caches())] == [second, first, second]
    cache = store.cache_of(first)
    assert (cache.entries, cache.skip, cache.payload) == ((), False, None)
    assert repr(cache) == "<CodeCache of first, 0 entries>"


def test_equal_code_objects_have_caches_of_their_own() -> None:
    """Code objects that compare equal are still two: caches go by identity."""
    store, one, two = CacheStore(), new_code(), new_code()
    assert one == two
    assert one is not two
    assert store.cache_of(one) is not store.cache_of(two)


def test_a_dead_code_object_takes_its_caches_along() -> None:
    """When a code object dies its caches leave their stores; one that somebody holds has no code any more."""
    stores, code = [CacheStore() for _ in range(5)], new_code()
    entry = weakref.ref(Entry(None, code, (), 1))
    held = [store.cache_of(code) for store in stores]
    marker = Thing()
    held[0].payload = marker
    gone = weakref.ref(marker)
    dead = [weakref.ref(cache) for cache in held]
    survivor = held[1]
    del held, marker, code
    gc.collect()
    assert entry() is None
    assert [cache() is None for cache in dead] == [True, False, True, True, True]
    assert gone() is None
    assert all(store.caches() == [] for store in stores)
    assert survivor.code is None
    assert repr(survivor) == "<CodeCache of a dead code object, 0 entries>"
    survivor.entries = (Entry(None, new_code(), (), 1),)


def test_a_dead_store_leaves_its_code_objects() -> None:
    """When a store dies its entries go, and the code object is looked up no more; a new store starts empty."""

    def fn(x):
        return x

    code, store = fn.__code__, CacheStore()
    entry = identical(code)
    cache = store.cache_of(code)
    cache.entries = (entry,)
    gone = weakref.ref(entry)
    swapped(Region(store, None), fn)(1)
    del store, cache, entry
    assert gone() is None
    assert CacheStore().cache_of(code).entries == ()
    asked = []
    swapped(Region(CacheStore(), asked.append), fn)(1)
    assert len(asked) == 1


def test_a_cache_outlives_its_store_quietly() -> None:
    """A cache that somebody holds survives store and code object, in either order of death."""
    for store_first in (True, False):
        store, code = CacheStore(), new_code()
        cache = store.cache_of(code)
        if store_first:
            del store
            assert cache.code is code
            del code
        else:
            del code
            del store
        gc.collect()
        assert cache.code is None


def test_forget_and_clear() -> None:
    """`forget` drops one cache, `clear` all of them; the next `cache_of` makes an empty one."""
    store, one, two = CacheStore(), new_code("one"), new_code("two")
    store.cache_of(one).payload = "old"
    store.cache_of(two)
    store.forget(one)
    store.forget(one)
    store.forget(new_code("never_seen"))
    assert [cache.code for cache in store.caches()] == [two]
    assert store.cache_of(one).payload is None
    store.clear()
    assert store.caches() == []
    for call in (store.cache_of, store.forget):
        with pytest.raises(TypeError, match="a code object is wanted"):
            call(len)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["check", "injected", "attribute", "payload", "callback", "code", "walk"])
def test_cycles_through_a_store_are_collected(way: str) -> None:
    """A store that is reachable only from its own entries, caches or callback is garbage, with all it holds."""
    code = new_code()
    store = CacheStore()
    region = Region(store, None)
    thing = Thing()
    thing.region = region  # type: ignore[attr-defined]

    def check(*_):
        return thing  # noqa: F821  (deleted below)

    if way == "injected":
        entry = Entry(None, code.replace(co_varnames=("x", "graph"), co_nlocals=2), (thing,), 1)
    else:
        entry = Entry(check if way == "check" else None, code, (), 1)
    if way == "attribute":
        entry.thing = thing
    if way == "walk":
        holder = Thing()
        holder.payload = thing  # type: ignore[attr-defined]
        thing.holder = holder  # type: ignore[attr-defined]
        entry = Entry(None, code, (), 1, GuardWalk([(holder, Thing, (("payload", "is", thing),))]))
        del holder
    cache = store.cache_of(code)
    cache.entries = (entry,)
    if way == "payload":
        cache.payload = thing
    if way == "callback":
        region.callback = check
        region.on_hit = check
        thing.cache = cache  # type: ignore[attr-defined]
        cache.payload = region
    if way == "code":
        thing.code = code  # type: ignore[attr-defined]
        cache.payload = thing
    references = [weakref.ref(each) for each in (thing, entry, cache, store, region)]
    if way == "code":
        references.append(weakref.ref(code))
        del code
    del thing, check, entry, cache, store, region
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_a_function_is_freed_with_all_that_was_compiled_for_it() -> None:
    """Dropping a function drops its cache and entries in a store that lives on."""
    region = swapping_region()
    scope: dict[str, object] = {}
    exec("def fn(x):\n    def inner(): return x\n    return inner()", scope)
    fn = scope.pop("fn")
    assert swapped(region, fn)(1) == 1
    assert len(region.store.caches()) == 2  # type: ignore[union-attr]
    entries = [weakref.ref(entry) for cache in region.store.caches() for entry in cache.entries]  # type: ignore[union-attr]
    del fn
    scope.clear()
    gc.collect()
    # `inner` is a constant of both `fn` and the copy of it that the entry held: both are gone.
    assert region.store.caches() == []  # type: ignore[union-attr]
    assert [entry() for entry in entries] == [None, None]


def test_a_running_frame_keeps_what_it_needs() -> None:
    """While an entry's code runs, dropping entry, cache and store frees them and breaks nothing."""
    store = CacheStore()
    gone = []

    def fn(x):
        return x

    def drop():
        gone.append(weakref.ref(store.cache_of(fn.__code__).entries[0]))
        store.clear()
        gc.collect()
        gone.append(gone[0]() is None)

    def template(x, graph):
        graph()
        return graph, x

    code = template.__code__.replace(co_argcount=1)
    store.cache_of(fn.__code__).entries = (Entry(None, code, (drop,), 1),)
    del code
    assert swapped(Region(store, None), fn)(7) == (drop, 7)
    assert gone[1] is True


def test_entries_are_swapped_whole() -> None:
    """`entries` takes a tuple of entries that fit the code, and nothing else."""
    store, code = CacheStore(), new_code()
    cache = store.cache_of(code)
    entry = identical(code)
    cache.entries = (entry, entry)
    assert cache.entries == (entry, entry)
    for wrong in ([entry], None, entry):
        with pytest.raises(TypeError, match="entries must be a tuple"):
            cache.entries = wrong  # type: ignore[assignment]
    with pytest.raises(TypeError, match="must hold Entry objects"):
        cache.entries = (entry, 1)  # type: ignore[assignment]
    with pytest.raises(TypeError):
        del cache.entries
    with pytest.raises(TypeError):
        CodeCache()
    with pytest.raises(TypeError):
        FrameState()
    assert cache.entries == (entry, entry)


def test_an_entry_says_what_is_wrong_with_it() -> None:
    """Parts that do not fit together are refused when the entry is made."""
    code = new_code()

    def generator():
        yield

    with pytest.raises(TypeError, match="check must be callable or None"):
        Entry(1, code, (), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="walk must be a GuardWalk or None"):
        Entry(None, code, (), 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="plain function"):
        Entry(None, generator.__code__, (), 0)
    with pytest.raises(ValueError, match="plain function"):
        Entry(None, compile("x", "", "exec"), (), 0)
    for index in (-1, 0, 1, 2):
        with pytest.raises(ValueError, match="cannot be injected"):
            Entry(None, code, ("graph",), index)
    with pytest.raises(TypeError):
        Entry(None, code, ["graph"], 1)  # type: ignore[arg-type]


def test_an_entry_is_an_ordinary_object() -> None:
    """An entry shows its parts, takes attributes, weak references and subclasses, and its parts cannot be replaced."""
    code, walk = new_code(), GuardWalk(())

    class Described(Entry):
        pass

    entry = Described(print, code, (), 1, walk=walk)
    entry.graphs = ["graph"]
    assert (entry.check, entry.code, entry.injected, entry.inject_index, entry.walk) == (print, code, (), 1, walk)
    assert (entry.valid, entry.hits, entry.graphs) == (True, 0, ["graph"])
    assert weakref.ref(entry)() is entry
    for name in ("check", "code", "injected", "inject_index", "walk"):
        with pytest.raises(AttributeError):
            setattr(entry, name, None)
    with pytest.raises(TypeError):
        entry.valid = 2  # type: ignore[assignment]


def test_skip_marks_stay_on_their_code_object() -> None:
    """Marks are set, read and taken off per code object, and share nothing with an equal one."""
    one, two = new_code(), new_code()
    for mark in (skip_code, skip_code_recursively):
        assert not is_skipped(one)
        mark(one)
        assert is_skipped(one)
        assert not is_skipped(two)
        unskip_code(one)
    unskip_code(two)
    for call in (skip_code, skip_code_recursively, unskip_code, is_skipped):
        with pytest.raises(TypeError, match="a code object is wanted"):
            call(len)  # type: ignore[arg-type]


def test_caches_come_and_go_by_the_thousand() -> None:
    """Thousands of code objects and stores that die in mixed order leave nothing behind."""
    stores = [CacheStore() for _ in range(10)]
    codes = [new_code(f"fn{i}") for i in range(300)]
    caches = []
    for i, code in enumerate(codes):
        for store in stores[i % 3 :: 2]:
            cache = store.cache_of(code)
            cache.entries = (identical(code),)
            caches.append(weakref.ref(cache))
    del codes[::2], stores[::3], code, store, cache
    gc.collect()
    for store in stores:
        assert {cache.code for cache in store.caches()} <= set(codes)
    codes.clear()
    gc.collect()
    assert all(store.caches() == [] for store in stores)
    del stores
    assert all(cache() is None for cache in caches[:-1])


def test_types_are_a_type_guard_that_fits_the_arguments() -> None:
    """An entry may have a TypeGuard over its argument slots; anything else is refused."""
    code = new_code()
    assert Entry(None, code, (), 1).types is None
    guard = TypeGuard(((0, None, (int,)),))
    assert Entry(None, code, (), 1, None, guard).types is guard
    with pytest.raises(TypeError, match="types must be a TypeGuard or None, not tuple"):
        Entry(None, code, (), 1, None, (int,))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="types look at 2 argument slots, where there are 1"):
        Entry(None, code, (), 1, None, TypeGuard(((1, None, (int,)),)))
