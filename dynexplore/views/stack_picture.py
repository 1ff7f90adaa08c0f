"""The value stack as a picture: the instructions from left to right, and above each what lies on the stack after it.

Which idea lives here: instructions have no names for what they work on: they take values from the top of a stack and put results
there. Read from left to right, one sees it grow and shrink; what an instruction has put on top is marked.

In:  the instructions in order, each with its argument and the stack after it, from the bottom up.
Out: `stack_picture(rows)`, one SVG; `stack_text(rows)`, the same in words.

PyTorch has no counterpart; `dis` of the standard library lists the instructions without their stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.views.html_text import escape
from dynexplore.views.svg import fitting, labelled

COLUMN, CELL, BELOW, LETTERS = 96, 26, 40, 11
"""The width of an instruction's column, the height of a value, the room for the instruction, and how many letters a value has."""

_STYLE = (
    "svg.stack { max-width: 100%; height: auto; font: 11px monospace } .stack text { fill: currentColor }"
    " .stack .op { font-weight: 600 } .stack rect { fill: #8881; stroke: #888; stroke-width: 1.5 }"
    " .stack rect.new { fill: #0b63c522; stroke: #0b63c5 } .stack path { stroke: #888; stroke-width: 1.5 }"
)


@dataclass(frozen=True)
class Row:
    """An instruction, and the stack after it, from the bottom up."""

    op: str
    argument: str
    stack: tuple[str, ...]


def stack_text(rows: Sequence[Row]) -> str:
    """A line for each instruction.

    >>> print(stack_text([Row("LOAD_FAST", "x", ("3",)), Row("RETURN_VALUE", "", ())]))
    LOAD_FAST x: 3
    RETURN_VALUE: empty
    """
    return "\n".join(f"{f'{row.op} {row.argument}'.strip()}: {', '.join(row.stack) or 'empty'}" for row in rows)


def stack_picture(rows: Sequence[Row]) -> str:
    """Return the picture as an SVG element with its style; for those who do not see it, its label says the same in words."""
    ground = CELL * max((len(row.stack) for row in rows), default=0) + 8
    width, height = max(COLUMN * len(rows), 1), ground + BELOW
    drawn = [f'<path d="M0 {ground} H{width}"/>']
    before: tuple[str, ...] = ()
    for place, row in enumerate(rows):
        drawn.append(_column(row, COLUMN * place, ground, unchanged=_unchanged_count(before, row.stack)))
        before = row.stack
    return labelled("stack", stack_text(rows), _STYLE, (width, height), drawn)


def _unchanged_count(before: Sequence[str], after: Sequence[str]) -> int:
    """How many values from the bottom up are as they were."""
    pairs = list(zip(before, after, strict=False))
    return next((at for at, (old_value, new_value) in enumerate(pairs) if old_value != new_value), len(pairs))


def _column(row: Row, x: int, ground: int, unchanged: int) -> str:
    cells = "".join(
        f'<rect class="{"old" if at < unchanged else "new"}" x="{x + 5}" y="{ground - CELL * (at + 1) + 1}" '
        f'width="{COLUMN - 10}" height="{CELL - 3}" rx="3"/>'
        f'<text x="{x + COLUMN // 2}" y="{ground - CELL * at - 9}" text-anchor="middle">{escape(fitting(value, LETTERS))}</text>'
        for at, value in enumerate(row.stack)
    )
    middle = x + COLUMN // 2
    return (
        f'{cells}<text class="op" x="{middle}" y="{ground + 16}" text-anchor="middle">{escape(row.op)}</text>'
        f'<text x="{middle}" y="{ground + 32}" text-anchor="middle">{escape(fitting(row.argument, LETTERS))}</text>'
    )
