"""Frame conversion: from one frame to a cache entry, or to none, and the frame runs as plain Python.

The idea: the frame hook calls `convert` if no entry fits the frame that is about to run. decision.py decides; this file executes
the decision: the frame is skipped, refused, raises, or is translated, and the translation becomes an entry. `decide` is called
twice, without the entries and with them: another thread may have compiled the frame meanwhile.

Failures are distinguished (docs/design/breaks.md, D22). A graph break under `nopython` raises `Unsupported` in the program; a
failing backend raises `BackendCompilerError`; any unexpected exception is a bug in the engine: it is counted, logged in one line,
and the frame runs as plain Python, unless `config.raise_engine_errors` is on or `config.suppress_errors` off.

In: the hook's `FrameState`. Out: an `Entry` or None, with events, counters and log lines. PyTorch's counterpart:
torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import functools
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType

from dynexplore.engine import events as ev
from dynexplore.engine import native, tool_hooks
from dynexplore.engine.aliasing import float_inputs
from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import (
    BackendCompilerError,
    DynexploreError,
    EngineError,
    RecompileLimitError,
    Unsupported,
)
from dynexplore.engine.graph import warning_registry
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import Entry, FrameState, function_of
from dynexplore.engine.phases import times
from dynexplore.engine.policy import skip, trace_rules
from dynexplore.engine.policy.error_on_graph_break import breaks_are_errors
from dynexplore.engine.policy.nested_breaks import disabled_by_torch, runs_once
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.recorder import Recorder, entry_number
from dynexplore.engine.runtime import foreign_modes, interrupts, preserve_global_state, reports, stance
from dynexplore.engine.runtime.backends import resolve
from dynexplore.engine.runtime.cache import (
    CodeState,
    CompiledEntry,
    Miss,
    add_entry,
    has_separate_callee,
    is_skipped,
    remove_entry,
    scope_of,
    slot_values,
    state_of,
)
from dynexplore.engine.runtime.compile_lock import compile_lock
from dynexplore.engine.runtime.decision import Decision, EntriesVerdict, FrameFacts, decide
from dynexplore.engine.runtime.frame_facts import check_entries, entry_limit, facts_of
from dynexplore.engine.runtime.guard_timing import guards_timed
from dynexplore.engine.runtime.observed_backend import ObservedBackend
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.specialization.break_chains import may_guard_separate_callee
from dynexplore.engine.translate.budget import IDLE_SHARE
from dynexplore.engine.translate.contract.request import SkipFrame, SkipFrameOnce, Translation, TranslationRequest
from dynexplore.engine.translate.resume import original_of, resume_point
from dynexplore.engine.translate.resume_raise import raising_code
from dynexplore.engine.translate.skip_frames import is_about_type
from dynexplore.engine.translate.translator import interpreted_at, translate

LEAST_PATIENCE = 1 / 16
"""The minimum share of the translation budget in seconds that a frame gets, however many earlier frames exceeded it."""


def converter(store: Store) -> Callable[[FrameState], Entry | None]:
    """The callback of a store's region."""
    return functools.partial(convert, store)


def convert(store: Store, state: FrameState) -> Entry | None:
    """The frame hook's callback; see the head of this file."""
    __tracebackhide__ = True  # IPython and pytest hide this frame in tracebacks
    if state.raised is not None:
        entry = _raise_in_resume_function(state, state.raised)
        if entry is None:
            raise state.raised
        return entry
    facts = facts_of(store, state.code, function_of(state), state.cache)
    decision = decide(facts)
    if decision.kind != "ask the entries":
        _skip_code(store, state, decision)
        return None
    try:
        return _entry_for(store, state, facts)
    except BaseException as error:
        if isinstance(error, DynexploreError) and not config.verbose:
            error.__traceback__ = None  # show the user's stack, not the engine's
        entry = _raise_in_resume_function(state, error)
        if entry is None:
            raise
        return entry


