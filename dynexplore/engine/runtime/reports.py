"""Reports of the runtime: events for the recorder, counts, log lines, and the messages of exceptions.

The idea: convert.py acts, this file reports. Every function that takes a recorder does nothing without one.

In: frames, misses, entries, graph breaks. Out: records (events.py), counts (counters.py), log lines of the logger "dynexplore".
PyTorch's counterpart: torch/_dynamo/utils.py (counters, CompilationMetrics) and torch/_logging.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.display_paths import shown_file, shown_line
from dynexplore.engine.errors import Unsupported
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import Entry, FrameState, function_of
from dynexplore.engine.policy.calling_line import caller_of, callers, calling_line, is_own_line
from dynexplore.engine.policy.skip import is_about_one_function
from dynexplore.engine.policy.trace_rules import is_of_the_program
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.runtime.cache import CompiledEntry, Miss, also_failed, scope_of, slot_values, state_of
from dynexplore.engine.runtime.decision import OF_A_GENERATOR, WAITS
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.runtime.value_text import value_text
from dynexplore.engine.translate.code_views import code_view
from dynexplore.engine.translate.frame_stack import chain_of

# -- log lines -----------------------------------------------------------------------------------------------

logger = logging.getLogger("dynexplore")
logger.setLevel(logging.DEBUG)  # config.log_level decides, on each call


class _ToStandardError(logging.StreamHandler[Any]):
    """Writes to the current sys.stderr, unless logging is configured."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr
            super().emit(record)


logger.addHandler(_ToStandardError())


def log(level: str, text: str) -> None:
    """Write a log line of this level ("WARNING"), if `config.log_level` enables it."""
    if _is_logged(level):
        logger.log(logging.getLevelName(level), text)


def _is_logged(level: str) -> bool:
    return bool(logging.getLevelName(level) >= logging.getLevelName(config.log_level))


# -- graph breaks --------------------------------------------------------------------------------------------

_break_locations: set[tuple[str, str, int]] = set()

PRINTED_LOCATIONS = 5
"""The maximum number of break locations with a log line each; further ones are only counted."""

_FURTHER = (
    "graph break: no further locations are printed; dynexplore.all_breaks(f, x) lists all of them, "
    "dynexplore.graph_breaks() counts them, config.verbose = True prints all of them in full"
)


def count_break(graph_break: GraphBreak) -> None:
    """Count a break by its reason; log the first one at each location: in one line, or in full under `verbose`, up to a limit."""
    counters["graph_break"][graph_break.reason] += 1
    stack = graph_break.user_stack
    location = (graph_break.kind.id, stack[-1].file if stack else "", stack[-1].line if stack else 0)
    if location in _break_locations:
        return
    _break_locations.add(location)
    counters["stats"]["unique_graph_breaks"] += 1
    if config.verbose:
        log("WARNING", graph_break.render(caller=caller_of(stack)))
    elif len(_break_locations) <= PRINTED_LOCATIONS:
        log("WARNING", break_line(graph_break))
    elif len(_break_locations) == PRINTED_LOCATIONS + 1 and _is_logged("WARNING"):
        log("WARNING", _FURTHER)
        atexit.unregister(_log_break_total)
        atexit.register(_log_break_total)


def break_line(graph_break: GraphBreak) -> str:
    """A break in one line: "graph break DX104 at model.py:12: if on a tensor value; for details: dynexplore.all_breaks(f, x)"."""
    stack = graph_break.user_stack
    location = f" at {_location(stack)}" if stack else ""
    reason = graph_break.reason.replace("`", "")
    return f"graph break {graph_break.kind.id}{location}: {reason}; for details: dynexplore.all_breaks(f, x)"


def _location(stack: tuple[ev.UserFrame, ...]) -> str:
    """The location of a break: "model.py:12", or "model.py:12 (optimizer.py:79)" for a break in a library that this line calls."""
    last = stack[-1]
    if is_of_the_program(last.file):
        return f"{_short(last.file)}:{last.line}"
    own = next(filter(is_own_line, reversed(stack)), None) or calling_line()
    return f"{_short(own.file)}:{own.line} ({os.path.basename(last.file)}:{last.line})" if own else f"{last.file}:{last.line}"


def _short(file: str) -> str:
    """A path relative to the working directory, if the file is inside it."""
    with contextlib.suppress(FileNotFoundError):  # the working directory was deleted
        return file.removeprefix(f"{os.getcwd()}{os.sep}")
    return file


