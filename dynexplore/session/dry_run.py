"""What a call would do: the engine's own decision, taken for a call that nobody makes.

The idea: nothing here guesses. The frame that the call would begin with (first_frame.py) goes through what a real one goes
through: the entries are tried in order, then the same `Conversion` runs, but on copies: a store of its own that borrows the
entries, a copy of what is remembered of earlier calls, no backend. What a conversion counts and names is put back. The
function is never run, so this is about the first frame alone; what can be known of the resume functions that go on with it
stands in predicted_resumes.py.

In: a store, a `DryRunFrame`. Out: an `Outcome`, with the recording of the supposed translation.

PyTorch has no counterpart.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.native import CodeCache, Entry
from dynexplore.engine.policy import skip
from dynexplore.engine.runtime import cache, convert, interrupts, other_tracers, reports, stance
from dynexplore.engine.runtime.cache import CodeState, CompiledEntry, fits, misses
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.runtime.translation_lock import translation_lock
from dynexplore.engine.translate import unique_names
from dynexplore.engine.translate.history import FrameHistory
from dynexplore.recording.recording import Recording
from dynexplore.session.first_frame import DryRunFrame

_WAITS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

Kind = Literal["hit", "compile", "recompile", "limit reached", "plain Python", "raises"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the first frame of a call would do.

    `entry` is the number of the entry that is hit; `reason` the guard that fails, or why the frame runs as plain Python,
    or what is raised; `recording` holds the supposed translation where there would be one, as its frame 1.
    """

    kind: Kind
    entry: int = -1
    reason: str = ""
    recording: Recording | None = None


def suppose(store: Store, frame: DryRunFrame, *, capture: bool = True) -> Outcome:
    """What a call that begins with this frame would do.

    `capture`: try the translation as well; without it a miss is taken to be compiled, which a translation may yet refuse.
    """
    outer = native.enter(None)
    try:
        with interrupts.held(sys._getframe()), other_tracers.dynamo_off(), translation_lock:
            known = _left_alone(frame) or _hit(frame) or _refused(store, frame)
            return known or (_converted(store, frame) if capture else _missed(frame))
    finally:
        native.leave(outer)


def _left_alone(frame: DryRunFrame) -> Outcome | None:
    """What is asked before any entry is looked at."""
    if native.is_skipped(frame.code) or skip.skip_reason(frame.function) is not None:
        return Outcome("plain Python", reason=skip.skip_reason(frame.function) or "it is marked to be skipped")
    if frame.code.co_flags & _WAITS:
        return Outcome("plain Python", reason="generators and coroutines are captured only where a captured function runs them")
    if frame.cache.skip:
        return Outcome("plain Python", reason="an earlier call showed that there is nothing to compile in it")
    return None


def _hit(frame: DryRunFrame) -> Outcome | None:
    for entry in frame.cache.entries:
        if fits(entry, frame):
            return Outcome("hit", entry.number if isinstance(entry, CompiledEntry) else -1)
    return None


def _refused(store: Store, frame: DryRunFrame) -> Outcome | None:
    """Nothing fits, and nothing new may be compiled."""
    missed = misses(frame.cache, frame.scope)
    reason = str(missed[0]) if missed else "nothing is compiled for it yet"
    if convert.run_only.depth or config.disable:
        return Outcome("plain Python", reason=f"nothing new is compiled here: {reason}")
    if config.debug_function and frame.code.co_name != config.debug_function:
        return Outcome("plain Python", reason=f"config.debug_function is {config.debug_function!r}")
    tracer = other_tracers.active()
    if tracer is not None:
        return Outcome("plain Python", reason=tracer)
    now = stance.current()
    if now == "fail_on_recompile" or (missed and config.error_on_recompile):
        return Outcome("raises", reason=f"RecompileError: {reason}")
    if now == "eager_on_recompile":
        return Outcome("plain Python", reason=f"the stance is {now!r}: {reason}")
    if len(frame.cache.entries) >= convert.entry_limit(store):
        return Outcome("limit reached", reason=reason)
    return None


def _missed(frame: DryRunFrame) -> Outcome:
    missed = misses(frame.cache, frame.scope)
    return Outcome("recompile" if frame.cache.entries else "compile", reason=str(missed[0]) if missed else "")


# -- a translation that leaves nothing behind -----------------------------------------------------------------


class _Supposed(convert.Conversion):
    """A conversion whose graphs go to no backend, and whose failures are kept to itself."""

    failure = ""

    def _compile_graph(self, graph: Any, name: str, fake_mode: Any) -> Callable[..., Any]:
        forward: Callable[..., Any] = graph.module.forward
        return forward

    def _engine_failed(self, error: Exception) -> None:
        self.failure = f"a bug of the engine: {type(error).__name__}: {error}"


def _converted(store: Store, frame: DryRunFrame) -> Outcome:
    """Translate the frame, on copies of everything that a translation changes."""
    recording = Recording(title=frame.code.co_qualname)
    scratch = Store(store.backend, store.options)
    scratch.observers.recorder = recording
    scratch.used = -1
    state: Any = DryRunFrame(frame.function, frame.values, _borrowed(frame.cache, scratch))
    with _leaving_no_trace():
        conversion = _Supposed(scratch, state)
        try:
            entry: Entry | None = conversion.run()
        except DynexploreError as error:
            return Outcome("raises", reason=f"{type(error).__name__}: {error}", recording=recording)
    if entry is None:
        return Outcome("plain Python", reason=conversion.failure or _why_plain(recording), recording=recording)
    return replace(_missed(frame), recording=recording)


def _why_plain(recording: Recording) -> str:
    return next((event.reason for event in reversed(recording.of(ev.FrameSkipped))), "it cannot be translated")


def _borrowed(real: CodeCache, scratch: Store) -> CodeCache:
    """A cache with the same entries, and a copy of what is remembered of earlier calls."""
    code = real.code
    assert code is not None
    made = scratch.native.cache_of(code)
    made.entries = real.entries
    known: CodeState | None = real.payload
    made.payload = CodeState(copy.deepcopy(known.history) if known is not None else FrameHistory())
    return made


@contextlib.contextmanager
def _leaving_no_trace() -> Iterator[None]:
    """Counts, names and numbers are what they were when the block is over; nothing is printed or logged meanwhile."""
    counted = counters.snapshot()
    quiet = config.patch(debug=False, output_code=False, logs=(), log_level="ERROR")
    with quiet, unique_names.NUMBERS.kept(), cache.NUMBERS.kept(), reports.breaks_unheard():
        try:
            yield
        finally:
            counters.put_back(counted)