def _raise_in_resume_function(state: FrameState, error: BaseException) -> Entry | None:
    """Inside a try or with block, let the resumed frame raise the exception, so that the block is exited; else return None."""
    resume = resume_point(state.code) if state.resumed_from is not None else None
    if resume is None:
        return None
    code = raising_code(resume)
    return None if code is None else Entry(None, code, (error,), len(resume.parameters))


def _skip_code(store: Store, state: FrameState, decision: Decision) -> None:
    """Skip the frame, whatever its arguments are, and record that if it is of interest."""
    if decision.rule == "policy":
        _mark_for_hook(state, function_of(state))
        reports.skipped_by_policy(store, state, decision.reason)
    elif decision.rule == "tracer":
        reports.skipped(store.observers.recorder, state.code, decision.reason)


def _mark_for_hook(state: FrameState, function: FunctionType) -> None:
    """Mark skipped code for the hook, so that it does not call the engine for its next frame."""
    alone = skip.runs_alone(state.code) or skip.makes_a_module(state.code, state.values)
    if skip.is_about_one_function(function) and not alone:
        return  # another function with the same code may be compiled
    if alone:
        native.skip_code_recursively(state.code)
    else:
        native.skip_code(state.code)


def _entry_for(store: Store, state: FrameState, facts: FrameFacts) -> Entry | None:
    """An entry that fits the frame: an existing one, or a new one."""
    with interrupts.deferred(sys._getframe()), foreign_modes.dynamo_off(), compile_lock:
        checked = check_entries(state.cache, state, functools.partial(scope_of, state))
        decision = decide(replace(facts, entries=checked.verdict))
        if decision.kind == "hit":  # compiled by another thread while this one waited
            return checked.fitting
        with times.of(f"{state.code.co_qualname} ({state.code.co_filename}:{state.code.co_firstlineno})"):
            return Conversion(store, state, checked.missed).act_on(decision, checked.verdict)


# -- one translation -----------------------------------------------------------------------------------------