def _log_break_total() -> None:
    """Log the last line of a process whose breaks were not all printed."""
    count = len(_break_locations)
    if count > PRINTED_LOCATIONS and not config.verbose:
        log("WARNING", f"graph breaks: {count} locations in total, of which {PRINTED_LOCATIONS} were printed")


def forget_breaks() -> None:
    """Log and count every break as new again."""
    _break_locations.clear()


@contextlib.contextmanager
def breaks_forgotten() -> Iterator[None]:
    """At the end, forget which breaks the block has logged, so that they are logged again."""
    before = set(_break_locations)
    try:
        yield
    finally:
        _break_locations.clear()
        _break_locations.update(before)


def unsupported(graph_break: GraphBreak, code: CodeType, *, whole: bool) -> Unsupported:
    """The exception, with the report, for a break in a function or block that forbids graph breaks; `whole`: a function."""
    calling = tuple([shown_line(frame, frame.f_lineno) for frame in reversed(list(callers()))])
    graph_break.user_stack = (*calling, *graph_break.user_stack)
    then = "error_on_graph_break(True) forbids a break here"
    if whole:
        then = f"nopython=True (fullgraph) requires a single graph for {code.co_qualname}, so nothing ran"
    return Unsupported(graph_break.render(then), graph_break)


# -- values --------------------------------------------------------------------------------------------------


def value_view(value: Any, number: int, source: str = "") -> ev.ValueView:
    """A live value as a record: its class, and its text, which is written without running code of the program."""
    return ev.ValueView(number, type(value).__qualname__, value_text(value), source)


# -- calls ---------------------------------------------------------------------------------------------------


def call_began(call: int, args: Sequence[Any], kwargs: Mapping[str, Any], target: str = "") -> ev.CallBegan:
    """The explained function is called; records the innermost line of user code."""
    caller = calling_line()
    named = [*((str(index), value) for index, value in enumerate(args)), *kwargs.items()]
    arguments = tuple((name, value_view(value, number)) for number, (name, value) in enumerate(named, 1))
    return ev.CallBegan(frame=0, call=call, arguments=arguments, caller=caller, target=target)


# -- frames --------------------------------------------------------------------------------------------------


def entered(recorder: Recorder | None, frame: int, store: Store, state: FrameState) -> None:
    """A translation begins."""
    if recorder is None:
        return
    arguments = tuple((name, value_view(value, number, name)) for number, (name, value) in enumerate(slot_values(state).items(), 1))
    parent = _parent(store, state.resumed_from)
    code, chain, caller = code_view(state.code), chain_of(state.code), calling_line()
    recorder.record(ev.FrameEntered(frame=frame, parent=parent, code=code, arguments=arguments, caller=caller, chain=chain))


def _parent(store: Store, resumed_from: CodeType | None) -> int | None:
    """The frame in whose modified code this call was made, or which a resume function continues."""
    if resumed_from is not None and (attempt := store.observers.modified_codes.get(id(resumed_from))) is not None:
        return attempt[1]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        attempt = store.observers.modified_codes.get(id(frame.f_code))
        if attempt is not None:
            return attempt[1]
        frame = frame.f_back
    return None


def finished(recorder: Recorder | None, frame: int, outcome: str, seconds: float, backend_seconds: float) -> None:
    """Record the end of a translation."""
    if recorder is None:
        return
    recorder.record(ev.PhaseTimed(frame=frame, phase="translate", seconds=seconds - backend_seconds))
    if backend_seconds:
        recorder.record(ev.PhaseTimed(frame=frame, phase="backend", seconds=backend_seconds))
    recorder.record(ev.FrameFinished(frame=frame, outcome=outcome, seconds=seconds))


def skipped(recorder: Recorder | None, code: CodeType, reason: str, frame: int = 0) -> None:
    """Record that a frame runs as plain Python."""
    if recorder is not None:
        recorder.record(
            ev.FrameSkipped(
                frame=frame,
                function=code.co_qualname,
                file=shown_file(code.co_filename),
                line=code.co_firstlineno,
                reason=reason,
            )
        )


def skipped_generator(recorder: Recorder | None, target: Any) -> None:
    """Record a call of a generator function: the hook ignores its body, which is suspended and resumed during iteration."""
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    if isinstance(code, CodeType) and code.co_flags & WAITS:
        skipped(recorder, code, OF_A_GENERATOR)


