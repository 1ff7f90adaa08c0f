"""What a saved recording must be, beyond its types: numbers that can be, and places that there are.

Which idea lives here: a recording is a file, and people edit files. A negative frame, a step beyond the end of its code, a time
that is no number would go unnoticed until a view shows nonsense or fails. So all is looked at once, when the recording is read.

In: a number of a record, with the field that it is for; the events of a recording. Out: nothing, or a ValueError that says in one
sentence what is wrong. PyTorch has no counterpart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from dynexplore.engine import events as ev

_HIGHEST = 2**63 - 1


def finite(name: str, value: float) -> float:
    """A number as a float; events hold NaN and infinities as text.

    >>> finite("seconds", 2)
    2.0
    """
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} is not a valid number: it has {value.bit_length()} bits") from None  # type: ignore[attr-defined]
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}, which is not a finite number")
    return number


def countable(name: str, value: int, lowest: int) -> int:
    """A whole number that counts or numbers something: `lowest` is -1 where that stands for "none", else 0.

    >>> countable("line", 3, 0)
    3
    """
    if not lowest <= value <= _HIGHEST:
        shown = str(value) if abs(value) <= _HIGHEST else f"a number of {value.bit_length()} bits"
        raise ValueError(f"{name} is {shown}, not from {lowest} to {_HIGHEST}")
    return value


def check_code(code: ev.CodeView) -> None:
    """The rows of a code object stand in order, and jumps stay inside."""
    offsets = [row.offset for row in code.rows]
    if offsets != sorted(set(offsets)):
        raise ValueError(f"the rows of {code.qualname} are not in order")
    offset_set = set(offsets)
    for row in code.rows:
        if row.target >= 0 and row.target not in offset_set:
            jump = f"the jump at offset {row.offset} goes to {row.target}"
            raise ValueError(f"{code.qualname}: {jump}, where there is no instruction")


def check_places(events: Iterable[ev.Event], code_of: Callable[[Any], ev.CodeView | None]) -> None:
    """Steps, breaks and calls of inlined functions stand inside the code objects that they belong to."""
    ends: dict[tuple[int, int, int], tuple[str, int]] = {}
    for event in events:
        if not isinstance(event, (ev.InstructionStepped, ev.GraphBroke, ev.InlineEntered)) or event.offset < 0:
            continue
        place = event.frame, event.attempt if event.inline else 0, event.inline
        if place not in ends:
            code = code_of(event)
            rows = code.rows if code is not None else ()
            ends[place] = (code.qualname, rows[-1].offset) if code is not None and rows else ("", _HIGHEST)
        name, end = ends[place]
        if event.offset > end:
            raise ValueError(f"{type(event).__name__} stands at offset {event.offset}, beyond the end of {name} ({end})")
