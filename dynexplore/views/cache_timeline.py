"""The recompile timeline: calls against cache entries, and for each miss how the new capture differs from the old one.

The idea: a recording lists frames, one after the other; a person asks which call recompiled, and which guard failed. So the
frames are grouped by call, each with one outcome, and with the failed guard of every entry that was tried.

In: a Recording. Out: `calls(recording)`: the outcome of each call; `text(recording)`; `timeline_data(recording)` for the
browser. PyTorch's counterpart: TORCH_LOGS="recompiles", which logs a line per miss.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import text as views_text
from dynexplore.views.capture_difference import Difference, difference, difference_data
from dynexplore.views.changes import as_the_program_says, change
from dynexplore.views.compile_seconds import seconds_by_frame
from dynexplore.views.counts import plural
from dynexplore.views.guard_words import condition, without_message
from dynexplore.views.miss_reasons import call_of_frame, needed_at
from dynexplore.views.names import frame_name, short_file


@dataclass(slots=True)
class FrameCall:
    """A frame of a call that the engine intercepted, and its outcome.

    `outcome` is "hit", "compile", "recompile", "limit reached", "plain Python" or "failed"; `entry` is the entry that was hit or
    added (-1: none); `missed` the failed guards by entry; `reason` why it recompiled or runs as plain Python. `recompiled` stays
    true where the new capture was given up, and the outcome is another one.
    """

    frame: int
    function: str
    code: int
    outcome: str = ""
    entry: int = -1
    missed: dict[int, ev.GuardFailed] = field(default_factory=dict)
    reason: str = ""
    recompiled: bool = False

    @property
    def symbol(self) -> str:
        """The outcome as one letter of a table: H, C, R, L, P or F."""
        return self.outcome[:1].upper()


@dataclass(slots=True)
class Call:
    """One call of the explained function, from 1: its arguments as text, and its frames in order of execution."""

    number: int
    arguments: str
    frames: list[FrameCall] = field(default_factory=list)
    error: str = ""

    @property
    def outcome(self) -> str:
        """The outcome of the call's first frame; "nothing" if none of its frames was intercepted."""
        return self.frames[0].outcome if self.frames else "nothing"


def calls(recording: Recording) -> list[Call]:
    """Every call of the recording. Frames before the first `CallBegan`, if any, are call 1."""
    return recording.once("calls", lambda: _calls(recording))


def _calls(recording: Recording) -> list[Call]:
    fold = _Fold()
    for _, event in recording.besides_steps:
        fold.apply(event)
    return fold.calls