def skipped_by_policy(store: Store, state: FrameState, reason: str) -> None:
    """Record a skip by a user's mark; skips by file, by name or by torch's own marks are not reported."""
    function, recorder = function_of(state), store.observers.recorder
    if recorder is None or not is_about_one_function(function) or str(function.__module__).partition(".")[0] == "torch":
        return
    code_state = state_of(state.cache)
    if not code_state.recorded_as_skipped:
        code_state.recorded_as_skipped = True
        skipped(recorder, state.code, reason)


# -- the cache -----------------------------------------------------------------------------------------------


MOST_GUARDS = 100
"""The maximum number of failed guards reported per entry: another instance of a large model may fail one per parameter."""


def missed(recorder: Recorder | None, frame: int, misses: list[Miss], state: FrameState, *, is_known: bool) -> None:
    """Record that no entry fits: the failed guard of each, and the further ones that would have failed; not those if the function
    is known to have reached its limit, because every later call would check all guards of all entries.
    """
    if recorder is None:
        return
    scope = scope_of(state)
    for miss in misses:
        recorder.record(_guard_failed(ev.GuardFailed, frame, miss))
        if is_known:
            continue
        for further in itertools.islice(also_failed(miss, scope), MOST_GUARDS):
            recorder.record(_guard_failed(ev.GuardAlsoFailed, frame, further))


def _guard_failed(kind: type[ev.GuardFailed], frame: int, miss: Miss) -> ev.GuardFailed:
    return kind(
        frame=frame, entry=miss.entry.number, index=miss.index, scope=miss.scope, source=miss.source, kind=miss.kind,
        expected=miss.expected, actual=miss.actual,
    )  # fmt: skip


def recompiled(recorder: Recorder | None, frame: int, code: CodeType, misses: list[Miss]) -> None:
    """Record that a frame is translated although there are entries; a log line if `logs` of recompiles are enabled."""
    if "recompiles" in config.logs:
        logger.info(f"recompiling {code.co_qualname} ({_short(code.co_filename)}:{code.co_firstlineno}): {misses[0]}")
    if recorder is not None:
        recorder.record(ev.Recompiled(frame=frame, reason=str(misses[0]), entries=len(misses)))


def limit_reached(recorder: Recorder | None, frame: int, code: CodeType, limit: int, reason: str, is_news: bool) -> None:
    """Record that the recompile limit is reached; `is_news`: for the first time for this code object."""
    if recorder is not None:
        function = code_view(code).qualname
        recorder.record(
            ev.CacheLimitReached(frame=frame, function=function, limit=limit, reason=reason, caller=calling_line())
        )
    if is_news:
        skipped(recorder, code, f"recompile limit ({limit}) reached", frame)


def entry_added(recorder: Recorder | None, frame: int, code: CodeType, entry: CompiledEntry) -> None:
    """Record a new entry, checked before the others."""
    if recorder is not None:
        recorder.record(
            ev.CacheEntryAdded(
                frame=frame,
                entry=entry.number,
                code=code_view(code).id,
                guard_count=len(entry.guards.guards),
                check=entry.guards.code,
            )
        )


def hit(store: Store, code: CodeType, entry: Entry) -> None:
    """Record a cache hit: called by the region of a watched store."""
    recorder = store.observers.recorder
    if recorder is not None and isinstance(entry, CompiledEntry):
        recorder.record(
            ev.CacheHit(
                frame=recorder.next_frame_id(),
                entry=entry.number,
                code=code_view(code).id,
                function=code_view(code).qualname,
                compiled_by=entry.frame,
            )
        )


# -- graphs that run -----------------------------------------------------------------------------------------


def recorded_graph(compiled: Callable[..., Any], name: str, recorder: Recorder, frame: int) -> Callable[..., Any]:
    """`compiled`, reporting each run to the recorder: inputs, outputs, duration."""
    runs = 0

    def run(*inputs: Any) -> Any:
        nonlocal runs
        runs += 1
        before = tuple(value_view(value, number) for number, value in enumerate(inputs, 1))
        outputs: tuple[ev.ValueView, ...] = ()
        error = ""
        started = time.perf_counter()
        try:
            result = compiled(*inputs)
            outputs = tuple(value_view(value, number) for number, value in enumerate(result, 1))
            return result
        except Exception as failure:
            error = traceback.format_exception_only(failure)[-1].strip()
            raise
        finally:
            seconds = time.perf_counter() - started
            recorder.record(
                ev.GraphRan(frame=frame, graph=name, run=runs, inputs=before, outputs=outputs, seconds=seconds, error=error)
            )

    return native.RegionCall(run, None)
