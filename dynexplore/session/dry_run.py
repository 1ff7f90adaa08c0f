"""Dry run: what the engine would do for a call, without making the call.

The idea: the answer comes from the engine's own decision procedure. The call's first frame (first_frame.py) is treated like a real
one: the same `decide` (engine/runtime/decision.py) gets the same facts, the cache entries are checked in order, then the same
`Conversion` runs, but on copies: a scratch store that shares the entries, a copy of the automatic-dynamic profile, no backend.
Counters and unique names that a conversion consumes are restored. The function never runs, so the answer covers only the first
frame; predicted_resumes.py predicts the resume functions after it as far as possible.

In: a store, a `DryRunFrame`. Out: an `Outcome`, with the recording of the attempted translation.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.native import CodeCache, Entry
from dynexplore.engine.recorder import unrecorded_entries_again
from dynexplore.engine.runtime import convert, foreign_modes, interrupts, reports
from dynexplore.engine.runtime.cache import CodeState, CompiledEntry
from dynexplore.engine.runtime.compile_lock import compile_lock
from dynexplore.engine.runtime.decision import Decision, decide
from dynexplore.engine.runtime.frame_facts import CheckedEntries, check_entries, facts_of
from dynexplore.engine.runtime.observed_backend import ObservedBackend
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.specialization.profile import Profile
from dynexplore.engine.translate import unique_names
from dynexplore.recording.recording import Recording
from dynexplore.session.first_frame import DryRunFrame

Kind = Literal["hit", "compile", "recompile", "limit reached", "plain Python", "raises"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engine would do with the first frame of a call.

    `entry` is the number of the entry that is hit; `reason` the guard that fails, why the frame runs as plain Python, or the
    exception that is raised; `recording` contains the attempted translation, if any, as its frame 1.
    """

    kind: Kind
    entry: int = -1
    reason: str = ""
    recording: Recording | None = None


def dry_run(store: Store, frame: DryRunFrame, *, capture: bool = True) -> Outcome:
    """What a call that begins with this frame would do.

    `capture`: also attempt the translation; otherwise every miss is reported as a compile, although the translation may still fail.
    """
    outer = native.enter(None)
    try:
        facts = facts_of(store, frame.code, frame.function, frame.cache)
        with interrupts.deferred(sys._getframe()), foreign_modes.dynamo_off(), compile_lock:
            checked = check_entries(frame.cache, frame, lambda: frame.scope)
            decision = decide(replace(facts, entries=checked.verdict))
            if decision.is_compiled and capture:
                return _converted(store, frame, decision, checked)
            return _outcome(decision, checked)
    finally:
        native.leave(outer)


def _outcome(decision: Decision, checked: CheckedEntries) -> Outcome:
    kind = decision.kind
    assert kind != "ask the entries"
    assert kind != "not known"  # the entries were checked against existing values
    return Outcome(kind, checked.fitting.number if isinstance(checked.fitting, CompiledEntry) else -1, decision.reason)


# -- a translation without side effects on the engine ----------------------------------------------------------


class _NoBackend(ObservedBackend):
    """Passes no graph to the backend."""

    def observed(self, graph: FinishedGraph, name: str, compile_graph: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        forward: Callable[..., Any] = graph.module.forward
        return forward


class _DryConversion(convert.Conversion):
    """A conversion whose graphs are not passed to a backend, and whose failures are not raised."""

    failure = ""

    def make_compiler(self) -> ObservedBackend:
        return _NoBackend(self.backend, self.store.observers, self.recorder, self.frame)

    def _engine_failed(self, error: Exception) -> None:
        self.failure = f"a bug of the engine: {type(error).__name__}: {error}"


def _converted(store: Store, frame: DryRunFrame, decision: Decision, checked: CheckedEntries) -> Outcome:
    """Translate the frame on copies of everything that a translation mutates."""
    recording = Recording(title=frame.code.co_qualname)
    scratch = Store(store.backend, store.options)
    scratch.observers.recorder = recording
    scratch.used = -1
    state: Any = DryRunFrame(frame.function, frame.values, _borrowed(frame.cache, scratch))
    with _leaving_no_trace():
        conversion = _DryConversion(scratch, state, checked.missed)
        try:
            entry: Entry | None = conversion.act_on(decision, checked.verdict)
        except DynexploreError as error:
            return Outcome("raises", reason=f"{type(error).__name__}: {error}", recording=recording)
    if entry is None:
        return Outcome("plain Python", reason=conversion.failure or _why_plain(recording), recording=recording)
    return replace(_outcome(decision, checked), recording=recording)


def _why_plain(recording: Recording) -> str:
    return next((event.reason for event in reversed(recording.of(ev.FrameSkipped))), "it cannot be translated")


def _borrowed(real: CodeCache, scratch: Store) -> CodeCache:
    """A cache with the same entries, and a copy of the automatic-dynamic profile."""
    code = real.code
    assert code is not None
    scratch_cache = scratch.native.cache_of(code)
    scratch_cache.entries = real.entries
    state: CodeState | None = real.payload
    scratch_cache.payload = CodeState(copy.deepcopy(state.profile) if state is not None else Profile())
    return scratch_cache


@contextlib.contextmanager
def _leaving_no_trace() -> Iterator[None]:
    """Restore counters, unique names and numbers after the block; suppress printing and logging inside it."""
    counted = counters.snapshot()
    quiet = config.patch(debug=False, output_code=False, logs=(), log_level="ERROR")
    with quiet, unique_names.NUMBERS.rolled_back(), unrecorded_entries_again(), reports.breaks_forgotten():
        try:
            yield
        finally:
            counters.restore(counted)
