"""Exceptions that a graph raises: which code raised, and whether the segment reruns as plain Python.

The idea: if an operator of the graph raises (an index out of range), the segment reruns as plain Python in place of the frame, and
raises with the side effects, the line and the handlers of eager. If user code raises while the graph runs (a hook of saved tensors,
a custom operator, a signal handler, a dispatch mode, Ctrl-C), that code must not run twice. So the exception

    propagates         if the segment has no side effects: the traceback gets the line of the node, and the frames inlined there
    is replayed        if side effects came before it, or an exception handler covers it: plain Python reruns, and calls of user
                          code return what they returned the first time (replay.py)

In: the exception, a segment (what its graph contains, whether it has side effects). Out: `Segment.must_rerun`, which the handler in
the modified code calls, and then `Segment.rerun`. PyTorch's counterpart: none; there every exception of a graph
propagates, and the side effects before it are lost.
"""

from __future__ import annotations

import enum
import linecache
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dynexplore.engine.counters import counters
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.graph.custom_operators import CallNotes
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.native import TailCall
from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.translate.replay import Replay, innermost_hooks, notes_of, record_hook_calls
from dynexplore.engine.translate.stack_traces import (
    NodeLocation,
    code_of,
    definition_of,
    node_locations,
    traceback_at,
    traceback_from,
)

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_MODE_WRAPPER_FILES = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")
_GENERATED = "<eval_with_key>"
_SOURCE_NODES = re.compile(r"# .*Source Nodes: \[(.*?)\]")
_FOLDERS = (OWN_FOLDER, torch.__path__[0], np.__path__[0])


class Verdict(enum.Enum):
    """What to do with a segment whose graph raised."""

    PROPAGATE = enum.auto()
    RERUN = enum.auto()
    REPLAY = enum.auto()


def must_run_again_on_failure(ctx: Interpreter) -> bool:
    """Whether the segment would rerun if an operator that is added now raised: a handler or side effects precede it."""
    frames = ctx.frames.running or [ctx.frames.innermost]
    return any(frame.current.handler is not None for frame in frames) or _has_side_effects(ctx)


def _has_side_effects(ctx: Interpreter) -> bool:
    return bool(ctx.journal.changed or ctx.effects.draws or ctx.graph.sets_modes)


class Failure:
    """One exception of one graph call, and what was decided about it."""

    def __init__(self, raised: BaseException, segment: Segment) -> None:
        self.raised, self.segment = raised, segment
        self.notes = notes_of(raised) or CallNotes()
        self.entries = [(entry.tb_frame, entry.tb_lineno) for entry in _entries(raised.__traceback__)]
        self.is_raised_by_program = segment.is_raised_by_program(self)
        self.verdict = segment.verdict(self)


class _Thread(threading.local):
    decided: Failure | None = None  # the latest
    note_partial_mutation: BaseException | None = None  # the exception of a graph that had already mutated its inputs


_thread = _Thread()


