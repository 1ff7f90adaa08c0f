"""Whether a list that a function recompiles for is one that the function itself makes longer.

The idea: "append to it outside the compiled function" helps only there. Lists of 1 and of 2 items may as well be two arguments, or
belong to two modules. So three things are required: in two misses that follow each other it is longer, and then longer again; it is
a list, and no argument; and the source of the function, or of a callee that was traced, appends to that name. What a recording does
not contain is no evidence.

In: a Recording, a GuardFailed about a length. Out: `grows(recording, failed)`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import itertools
import re

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording


def grows(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the failed guard is about the length of a list that grows call by call, because the function appends to it."""
    if length_of(failed.source, failed.kind, failed.expected) is None:
        return False
    source = list_of(failed.source)
    return (
        _is_list(recording, failed, source)
        and not _is_argument(recording, failed.frame, source)
        and _is_appended_to(recording, failed.frame, source)
        and _grew_twice(recording, failed.frame, source)
    )


def length_of(source: str, kind: str, expected: str) -> int | None:
    """The length that a guard requires; None if the guard is about something else.

    >>> length_of("xs", "LIST_LENGTH", "2"), length_of("len(xs)", "EQUALS", "3"), length_of("xs", "torch", "empty")
    (2, 3, 0)
    >>> length_of("n", "EQUALS", "2")
    """
    if expected == "empty":
        return 0
    return int(expected) if (kind == "LIST_LENGTH" or source.startswith("len(")) and expected.isdigit() else None


def list_of(source: str) -> str:
    """The list whose length a guard is about.

    >>> list_of("len(self.log)"), list_of("self.log")
    ('self.log', 'self.log')
    """
    return re.sub(r"^len\((.*)\)$", r"\1", source)


def _grew_twice(recording: Recording, frame: int, source: str) -> bool:
    """Whether two misses of the function that follow each other had more items than the newest entry, and then still more."""
    code = recording.original_code(frame).id
    misses = [
        recompiled.frame for recompiled in recording.of(ev.Recompiled) if recording.original_code(recompiled.frame).id == code
    ]
    lengths = [_lengths(recording, miss, source) for miss in misses]
    return any(
        first is not None and second is not None and first[0] < second[0] and first[1] in (None, second[0])
        for first, second in itertools.pairwise(lengths)
    )


def _lengths(recording: Recording, frame: int, source: str) -> tuple[int, int | None] | None:
    """The length of the newest entry that rejected a call, and that in the call (None: torch.compile says only that it is another
    one); None if the call had no more items.
    """
    failures = (*recording.of_frame(frame, ev.GuardFailed), *recording.of_frame(frame, ev.GuardAlsoFailed))
    newest = max(
        (failed for failed in failures if list_of(failed.source) == source), key=lambda failure: failure.entry, default=None
    )
    length = length_of(newest.source, newest.kind, newest.expected) if newest is not None else None
    if newest is None or length is None:
        return None
    if newest.actual in ("not empty", "another value"):
        return length, None
    return (length, int(newest.actual)) if newest.actual.isdigit() and int(newest.actual) > length else None


def _is_list(recording: Recording, failed: ev.GuardFailed, source: str) -> bool:
    """Whether a guard of the entry, or of the one that was made for the call, requires a list: no tuple grows."""
    frames = {failed.frame, recording.frame_of_entry(failed.entry)}
    guards = [guard for frame in frames for guard in recording.of_frame(frame, ev.GuardInstalled) if guard.source == source]
    is_type = any(guard.kind == "TYPE_MATCH" and guard.expected == "list" for guard in guards)
    return is_type or any("<class 'list'>" in guard.expression for guard in guards)


def _is_argument(recording: Recording, frame: int, source: str) -> bool:
    """Whether the list itself is passed; a variable of an enclosing function is not, although torch.compile lists it as well."""
    entered = recording.frame(frame)
    free = {row.arg for row in entered.code.rows if row.op == "LOAD_DEREF"}
    return source in {name for name, _ in entered.arguments} - free or source.startswith(("args[", "kwargs["))


def _is_appended_to(recording: Recording, frame: int, source: str) -> bool:
    """Whether the function, or a callee that was traced, appends to what has this name there."""
    name = re.findall(r"\w+", source)[-1]
    appends = re.compile(rf"(?<!\w){name}(?!\w)['\"]?\]?\s*(\.(append|extend|insert)\(|\+?=(?!=).*\b{name}\b|\+=)")
    codes = [recording.original_code(frame), *(inlined.code for inlined in recording.of_frame(frame, ev.InlineEntered))]
    return any(appends.search(line) for code in codes for line in code.source.splitlines())
