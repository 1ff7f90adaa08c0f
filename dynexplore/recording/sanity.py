"""Validation of a saved recording beyond its types: plausible numbers and existing code locations.

The idea: a recording is a file, and people edit files. A negative frame, a step beyond the end of its code, or a time that is
not finite would go unnoticed until a view shows nonsense or fails. So everything is validated once, when the recording is
loaded.

In: a number of a record, with its field name; the events of a recording. Out: nothing, or a ValueError with a one-sentence
explanation. PyTorch's counterpart: none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from dynexplore.engine import events as ev

_HIGHEST = 2**63 - 1


def finite(name: str, value: float) -> float:
    """The number as a float; raises ValueError unless it is finite, because events store NaN and infinities as text.

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
    """A valid count or index: at least `lowest`, which is -1 if that represents "none", else 0.

    >>> countable("line", 3, 0)
    3
    """
    if not lowest <= value <= _HIGHEST:
        shown = str(value) if abs(value) <= _HIGHEST else f"a number of {value.bit_length()} bits"
        raise ValueError(f"{name} is {shown}, not from {lowest} to {_HIGHEST}")
    return value


def check_code(code: ev.CodeView) -> None:
    """Check that the rows of a code object are in order, and that jump targets exist."""
    offsets = [row.offset for row in code.rows]
    if offsets != sorted(set(offsets)):
        raise ValueError(f"the rows of {code.qualname} are not in order")
    offset_set = set(offsets)
    for row in code.rows:
        if row.target >= 0 and row.target not in offset_set:
            jump = f"the jump at offset {row.offset} goes to {row.target}"
            raise ValueError(f"{code.qualname}: {jump}, where there is no instruction")


def check_places(events: Iterable[ev.Event], code_of: Callable[[Any], ev.CodeView | None]) -> None:
    """Check that steps, breaks and calls of inlined functions refer to existing instructions of their code objects."""
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
