"""Cache entries: the compiled form of a code object, when it is evicted, and why no entry fits a call.

The idea: C looks entries up and checks them (native.CodeCache, native.Entry); their Python data is defined here. An entry keeps
its guards, so that a miss can be explained: which guard failed, the expected and the actual value. It references the objects of
its guards weakly, and is evicted when one of them dies.

In: a `Translation` and its `CodeCache`. Out: a `CompiledEntry` in the cache; `misses`, the reasons. PyTorch's counterpart:
torch/_dynamo/cache_size.py and the cache entries in torch/csrc/dynamo.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Protocol

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.config import config
from dynexplore.engine.native import UNBOUND, CodeCache, Entry, FrameState
from dynexplore.engine.provenance.guard_check import Failure, GuardCheck
from dynexplore.engine.provenance.module_guards import StateFailure, StateWalk
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.records import record
from dynexplore.engine.runtime.profiler_ranges import GUARDS, ranged
from dynexplore.engine.specialization.profile import Profile
from dynexplore.engine.translate.contract.request import Translation
from dynexplore.engine.translate.event_emitter import scope_of as scope_of_source


class CompiledEntry(Entry):
    """An entry with the data for explanations. It holds no tensor of the call for which it was compiled."""

    number: int
    """The recorder's number of the entry, from 1."""
    frame: int
    """The recorder's number of the frame that was translated."""
    guards: GuardCheck
    state: StateWalk | None
    graphs: tuple[str, ...]
    resumes: tuple[CodeType, ...]
    """The resume functions that its modified code may call."""
    owners: tuple[Any, ...]
    """Weak references to the objects without which it can never hit again."""
    left_to_python: bool
    """Whether the entry makes the frame run as plain Python: it contains nothing worth a graph."""
    separate_callee: bool
    """Whether the code resumes in a chain whose callee it calls as a separate frame."""
    may_be_numbers_only: bool
    """Whether the frame works only on numbers up to its break; its resume function shows whether the frame is worth a graph."""

    def __repr__(self) -> str:
        return f"<entry {self.number}: compiled as frame {self.frame}, {len(self.guards.guards)} guards>"


@record(frozen=False)
class CodeState:
    """The state of a code object besides its entries: `CodeCache.payload`."""

    profile: Profile
    limit_reported: bool = False
    recorded_as_skipped: bool = False
    ran_once: bool = False
    """Whether a stance has run it once as plain Python, or under aot_eager."""


def state_of(cache: CodeCache) -> CodeState:
    """The state of a code object, created on first use."""
    state = cache.payload
    if state is None:
        state = cache.payload = CodeState(Profile())
    code_state: CodeState = state
    return code_state


def add_entry(cache: CodeCache, translation: Translation, frame: int, number: int) -> CompiledEntry:
    """Create an entry from a translation and put it first: the latest entry is the most likely hit.

    Entries that make the frame run as plain Python come after the compiled ones, whose guards are more specific; before them,
    those that call a callee as a separate frame.
    """
    walk = translation.walk
    check: Any = translation.check.check if translation.types is None else None
    if config.profiler_ranges and check is not None:
        check = ranged(check, f"{GUARDS}{frame} of {translation.code.co_qualname}")
    entry = CompiledEntry(
        check,
        translation.code,
        translation.injected,
        translation.inject_index,
        walk.walk if walk is not None else None,
        translation.types,
        translation.runs_alone,
    )
    entry.number = number
    entry.frame = frame
    entry.guards = translation.check
    entry.state = walk
    entry.graphs = tuple(graph.name for graph in translation.graphs)
    entry.resumes = tuple(translation.resume_codes)
    entry.owners = _watch(translation.weak_owners, entry, cache)
    entry.left_to_python = translation.left_to_python
    entry.separate_callee = translation.separate_callee
    entry.may_be_numbers_only = translation.may_be_numbers_only
    cache.entries = tuple(sorted((entry, *(old for old in cache.entries if old.valid)), key=_rank))
    return entry


def _rank(entry: Entry) -> int:
    """The order in which entries are tried: those that capture more come first."""
    return 2 if is_skipped(entry) else int(has_separate_callee(entry))


def has_separate_callee(entry: Entry) -> bool:
    """Whether an entry resumes in a chain whose callee it calls as a separate frame."""
    return isinstance(entry, CompiledEntry) and entry.separate_callee


def is_skipped(entry: Entry) -> bool:
    """Whether an entry makes the frame run as plain Python."""
    return isinstance(entry, CompiledEntry) and entry.left_to_python