class _Fold:
    """Assigns frames to calls, and outcomes to frames."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.frames: dict[int, FrameCall] = {}
        self.codes: dict[int, int] = {}  # entry -> code

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.CallBegan():
                arguments = ", ".join(_argument(name, view) for name, view in event.arguments)
                self.calls.append(Call(event.call, arguments))
            case ev.CallEnded():
                self.calls[-1].error = event.error
            case ev.FrameEntered():
                frame_call = self.frame(event.frame, event.code.qualname, event.code.id)
                frame_call.outcome = frame_call.outcome or "compile"
            case ev.CacheHit():
                frame_call = self.frame(event.frame, event.function, event.code)
                frame_call.outcome, frame_call.entry = "hit", event.entry
            case ev.GuardAlsoFailed():
                pass  # `miss_reasons.py` shows these
            case ev.GuardFailed():
                self.frame(event.frame, "", self.codes.get(event.entry, -1)).missed[event.entry] = event
            case ev.Recompiled() | ev.CacheLimitReached() | ev.FrameSkipped() | ev.CacheEntryAdded() | ev.FrameFinished():
                self.finish(event)
            case _:
                pass

    def finish(self, event: ev.Event) -> None:
        """Record the outcome of a frame."""
        if not event.frame:  # a function that policy skips: none of its frames was translated
            return
        frame_call = self.frame(event.frame)
        match event:
            case ev.Recompiled():
                frame_call.outcome, frame_call.reason, frame_call.recompiled = "recompile", event.reason, True
            case ev.CacheEntryAdded():
                frame_call.entry, frame_call.code = event.entry, event.code
                self.codes[event.entry] = event.code
            case ev.CacheLimitReached():
                frame_call.outcome, frame_call.reason, frame_call.function = "limit reached", event.reason, event.function
            case ev.FrameSkipped() if frame_call.outcome != "limit reached":
                frame_call.outcome, frame_call.reason, frame_call.function = "plain Python", event.reason, event.function
            case ev.FrameFinished() if event.outcome == "failed":
                frame_call.outcome = "failed"
            case _:
                pass

    def frame(self, number: int, function: str = "", code: int = -1) -> FrameCall:
        """The frame of that number, created if necessary."""
        frame_call = self.frames.get(number)
        if frame_call is None:
            if not self.calls:
                self.calls.append(Call(1, ""))
            frame_call = self.frames[number] = FrameCall(number, function, code)
            self.calls[-1].frames.append(frame_call)
        frame_call.function = function or frame_call.function
        frame_call.code = code if code >= 0 else frame_call.code
        return frame_call


def _argument(name: str, view: ev.ValueView) -> str:
    return view.text if name.isdigit() else f"{name}={view.text}"


# -- misses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Miss:
    """A frame that was compiled although its code had cache entries: the failed guard of the entry tried first, and the
    differences.
    """

    frame: int
    entry: int
    failed: ev.GuardFailed
    compared_with: int
    difference: Difference


def miss(recording: Recording, frame: int, entry: int | None = None) -> Miss:
    """The miss of a frame, compared with the capture of `entry` (None: the one that was tried first).

    Raises KeyError when no guard failed for this frame.
    """
    failed = {event.entry: event for event in recording.of_frame(frame, ev.GuardFailed)}
    if not failed:
        raise KeyError(f"frame {frame} is not a cache miss: no guard failed for it")
    number = next(iter(failed)) if entry is None else entry
    if number not in failed:
        raise KeyError(f"frame {frame} did not try entry {number}; it tried {', '.join(map(str, failed))}")
    owner = entry_frames(recording).get(number, 0)
    return Miss(frame, number, failed[number], owner, difference(recording, owner, recording, frame))


def entry_frames(recording: Recording) -> dict[int, int]:
    """Entry -> the frame whose translation created it."""
    return {event.entry: event.frame for event in recording.of(ev.CacheEntryAdded)}


# -- as text -----------------------------------------------------------------------------------------------------


MANY_HITS = 8
"""More consecutive hits than this are merged into one row per entry, with their number."""

MANY_ENTRIES = 12
"""With more entries than this, one column lists those that were hit, added or missed; else each has a column."""


def text(recording: Recording) -> str:
    """The timeline as a table, and a line per miss.

    A row is a frame of a call, a column an entry. A long-running program hits the same entries repeatedly: such a run is merged
    into one row with a count, so the table grows with compilations, not with calls.
    """
    entries = sorted(entry_frames(recording))
    if any(_mark(frame, ev.EARLIER) for call in calls(recording) for frame in call.frames):
        entries = [ev.EARLIER, *entries]
    rows, lines, called = [], [], names_of_frames(recording)
    for first, last, frame, count in _runs(calls(recording)):
        function = called.get(frame.frame, frame.function)
        number = str(first) if first == last else f"{first} to {last}"
        marks = [_mark(frame, entry) for entry in entries] if len(entries) <= MANY_ENTRIES else [_marks(frame)]
        rows.append((number, function, plural(count, frame.outcome) if count > 1 else frame.outcome, *marks))
        if frame.missed:
            failed = next(iter(frame.missed.values()))
            lines.append(ev.wrapped(f"call {number}, {function}: {views_text.guard_failure(failed)}", 4))
        elif frame.reason:
            lines.append(ev.wrapped(f"call {number}, {function}: {frame.reason}", 4))
    names = ["earlier" if entry == ev.EARLIER else f"entry {entry}" for entry in entries]
    marked = names if len(entries) <= MANY_ENTRIES else ["entries"]
    return "\n".join([views_text.table(("call", "function", "outcome", *marked), rows), *lines])


def names_of_frames(recording: Recording) -> dict[int, str]:
    """The display name of each frame that was compiled, or that hit the entry of another frame."""
    names = {entered.frame: frame_name(recording, entered) for entered in recording.frames}
    return names | {hit.frame: names[hit.compiled_by] for hit in recording.of(ev.CacheHit) if hit.compiled_by in names}


Run = tuple[int, int, FrameCall, int]
"""Merged rows of the table: the numbers of the first and the last call, the frame, and the count."""


def _runs(all_calls: list[Call]) -> Iterator[Run]:
    """The frames of all calls in order; many consecutive hits are merged into one run per entry."""
    rows = [(call.number, frame) for call in all_calls for frame in call.frames]
    for is_hit, equal_outcomes in itertools.groupby(rows, key=lambda row: row[1].outcome == "hit" and not row[1].missed):
        run = list(equal_outcomes)
        if not is_hit or len(run) <= MANY_HITS:
            yield from ((number, number, frame, 1) for number, frame in run)
            continue
        same: dict[tuple[str, int], list[tuple[int, FrameCall]]] = {}
        for number, frame in run:
            same.setdefault((frame.function, frame.entry), []).append((number, frame))
        yield from ((equal[0][0], equal[-1][0], equal[0][1], len(equal)) for equal in same.values())


def _mark(frame: FrameCall, entry: int) -> str:
    if frame.entry == entry and (frame.outcome == "hit" or entry != ev.EARLIER):
        return "hit" if frame.outcome == "hit" else "compiled"
    return "miss" if entry in frame.missed else ""


def _marks(frame: FrameCall) -> str:
    """The text of a table cell on a frame's entries: `miss 1, 2, compiled 5`."""
    missed = f"miss {', '.join(map(views_text.entry_name, frame.missed))}" if frame.missed else ""
    mark = _mark(frame, frame.entry)
    own = f"{mark} {views_text.entry_name(frame.entry)}" if mark else ""
    return ", ".join(filter(None, (missed, own)))


