"""Positions in the user's code: the current function and torch's own offset in it, resolved when the recording is read.

The idea: torch renumbers the instructions of a function after rewriting some of them. Aligning its listing with the code takes
time, and is not needed while torch works. So a position is stored as torch has it, and is resolved to the code on demand.

In: code objects, and torch's offsets in them. Out: `Called`, `Place`, `NOWHERE`, `resolved`.

PyTorch's counterpart: `InstructionTranslatorBase.current_instruction` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

import types

from dynexplore.engine import events as ev
from dynexplore.watching.codes import Codes, Rows
from dynexplore.watching.private_torch import Written


class Called:
    """A function that is traced: the frame's own (number 0), or one inlined in it. Its only reference to torch is the code."""

    __slots__ = ("_codes", "_rows", "code", "depth", "number")

    def __init__(self, codes: Codes, code: types.CodeType, number: int = 0, depth: int = 0) -> None:
        codes.keep(code)
        self.code = code
        self.number = number
        self.depth = depth
        self._codes = codes
        self._rows: Rows | None = None

    def has_row(self, at: int | None) -> bool:
        """Whether the instruction at torch's offset belongs to the user's code."""
        return at in self._all_rows

    def row(self, at: int | None) -> ev.ListingRow | None:
        """The row of the code for torch's offset; None for an instruction that torch inserted."""
        return None if at is None else self._all_rows.get(at)

    def words(self, at: int | None) -> Written:
        """The instruction as torch has it, as text."""
        return self._codes.written(self.code).get(at, ("", "")) if at is not None else ("", "")

    @property
    def _all_rows(self) -> Rows:
        if self._rows is None:
            find = self._codes.own_rows if self.number else self._codes.described_rows
            self._rows = find(self.code)
        return self._rows


Place = tuple[Called | None, int | None]
"""A position: the function, and torch's offset in its code."""

NOWHERE: Place = (None, None)


def resolved(place: Place) -> tuple[int, int]:
    """Number of the inlined callee (0: the frame itself), and the offset in its code (-1: none), as in events."""
    called, at = place
    row = None if called is None else called.row(at)
    return 0 if called is None else called.number, -1 if row is None else row.offset