def _watch(owners: list[tuple[Any, str]], entry: CompiledEntry, cache: CodeCache) -> tuple[Any, ...]:
    """Weak references that evict the entry when an owner dies."""
    entry_ref, cache_ref = weakref.ref(entry), weakref.ref(cache)
    profile = state_of(cache).profile

    def watch(owner: Any, where: str) -> Any:
        def evict(_: object, remove: Callable[..., None] = remove_entry) -> None:  # bound now: globals are cleared first at exit
            remove(cache_ref(), entry_ref())
            profile.note_unstable(where)

        return weakref.ref(owner, evict)

    return tuple(watch(owner, where) for owner, where in owners)


def remove_entry(cache: CodeCache | None, entry: Entry | None) -> None:
    """Remove an entry from a cache; either may be dead already."""
    if entry is not None:
        entry.valid = False
    if cache is not None:
        cache.entries = tuple(other for other in cache.entries if other is not entry)


# -- one call ------------------------------------------------------------------------------------------------


def slot_values(state: FrameState) -> dict[str, object]:
    """The argument slots of a frame that hold a value, by name."""
    return {name: value for name, value in zip(argument_slots(state.code), state.values, strict=True) if value is not UNBOUND}


def scope_of(state: FrameState) -> Scope:
    """The scope against which the guards of a frame are checked."""
    return Scope(slot_values(state), state.closure, state.globals)


class Slots(Protocol):
    """The slots that an entry checks: of a frame about to run, or of a hypothetical one."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The objects in the argument slots."""

    @property
    def closure(self) -> tuple[Any, ...] | None:
        """The closure's cells."""

    @property
    def globals(self) -> dict[str, Any]:
        """The globals."""


def fits(entry: Entry, state: Slots) -> bool:
    """Whether an entry's guards hold for a frame: the C check, for a frame that waited while another thread compiled the entry."""
    if not entry.valid or (entry.walk is not None and not entry.walk.check()):
        return False
    if entry.types is not None and not entry.types.holds(state.values, state.closure, state.globals):
        return False
    if entry.check is None:
        return True
    try:
        return entry.check(*state.values, state.closure, state.globals) is True
    except Exception:  # as in the hook, an exception while fetching is a miss
        return False


@record()
class Miss:
    """The first guard of an entry that fails for a call, as text."""

    entry: CompiledEntry
    index: int
    scope: str
    source: str
    kind: str
    expected: str
    actual: str
    is_identity: bool = False
    """Whether only the object's identity differs: another instance of the same block, another parameter of the same shape."""

    def __str__(self) -> str:
        where = f"{self.scope} {self.source!r}" if self.scope else self.source
        return f"{where} {self.kind}: expected {self.expected}, found {self.actual}"


def misses(cache: CodeCache, scope: Scope) -> list[Miss]:
    """Why each entry of a code object does not fit a call, in the order in which they were tried."""
    tried = (_miss(entry, scope) for entry in cache.entries if isinstance(entry, CompiledEntry) and entry.valid)
    return [miss for miss in tried if miss is not None]


_IDENTITY_KINDS = frozenset({"ID_MATCH", "NN_MODULE"})


_SAME = frozenset({"the same object", "the same value", "the same items", "the object that was captured"})


def _changed_state(entry: CompiledEntry, changed: StateFailure) -> Miss:
    """The miss for a failed fact of the walk: about an object, or about the process (part of GLOBAL_STATE)."""
    kinds = [guard.kind for guard in entry.guards.guards]
    states = [index for index, kind in enumerate(kinds) if kind == "MODULE_STATE"]
    is_unchanged = changed.expected in _SAME
    if changed.index is None:
        index = kinds.index("GLOBAL_STATE") if "GLOBAL_STATE" in kinds else 0  # an entry for plain Python may not guard any modes
        return Miss(entry, index, "", changed.path, "GLOBAL_STATE", changed.words, changed.actual, is_unchanged)
    return Miss(entry, states[changed.index], "", changed.path, "MODULE_STATE", changed.expected, changed.actual, is_unchanged)


def _miss(entry: CompiledEntry, scope: Scope) -> Miss | None:
    if entry.state is not None:
        changed = entry.state.first_failure()
        if changed is not None:
            return _changed_state(entry, changed)
    failure = entry.guards.first_failure(scope)
    return None if failure is None else _failed(entry, failure)


def also_failed(miss: Miss, scope: Scope) -> Iterator[Miss]:
    """The other guards of the entry that fail for this call, after the one at which the check ended."""
    entry = miss.entry
    of_state = entry.state.failures() if entry.state is not None else ()
    failures = [*(_changed_state(entry, changed) for changed in of_state)]
    failures += [_failed(entry, failure) for failure in entry.guards.failures(scope)]
    return (failure for failure in failures if failure != miss)


def _failed(entry: CompiledEntry, failure: Failure) -> Miss:
    guard = failure.guard
    return Miss(
        entry,
        entry.guards.guards.index(guard),
        scope_of_source(guard.source),
        guard.source.text(),
        guard.kind,
        failure.expected,
        failure.actual,
        guard.kind in _IDENTITY_KINDS,
    )
