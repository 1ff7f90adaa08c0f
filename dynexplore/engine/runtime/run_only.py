"""`run`: use cache entries, and compile nothing new.

In: an optimized function or module, or the original; or nothing, for a block. Out: the same function, which runs as plain Python on
a cache miss. PyTorch's counterpart: `RunOnlyContext` in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

import threading
import types
from typing import Any

import torch

from dynexplore.engine import native
from dynexplore.engine.policy.markers import RUNS
from dynexplore.engine.runtime import frame_facts, optimized, stores
from dynexplore.engine.runtime.stores import Store


class _RunOnly:
    """A block, or the calls of a function, that uses cache entries and compiles nothing new."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._entered = _PerThread()

    def __enter__(self) -> None:
        block = native.RegionBlock(self._region())
        self._entered.blocks.append(block)
        frame_facts.run_only.depth += 1
        block.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._entered.blocks.pop().__exit__(*exc)
        frame_facts.run_only.depth -= 1

    def _region(self) -> native.Region | None:
        outer = native.current()
        if self._store is not None:
            return native.Region(self._store.native, None)
        if outer is not None:
            return native.Region(outer.store, None)
        latest = next(stores.all_stores(), None)
        return native.Region(latest.native, None) if latest is not None else None

    def __call__(self, target: Any) -> Any:
        """Return the same function, using its cache entries of the most recently used backend."""
        return _run_only_call(target)


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.blocks: list[native.RegionBlock] = []


# These switch the region in which they run: with the hook disabled, their exit would restore the previous region.
for _method in (_RunOnly.__enter__, _RunOnly.__exit__, _RunOnly._region):
    native.skip_code(_method.__code__)


def run(fn: Any = None) -> Any:
    """Use existing cache entries, and compile nothing new: `run(fn)(x)`, `@run`, `@run()`, `with run():`.

    A call that misses the cache runs as plain Python. `fn` is an optimized function or module, or the original one.
    """
    return _RunOnly() if fn is None else _run_only_call(fn)


def _run_only_call(fn: Any) -> Any:
    target = optimized.original_of(fn)
    wrapped = fn if fn is not target else None
    if isinstance(target, torch.nn.Module):
        return _run_only_module(target, wrapped)

    def call(*args: Any, **kwargs: Any) -> Any:
        with _RunOnly(_store_with_entries_for(target)):
            return (wrapped or target)(*args, **kwargs)

    vars(call)[RUNS] = wrapped or target
    return optimized.copy_metadata(call, target)


def _run_only_module(module: torch.nn.Module, wrapped: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _RunOnly():
            return (wrapped if wrapped is not None else module)(*args, **kwargs)

    return optimized.optimized_module(module, None, call)


def _store_with_entries_for(target: Any) -> Store | None:
    """The most recently used store with cache entries for a function or method."""
    code = getattr(target, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    return next((store for store in stores.all_stores() if store.has_entries_for(code)), None)