# -- for the browser ---------------------------------------------------------------------------------------------


def timeline_data(recording: Recording) -> dict[str, Any]:
    """Calls, entries and misses: each entry with its frame, frames of calls with their marks per entry; `seconds` has the compile
    time of each frame.
    """
    owners, names = entry_frames(recording), names_of_frames(recording)
    all_calls = calls(recording)
    frames = [frame for call in all_calls for frame in call.frames]
    return {
        "entries": [{"entry": entry, "frame": frame, "function": names.get(frame, "")} for entry, frame in sorted(owners.items())],
        "calls": [_call_data(recording, call, names) for call in all_calls],
        "misses": {str(frame.frame): _miss_data(recording, frame) for frame in frames if frame.missed},
        "seconds": {str(frame): round(spent.all, 4) for frame, spent in seconds_by_frame(recording).items() if spent.all},
    }


def _call_data(recording: Recording, call: Call, names: Mapping[int, str]) -> dict[str, Any]:
    frames = [_frame_data(recording, frame, names.get(frame.frame, frame.function)) for frame in call.frames]
    return {"number": call.number, "arguments": call.arguments, "error": call.error, "frames": frames}


def _frame_data(recording: Recording, frame: FrameCall, function: str) -> dict[str, Any]:
    return {
        "frame": frame.frame,
        "function": function,
        "outcome": frame.outcome,
        "entry": frame.entry,
        "missed": {str(entry): views_text.guard_failure(failed) for entry, failed in frame.missed.items()},
        "words": {str(entry): str(change(as_the_program_says(recording, failed))) for entry, failed in frame.missed.items()},
        "reason": frame.reason,
        **({"recompiled": 1} if frame.recompiled else {}),
    }


def _miss_data(recording: Recording, frame: FrameCall) -> dict[str, Any]:
    """The failed guard of each entry that was tried, the lines that needed it and made the call, and the differences from the
    capture of the first of them.
    """
    failures = list(frame.missed.values())
    others = Counter(event.entry for event in recording.of_frame(frame.frame, ev.GuardAlsoFailed))
    described: dict[str, Any] = {
        "reports": {str(entry): views_text.recompile_report(recording, failed) for entry, failed in frame.missed.items()},
        "failed": [_failed_data(recording, failed, others[failed.entry]) for failed in failures],
        "lines": [
            [title, f"{short_file(line.file)}:{line.line}", line.code.strip()]
            for title, line in (
                ("Guarded value used at", needed_at(recording, failures[-1])),
                ("Called from", call_of_frame(recording, frame.frame)),
            )
            if line is not None and line.line
        ],
    }
    if frame.outcome != "recompile":
        return described
    comparison = miss(recording, frame.frame)
    return {**described, "with": comparison.compared_with, "difference": difference_data(comparison.difference)}


def _failed_data(recording: Recording, failed: ev.GuardFailed, others: int) -> dict[str, Any]:
    """A guard that failed as a person reads it: what must hold, the actual value, and the number of further guards that fail."""
    words = as_the_program_says(recording, failed)
    return {"entry": failed.entry, "guard": condition(words), "found": without_message(words.actual), "others": others}