class Segment:
    """The part of a frame that one graph computes: the facts that decide what happens when the graph raises."""

    def __init__(self, ctx: Interpreter, graph: FinishedGraph, *, in_order: bool) -> None:
        self.in_order = in_order
        nodes = graph.module.graph.nodes
        self.locations = node_locations(graph.module.graph)
        self.cannot_repeat = {self.locations.get(node.name) for node in nodes if node.meta.get("extended_history")} - {None}
        self.has_program_code = graph.meta.runs_program_code or ctx.function_modes.has_wrappers
        in_a_block = any(node.meta.get("in_a_block") for node in nodes)
        self.has_side_effects = in_a_block or _has_side_effects(ctx)

    def with_hook_notes(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled graph, wrapped to record what user code does; unchanged if the record is not needed."""
        return record_hook_calls(function) if self.has_side_effects or self.has_program_code else function

    def may_run_program_code(self) -> bool:
        """Whether user code may run while the graph runs, in this call."""
        return self.has_program_code or innermost_hooks() is not None or bool(torch._C._len_torch_dispatch_stack())

    def runs_again(self, raised: BaseException) -> bool:
        """Whether the segment reruns after this exception."""
        return self.decide(raised).verdict is not Verdict.PROPAGATE

    def note_inputs_mutated(self, raised: BaseException) -> None:
        """Note that the graph that raised had already mutated its inputs."""
        note_partial_mutation(raised)

    # -- deciding

    def decide(self, raised: BaseException) -> Failure:
        """Decide which code raised and what to do with the segment; decided once per exception."""
        decided = _thread.decided
        if decided is None or decided.raised is not raised or decided.segment is not self:
            decided = _thread.decided = Failure(raised, self)
        return decided

    def verdict(self, failure: Failure) -> Verdict:
        """What to do with the segment."""
        raised = failure.raised
        if isinstance(raised, DynexploreError) or raised is _thread.note_partial_mutation:
            return Verdict.PROPAGATE
        if failure.is_raised_by_program:
            if failure.notes.raised is None and any(_is_of_inductor(frame) for frame, _ in failure.entries):
                # no calls of custom operators are recorded there: with side effects before it, the operator runs twice
                return Verdict.RERUN if self.has_side_effects and isinstance(raised, Exception) else Verdict.PROPAGATE
            can_replay = failure.notes.raised is not None or self._location_of(failure) is not None
            return Verdict.REPLAY if can_replay and (self.has_side_effects or self.has_program_code) else Verdict.PROPAGATE
        if not isinstance(raised, Exception):
            return Verdict.PROPAGATE
        if failure.notes.operators or failure.notes.packed:
            return Verdict.REPLAY
        if self.cannot_repeat and self._location_of(failure) in self.cannot_repeat:
            return Verdict.PROPAGATE
        is_once = self.in_order and not self.has_side_effects and self.may_run_program_code()
        return Verdict.PROPAGATE if is_once else Verdict.RERUN

    def is_raised_by_program(self, failure: Failure) -> bool:
        """Whether user code raised, and not an operator of the graph."""
        if failure.notes.raised is not None or not isinstance(failure.raised, Exception):
            return not isinstance(failure.raised, DynexploreError)
        frames = [frame for frame, _ in failure.entries]
        if traceback_from(failure.raised.__traceback__, list(_callback_codes())) is not None:
            return True
        generated = [location for location, frame in enumerate(frames) if _is_generated(frame)]
        below = frames[generated[-1] + 1 :] if generated else _from_signal_handler(frames)
        return any(not frame.f_code.co_filename.startswith((*_FOLDERS, "<")) for frame in below)

    def _location_of(self, failure: Failure) -> NodeLocation | None:
        """The location of the node that was running."""
        for frame, line in failure.entries:
            if frame.f_code.co_filename.startswith(_GENERATED):
                return next(self._locations_in(frame, line), None)
            if _is_of_inductor(frame):
                return self._location_above(frame, line)
        return None

    def _location_above(self, frame: FrameType, line: int) -> NodeLocation | None:
        """The location of the last node named above a line of Inductor's code: "# ... Source Nodes: [sin, add], ..."."""
        for number in range(line, frame.f_code.co_firstlineno, -1):
            named = _SOURCE_NODES.search(linecache.getline(frame.f_code.co_filename, number))
            if named is not None:
                return next((self.locations[name] for name in reversed(named[1].split(", ")) if name in self.locations), None)
        return None

    def _locations_in(self, frame: FrameType, line: int) -> Iterator[NodeLocation]:
        """The locations of the nodes on a line of a graph's code; for a backend's graph, of the nodes they were made from."""
        module = frame.f_locals.get("self")
        if not isinstance(module, torch.fx.GraphModule):
            return
        text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
        name = text.strip().partition("=")[0].partition(":")[0].strip()
        nodes = {node.name: node for node in module.graph.nodes}
        if name not in nodes:  # `x[0] = y;  setitem = x`
            name = next((name for name in nodes if f"{name} = " in text), "")
        if name not in nodes:
            return
        names, sources = [name], list(nodes[name].meta.get("from_node") or ())
        while sources:
            source = sources.pop()
            names.append(source.name)
            sources += source.from_node
        locations = [self.locations[name] for name in (names[1:] or names) if name in self.locations]
        yield from locations[-1:]

    # -- called by the modified code

    def must_rerun(self, raised: BaseException) -> bool:
        """Whether the segment reruns; if it does not, the exception has the traceback of eager."""
        failure = self.decide(raised)
        if failure.verdict is not Verdict.PROPAGATE:
            counters["graph_failure"][f"{type(raised).__name__}: {raised}"] += 1
            return True
        _thread.decided = _thread.note_partial_mutation = None
        if not isinstance(raised, DynexploreError) and raised.__traceback__ is not None:
            location = self._location_of(failure) or self._first_location()
            if location is not None:
                raised.__traceback__ = traceback_at(raised.__traceback__.tb_frame, location, self._tail(failure))
        return False

    def rerun(self, function: FunctionType, *args: Any) -> Any:
        """The tail call of the plain function; or its result, if user code must not be called again."""
        failure, _thread.decided = _thread.decided, None
        assert failure is not None
        if failure.verdict is Verdict.RERUN:
            return TailCall(function, *args)
        location = self._location_of(failure) or self._first_location()
        replay = Replay(
            failure.raised,
            failure.notes,
            location,
            in_order=self.in_order,
            is_raised_again=failure.is_raised_by_program,
            tail=self._tail(failure),
        )
        failure.raised.__traceback__ = None
        del failure
        return replay.run(function, args)

    def _first_location(self) -> NodeLocation | None:
        """The location of the first operator, for a backend's graph that is one operation."""
        return next(iter(self.locations.values()), None)

    def _tail(self, failure: Failure) -> TracebackType | None:
        """The part of the traceback that eager also has: the frames below the operator."""
        whole = failure.raised.__traceback__
        called_back = traceback_from(whole, list(_callback_codes()))
        if called_back is not None:
            return called_back
        last = None
        for entry in _entries(whole):
            if _is_generated(entry.tb_frame):
                last = entry
        if last is not None:
            return last.tb_next
        return next((entry for entry in _entries(whole) if entry is not whole and _is_user_frame(entry.tb_frame)), None)


def _from_signal_handler(frames: Sequence[FrameType]) -> Sequence[FrameType]:
    """The frames from the program's signal handler on; if there is none, a user-defined backend has raised by itself."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [code_of(handler) for handler in handlers]
    written = {definition_of(code) for code in codes if code is not None}
    first = next((location for location, frame in enumerate(frames) if definition_of(frame.f_code) in written), len(frames))
    return frames[first:]


def strip_engine_frames(raised: BaseException) -> None:
    """Remove the engine's entries, and that of the modified frame at the head, from the traceback that a replay left."""
    entries: list[TracebackType] = []
    for entry in _entries(raised.__traceback__.tb_next if raised.__traceback__ is not None else None):
        if not entry.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
            entries.append(entry)
        elif entry.tb_frame.f_code.co_name == "__torch_dispatch__":
            while entries and entries[-1].tb_frame.f_code.co_filename.endswith(_MODE_WRAPPER_FILES):
                entries.pop()  # torch wraps the method of a mode
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        if entry.tb_next is not following:
            entry.tb_next = following
    raised.__traceback__ = entries[0] if entries else None


def _is_generated(frame: FrameType) -> bool:
    """Whether the frame runs a graph: code that torch.fx or Inductor generated."""
    return frame.f_code.co_filename.startswith(_GENERATED) or _is_of_inductor(frame)


def _is_of_inductor(frame: FrameType) -> bool:
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")  # Inductor sets it before it writes a file
    return folder != "" and frame.f_code.co_filename.startswith(os.path.join(folder, ""))


def _is_user_frame(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((*_FOLDERS, "<"))


def _entries(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def _callback_codes() -> Iterator[CodeType]:
    """The code objects that torch calls while operators run: hooks of saved tensors, dispatch modes."""
    for function in (*(innermost_hooks() or ()), *(type(mode).__torch_dispatch__ for mode in _get_current_dispatch_mode_stack())):
        code = code_of(function)
        if code is not None:
            yield code


def note_partial_mutation(raised: BaseException) -> None:
    """Note that the graph that raised this has mutated its inputs, and that they cannot be rolled back."""
    _thread.note_partial_mutation = raised
