"""Collect the facts that decide about a frame, from the code, the configuration and the state of this thread.

The idea: decision.py is pure, so its facts are collected here, for a frame that is about to run, for a hypothetical one (a dry
run), and for a resume function of which only the code is known. Nothing is modified.

In: a store, a code object, its function if there is one; a `CodeCache` and a frame. Out: `FrameFacts`, and the verdict of the
entries (`check_entries`). PyTorch's counterpart: torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FunctionType

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.native import CodeCache, Entry
from dynexplore.engine.policy import skip
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.records import quick, record
from dynexplore.engine.runtime import foreign_modes, stance
from dynexplore.engine.runtime.cache import Miss, Slots, fits, is_skipped, misses
from dynexplore.engine.runtime.decision import WAITS, EntriesVerdict, FrameFacts
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.translate.resume import original_of


class _RunOnly(threading.local):
    depth = 0


run_only = _RunOnly()
"""The nesting depth of `run()` in this thread: while positive, nothing new is compiled."""


_record = quick(FrameFacts)


def facts_of(store: Store, code: CodeType, function: FunctionType | None, cache: CodeCache | None) -> FrameFacts:
    """The facts about a frame of this code in this thread now; its entries are not checked yet.

    If nothing new is compiled anyway, the other facts are not collected, so that `config.disable` costs next to nothing.
    """
    marked, generator, empty = native.is_skipped(code), bool(code.co_flags & WAITS), cache is not None and cache.skip
    if run_only.depth or config.disable:
        return _record(
            marked=marked,
            generator=generator,
            nothing_to_compile=empty,
            run_only=run_only.depth > 0,
            disabled=config.disable,
        )
    original = original_of(code) or code
    return _record(
        name=original.co_name,
        marked=marked,
        generator=generator,
        nothing_to_compile=empty,
        policy=skip.skip_reason(function if function is not None and function.__code__ is original else original),
        only_function=config.debug_function,
        tracer=foreign_modes.active(),
        stance=stance.current(),
        error_on_recompile=config.error_on_recompile,
        ran_once=cache is not None and cache.payload is not None and cache.payload.ran_once,
        limit=entry_limit(store),
        whole=store.options.nopython,
    )


def entry_limit(store: Store) -> int:
    """The maximum number of entries of a code object."""
    own = store.entry_limit if store.entry_limit is not None else store.options.entry_limit
    return config.cache_size_limit if own is None else own


@record()
class CheckedEntries:
    """The result of checking the entries of a code object: the verdict, the entry that fits, why each of the others does not."""

    verdict: EntriesVerdict
    fitting: Entry | None
    missed: list[Miss]


def check_entries(cache: CodeCache, slots: Slots, scope: Callable[[], Scope]) -> CheckedEntries:
    """Try the entries in order, as the frame hook does. `scope` is called only if none fits."""
    entries = cache.entries
    compiled = sum(not is_skipped(entry) for entry in entries)
    for position, entry in enumerate(entries):
        if fits(entry, slots):
            return CheckedEntries(EntriesVerdict(compiled, position), entry, [])
    missed = misses(cache, scope()) if entries else []
    why = str(missed[0]) if missed and compiled else ""
    return CheckedEntries(EntriesVerdict(compiled, missed=why), None, missed)