class Conversion:
    """The conversion of one frame that no entry fits."""

    compiler: ObservedBackend

    def __init__(self, store: Store, state: FrameState, missed: list[Miss]) -> None:
        self.store = store
        self.state = state
        self.backend = store.backend
        self.missed = missed
        self.code = state.code
        self.code_state: CodeState = state_of(state.cache)
        self.tools = tool_hooks.connected()
        self.prints = config.prints_frames()
        self.recorder: Recorder | None = self._recorder_with_printout()
        self.frame = self.recorder.next_frame_id() if self.recorder is not None else 0

    def _recorder_with_printout(self) -> Recorder | None:
        """The store's recorder; if something about the frame is to be printed, one that also records for the printout."""
        recorder = self.store.observers.recorder
        return self.tools.printing(recorder) if self.prints and self.tools is not None else recorder

    def act_on(self, decision: Decision, entries: EntriesVerdict) -> Entry | None:
        """Execute the decision: refuse, raise, or translate."""
        if decision.rule == "stance":
            return self._under_stance(decision, entries)
        is_known = decision.rule == "limit" and self.code_state.limit_reported
        reports.missed(self.recorder, self.frame, self.missed, self.state, is_known=is_known)
        if decision.rule == "error on recompile":
            raise stance.recompile_error(self.code, entries.why)
        if decision.rule == "limit":
            self._limit_reached()
            return None
        return self.translated()

    def _under_stance(self, decision: Decision, entries: EntriesVerdict) -> Entry | None:
        """Handle a call that the stance runs uncompiled, as plain Python or under aot_eager; the next one may be compiled."""
        self.code_state.ran_once = True
        if not decision.is_compiled:
            if stance.current() == "eager_then_compile":
                for slot, (name, value) in enumerate(slot_values(self.state).items()):
                    self.code_state.profile.observe(LocalSource(name, slot), value)
            stance.refuse(self.code, entries.why)
            return None
        self.backend = resolve("aot_eager")
        entry = self.translated()
        remove_entry(self.state.cache, entry)
        return entry

    def translated(self) -> Entry | None:
        """Translate the frame and report; None if there is nothing to compile."""
        if not all(miss.entry.left_to_python for miss in self.missed):
            counters["stats"]["recompiles"] += 1
            reports.recompiled(self.recorder, self.frame, self.code, self.missed)
        counters["frames"]["total"] += 1
        self.compiler = self.make_compiler()
        self.store.note_use()
        reports.entered(self.recorder, self.frame, self.store, self.state)
        if self.store.observers.calls is not None:
            self.store.observers.calls.note(self.frame, function_of(self.state), self.state.values)
        observer = self.store.observers.run
        if observer is not None:
            observer.entered(self.frame, slot_values(self.state), self.state.resumed_from)
        started = time.perf_counter()
        entry: Entry | None = None
        outcome = "failed"
        try:
            with preserve_global_state.preserved(), warning_registry.preserved(), foreign_modes.modes_off():
                entry, outcome = self._translate()
        finally:
            counters["frames"]["ok" if outcome == "compiled" else outcome] += 1
            seconds = time.perf_counter() - started
            reports.finished(self.recorder, self.frame, outcome, seconds, self.compiler.seconds)
            if self.prints and self.tools is not None:
                self.tools.print_frame(self.recorder, self.frame, self.state)
            if self.store.observers.run is not None:
                self.store.observers.run.forget(self.frame)
        return entry

    def make_compiler(self) -> ObservedBackend:
        """The compiler of the frame's graphs."""
        return ObservedBackend(self.backend, self.store.observers, self.recorder, self.frame)

    def _translate(self) -> tuple[Entry | None, str]:
        try:
            began = time.thread_time()  # the clock of the translation budget
            self._refuse_idle()
            request = self._request()
            translation = self._translated_with_fewer_symbols(request)
            self._note_idle(translation, time.thread_time() - began)
            return self._entry_of_translation(translation)
        except SkipFrame as skipped:
            return self._skip_frame(skipped)
        except SkipFrameOnce as reason:
            reports.skipped(self.recorder, self.code, str(reason), self.frame)
            return Entry(None, self.code, (), len(argument_slots(self.code)), runs_alone=True), "skipped"
        except GraphBreak as graph_break:
            self._save_frame(graph_break)
            error = reports.unsupported(graph_break, self.code, whole=self.store.options.nopython)
            raise error from (graph_break if config.verbose else None)
        except DynexploreError as error:
            self._save_frame(error)
            raise
        except (RecursionError, MemoryError):
            return None, "skipped"  # the program will raise the same exception by itself
        except Exception as error:
            self._engine_failed(error)
            return None, "failed"

    def _refuse_idle(self) -> None:
        """Stop compiling a function that repeatedly breaks without a tensor operation in between."""
        original = original_of(self.code)
        seconds = self.store.idle_seconds.get(original, 0.0) if original is not None else 0.0
        if seconds > config.translation_seconds * IDLE_SHARE:
            graph_break = GraphBreak("DX505", seconds=f"{seconds:.1f}", operators=0)
            raise SkipFrame(graph_break.reason) from graph_break

    def _note_idle(self, translation: Translation, seconds: float) -> None:
        if translation.graphs:
            self.store.patience = 1.0
        original = original_of(self.code)
        if original is not None:
            before = self.store.idle_seconds.get(original, 0.0)
            self.store.idle_seconds[original] = 0.0 if translation.graphs else before + seconds

    def _translated_with_fewer_symbols(self, request: TranslationRequest) -> Translation:
        """Translate; if the backend fails on a graph that computes with floats, translate again with the floats as constants."""
        while True:
            try:
                return translate(request)
            except BackendCompilerError as error:
                if not (request.symbolic_numbers and float_inputs.computes_floats(error.graph)):
                    raise
                request.symbolic_numbers = False

    def _request(self) -> TranslationRequest:
        state = self.state
        self._note_failures_when_plain()
        for miss in self.missed:
            if miss.is_identity:  # another instance of the same block: one entry should serve all instances
                self.code_state.profile.note_unstable(miss.source)
        return TranslationRequest(
            code=self.code,
            function=function_of(state),
            globals=state.globals,
            builtins=state.builtins,
            closure=state.closure,
            values=slot_values(state),
            slot_names=argument_slots(self.code),
            compiler=self.compiler,
            profile=self.code_state.profile,
            module_classes=self.store.module_classes,
            break_chains=self.store.break_chains,
            backend_size_guards=self.store.backend_size_guards,
            nopython=self.store.options.nopython,
            nested_breaks=self._nested_breaks_enabled(),
            guards_separate_callee=self._guards_separate_callee(),
            dynamic=self.store.options.dynamic,
            recorder=self.recorder,
            step_observer=self.store.observers.run,
            frame_id=self.frame,
            backend_name=self.backend.name,
            guard_filter=self.store.options.guard_filter,
            patience=self.store.patience,
        )

    def _nested_breaks_enabled(self) -> bool:
        """Whether a break in a callee may end the graph there."""
        original = original_of(self.code)
        return config.nested_graph_breaks and not runs_once(original or self.code) and not disabled_by_torch()

    def _guards_separate_callee(self) -> bool:
        """Whether an entry under which a chain's callee runs as a separate frame has guards."""
        entries = self.state.cache.entries
        compiled = sum(not is_skipped(entry) for entry in entries)
        return may_guard_separate_callee(sum(map(has_separate_callee, entries)), compiled, entry_limit(self.store))

    def _note_failures_when_plain(self) -> None:
        """Record the guards that failed for skipped entries: if this frame is skipped, too, they need no further translation."""
        profile, scope = self.code_state.profile, scope_of(self.state)
        for entry in [miss.entry for miss in self.missed if miss.entry.left_to_python]:
            failed = [guard for guard in entry.guards.guards if entry.guards.failure_of(guard, scope) is not None]
            if any(is_about_type(guard, scope) for guard in failed):
                continue  # different types are different
            if entry.state is not None and entry.state.first_failure() is not None:
                profile.note_failed_when_skipped("", "MODULE_STATE")
            for guard in failed:
                profile.note_failed_when_skipped(guard.source.text(), guard.kind)

    def _entry_of_translation(self, translation: Translation) -> tuple[Entry | None, str]:
        """Turn a translation into an entry, or into None if there is nothing to compile."""
        for graph_break in translation.breaks:
            reports.count_break(graph_break)
        if translation.left_to_python:
            return self._skip_frame_under_guards(translation)
        entry = add_entry(self.state.cache, translation, self.frame, entry_number(self.recorder))
        if self.recorder is not None:
            self._record_entry(entry)
        return entry, "compiled"

    def _record_entry(self, entry: CompiledEntry) -> None:
        reports.entry_added(self.recorder, self.frame, self.code, entry)
        if config.guard_prices and self.recorder is not None:
            self.recorder.record(guards_timed(entry, self.state, self.frame))
        self.store.observers.modified_codes[id(entry.code)] = (entry.code, self.frame)

    def _skip_frame_under_guards(self, translation: Translation) -> tuple[Entry | None, str]:
        """Run the frame, and calls like it, as plain Python; code that never had anything worth a graph is finally skipped."""
        reports.skipped(self.recorder, self.code, ev.NO_TENSORS, self.frame)
        entries = self.state.cache.entries
        if len(entries) >= entry_limit(self.store) and all(map(is_skipped, entries)):
            self.state.cache.skip = True
            return None, "skipped"
        entry = add_entry(self.state.cache, translation, self.frame, entry_number(self.recorder))
        reports.entry_added(self.recorder, self.frame, self.code, entry)
        self._drop_entries_of_broken_frame()
        return entry, "skipped"

    def _drop_entries_of_broken_frame(self) -> None:
        """Drop the entries of the frame that broke, if it had only numbers, so that it may be skipped like this resume function."""
        if self.state.resumed_from is None:
            return
        for cache in self.store.native.caches():
            numbers_only = [entry for entry in cache.entries if isinstance(entry, CompiledEntry) and entry.may_be_numbers_only]
            if any(entry.code is self.state.resumed_from for entry in numbers_only):
                state_of(cache).profile.resume_was_skipped = True
                for entry in numbers_only:
                    remove_entry(cache, entry)

    def _skip_frame(self, skipped: SkipFrame) -> tuple[None, str]:
        reason = str(skipped)
        if isinstance(skipped.__cause__, GraphBreak) and skipped.__cause__.kind.id == "DX505":
            self.store.patience = max(self.store.patience / 2, LEAST_PATIENCE)
        if self.store.options.nopython or (breaks_are_errors() and isinstance(skipped.__cause__, GraphBreak)):
            cause = skipped.__cause__
            if isinstance(cause, GraphBreak):
                raise reports.unsupported(cause, self.code, whole=self.store.options.nopython) from None
            raise Unsupported(f"{self.code.co_qualname} cannot be captured as one graph: {reason}") from None
        self.state.cache.skip = True
        reports.skipped(self.recorder, self.code, reason, self.frame)
        return None, "skipped"

    def _limit_reached(self) -> None:
        counters["stats"]["cache_limit"] += 1
        limit = entry_limit(self.store)
        reason = str(self.missed[0]) if self.missed else "its guards fail"
        code = self.code
        is_news, self.code_state.limit_reported = not self.code_state.limit_reported, True
        reports.limit_reached(self.recorder, self.frame, code, limit, reason, is_news)
        if self.store.options.nopython:
            raise RecompileLimitError(
                f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) has reached its recompile limit ({limit}), and"
                f" nopython=True (fullgraph) does not allow it to run as plain Python. Latest cache miss: {reason}"
            )
        if not is_news:
            return
        if self.store.entry_limit is None:
            option = "config.cache_size_limit" if self.store.options.entry_limit is None else "recompile_limit"
            reports.log(
                "WARNING",
                f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) has reached its recompile limit"
                f" ({option} = {limit}). Calls that match no cache entry now run as plain Python."
                f" Latest cache miss: {reason}",
            )

    def _engine_failed(self, error: Exception) -> None:
        """Handle a bug in the engine: raise it if configured, else count it, log it once, and skip the frame."""
        where = _location_of(error)
        text = f"{type(error).__name__}: {error}".strip(": ")
        function = f"{self.code.co_qualname} ({self.code.co_filename}:{self.code.co_firstlineno})"
        stack = interpreted_at(error)
        if self.recorder is not None:
            self.recorder.record(ev.EngineFailed(frame=self.frame, error=text, where=where, user_stack=stack))
        counters["engine_error"][f"{where}: {text}"] += 1
        self._save_frame(error, where)
        if config.raise_engine_errors or not config.suppress_errors:
            raise EngineError(f"while translating {function}, in {where}: {text}") from error
        self.state.cache.skip = True
        if counters["engine_error"][f"{where}: {text}"] == 1:
            details = "".join(traceback.format_exception(error)) if config.verbose else "config.verbose = True shows more"
            reports.log(
                "ERROR",
                f"EngineError (a bug in dynexplore; please report it){_at_line(stack)}: {text} (raised in {where}). {function}"
                f" runs as plain Python, so its result is right. {details}",
            )

    def _save_frame(self, error: Exception, where: str = "") -> None:
        """Save a frame whose translation failed for a replay, if configured; the exception says where the file is."""
        if config.replay_record_enabled and self.tools is not None:
            path = self.tools.save_failed_frame(self.store, self.state, error, where)
            if path is not None:
                error.add_note(f"the frame is saved: dynexplore.replay({str(path)!r})")


def _at_line(stack: tuple[ev.UserFrame, ...]) -> str:
    """The line of the program that was being interpreted, as part of a sentence."""
    return f" at {stack[-1].file}:{stack[-1].line} in {stack[-1].function}" if stack else ""


def _location_of(error: BaseException) -> str:
    """The line of the engine that raised an exception: `translate/translator.py:123 in run`."""
    entries = traceback.extract_tb(error.__traceback__)
    engine_frames = [entry for entry in entries if entry.filename.startswith(trace_rules.OWN_FOLDER)]
    if not engine_frames:
        return "an unknown place"
    last = engine_frames[-1]
    return f"{last.filename.removeprefix(trace_rules.OWN_FOLDER)}:{last.lineno} in {last.name}"
