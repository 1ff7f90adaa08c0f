"""A picture of the value stack: the instructions from left to right, and above each the stack after it.

The idea: instructions have unnamed operands: they pop values from the top of a stack and push results. Read from left to right,
the stack grows and shrinks; the values that an instruction pushed are highlighted.

In: the instructions in order, each with its argument and the stack after it, bottom first. Out: `stack_picture(rows)`, an SVG;
`stack_text(rows)`, the same as text. PyTorch's counterpart: none; `dis` of the standard library lists the instructions without
their stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.views.html_text import escape
from dynexplore.views.svg import fitting, labelled

COLUMN, CELL, BELOW, LETTERS = 96, 26, 40, 11
"""The width of an instruction's column, the height of a value, the height of an instruction, and the most characters of a value."""

_STYLE = (
    "svg.stack { max-width: 100%; height: auto; font: 11px monospace } .stack text { fill: currentColor }"
    " .stack .op { font-weight: 600 } .stack rect { fill: #8881; stroke: #888; stroke-width: 1.5 }"
    " .stack rect.new { fill: #0b63c522; stroke: #0b63c5 } .stack path { stroke: #888; stroke-width: 1.5 }"
)


@dataclass(frozen=True)
class Row:
    """An instruction, and the stack after it, bottom first."""

    op: str
    argument: str
    stack: tuple[str, ...]


def stack_text(rows: Sequence[Row]) -> str:
    """One line per instruction.

    >>> print(stack_text([Row("LOAD_FAST", "x", ("3",)), Row("RETURN_VALUE", "", ())]))
    LOAD_FAST x: 3
    RETURN_VALUE: empty
    """
    return "\n".join(f"{f'{row.op} {row.argument}'.strip()}: {', '.join(row.stack) or 'empty'}" for row in rows)


def stack_picture(rows: Sequence[Row]) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    ground = CELL * max((len(row.stack) for row in rows), default=0) + 8
    width, height = max(COLUMN * len(rows), 1), ground + BELOW
    drawn = [f'<path d="M0 {ground} H{width}"/>']
    before: tuple[str, ...] = ()
    for place, row in enumerate(rows):
        drawn.append(_column(row, COLUMN * place, ground, unchanged=_unchanged_count(before, row.stack)))
        before = row.stack
    return labelled("stack", stack_text(rows), _STYLE, (width, height), drawn)


def _unchanged_count(before: Sequence[str], after: Sequence[str]) -> int:
    """The number of unchanged values, counted from the bottom."""
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
