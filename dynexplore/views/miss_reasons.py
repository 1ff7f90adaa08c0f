"""Why something was compiled again: every guard that failed, in the words of the program, with the line that needed it.

Which idea lives here: the native check ends at the first guard that says no, and a recording has the others behind it. Several
entries say no to the same thing, and each expects another value; to a person that is one reason. So the reasons of a miss are
those of all entries, each thing once, with what the entry that was tried first had expected.

In:  a Recording, a frame that was compiled again or ran as plain Python at the limit.
Out: `reasons_of(recording, frame)`: `Reason`s, the guard that ended the check first; `reason_of(recording, failed)`, one of them;
     `call_of_frame(recording, frame)`: the line of the program that made the call.

PyTorch's counterpart: TORCH_LOGS="recompiles_verbose", which logs the failed expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from dynexplore.engine import events as ev
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import (
    FROM_BEFORE,
    Change,
    as_the_program_says,
    change,
    is_another_object,
    is_last_round,
    precedes_graph_break,
    registry_of,
    source_alone,
)
from dynexplore.views.names import calling_line, is_library, short_file

Fact = Literal["last round", "from before", "before a break", "another object", "accepts any", "varies"]
"""What a recording knows beside the guard: the loop has no further item; it is no argument, but was made before a graph break, with
or without a name in the program; another object of the same class came, and the new version accepts any; a size or number is an
input of the new graph."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that was another: what the guard is about, what it expected and what it found, in words; `needed_at` is the line of
    the program that relied on it (None: not known), `entries` are the cache entries that said no to it, `owner` and `registry` the
    module and which of its dictionaries, where it is one."""

    source: str
    kind: str
    expected: str
    actual: str
    change: Change
    needed_at: ev.UserFrame | None
    entries: tuple[int, ...] = ()
    facts: frozenset[Fact] = frozenset()
    owner: str = ""
    registry: str = ""
    engine: str = DYNEXPLORE

    @property
    def line(self) -> str:
        """One line: "`n` was 1, now 5 (needed at model.py:14)"."""
        place = self.needed_at
        return f"{self.change}{f' (needed at {short_file(place.file)}:{place.line})' if place is not None else ''}"


def reasons_of(recording: Recording, frame: int) -> list[Reason]:
    """Every guard that failed for a frame, each thing once."""
    failures = sorted(
        (*recording.of_frame(frame, ev.GuardFailed), *recording.of_frame(frame, ev.GuardAlsoFailed)),
        key=lambda event: type(event) is ev.GuardAlsoFailed,
    )
    reasons: dict[str, Reason] = {}
    entries: dict[str, list[int]] = {}
    for failed in failures:
        name = change(as_the_program_says(recording, failed)).name
        entries.setdefault(name, []).append(failed.entry)
        if name not in reasons:
            reasons[name] = reason_of(recording, failed)
    return [replace(reason, entries=tuple(dict.fromkeys(entries[name]))) for name, reason in reasons.items()]


def reason_of(recording: Recording, failed: ev.GuardFailed) -> Reason:
    """A guard that failed, in the words of the program, with what the recording knows beside it."""
    in_words = as_the_program_says(recording, failed)
    owner, registry = registry_of(in_words)
    facts: dict[Fact, bool] = {
        "last round": is_last_round(in_words),
        "from before": change(in_words).name == FROM_BEFORE,
        "before a break": precedes_graph_break(recording, failed),
        "another object": is_another_object(in_words),
        "accepts any": is_another_object(in_words) and _accepts_any(recording, in_words),
        "varies": in_words.kind in ("TENSOR_MATCH", "EQUALS", "NUMBER") and _varies(recording, failed),
    }
    return Reason(
        source_alone(in_words.source), in_words.kind, in_words.expected, in_words.actual, change(in_words),
        needed_at(recording, failed), facts=frozenset(fact for fact, holds in facts.items() if holds),
        owner=owner, registry=registry, engine=recording.engine,
    )  # fmt: skip


def _accepts_any(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the code that was compiled for another object serves any further one: it takes its parameters as inputs."""
    last = recording.final_attempt(failed.frame)
    installed = recording.of_frame(failed.frame, ev.GuardInstalled)
    guards = [guard for guard in installed if guard.attempt == last and guard.kind == failed.kind]
    return recording.engine == DYNEXPLORE and failed.source not in {re.sub(r"\btarget\b", "self", guard.source) for guard in guards}


def _varies(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether what was compiled now serves other sizes, or numbers: its guard leaves it open, or it is an input of the graph."""
    last = recording.final_attempt(failed.frame)
    guards = [guard for guard in recording.of_frame(failed.frame, ev.GuardInstalled) if guard.attempt == last]
    if any((guard.source, guard.kind) == (failed.source, "TENSOR_MATCH") and "?" in guard.expected for guard in guards):
        return True
    graphs = [graph for graph in recording.graphs if graph.frame == failed.frame]
    inputs = [node for graph in graphs for node in graph.nodes if node.op == "placeholder"]
    if failed.kind == "EQUALS" and recording.engine != DYNEXPLORE:
        return any(node.target == failed.source for node in inputs)
    return any(re.search(r"\b[su]\d+\b", node.shape) or not node.dtype for node in inputs)


def needed_at(recording: Recording, failed: ev.GuardFailed) -> ev.UserFrame | None:
    """The line of the program that a guard rests on: of the instruction that asked for it, else as the engine wrote it down."""
    owner = next((added.frame for added in recording.of(ev.CacheEntryAdded) if added.entry == failed.entry), 0)
    last = recording.final_attempt(owner) if owner else 0
    guards = [guard for guard in recording.of_frame(owner, ev.GuardInstalled) if guard.attempt == last] if owner else []
    same = [guard for guard in guards if guard.source == failed.source and guard.source]
    same += [guard for guard in guards if guard.index == failed.index and guard.kind == failed.kind]
    same.sort(key=lambda guard: guard.kind != failed.kind)
    for guard in same:
        place = _line_of(recording, guard)
        if place is not None and not is_library(place.file):
            return place
    return failed.needed_at


_LINE = re.compile(r"line (\d+) needs it")


def _line_of(recording: Recording, guard: ev.GuardInstalled) -> ev.UserFrame | None:
    code = recording.code_of(guard)
    if code is None:
        return None
    row = next((row for row in code.rows if row.offset == guard.offset and row.line > 0), None) if guard.offset >= 0 else None
    user_line = _LINE.fullmatch(guard.reason)  # torch.compile says the line itself; the instruction may be a later one
    line = int(user_line[1]) if user_line else row.line if row is not None else 0
    if line <= 0:
        return None
    lines = code.source.splitlines()
    if lines and not 0 <= line - code.first_line < len(lines):
        return None  # of a function that this one calls, which no step was recorded of
    text = lines[line - code.first_line] if lines else ""
    return ev.UserFrame(code.file, line, code.qualname, text)


def call_of_frame(recording: Recording, frame: int) -> ev.UserFrame | None:
    """The line of the program that made the call which a frame belongs to: what continues after a break was called by none."""
    entered = {event.frame: event for event in recording.frames}
    while frame in entered and entered[frame].code.resumes >= 0 and entered[frame].parent:
        frame = entered[frame].parent or 0
    if frame in entered:
        return entered[frame].caller or calling_line(recording, entered[frame])
    return next((event.caller for event in recording.of_frame(frame, ev.CacheLimitReached)), None)
