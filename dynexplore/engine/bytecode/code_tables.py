"""The exception table and the line table of a code object, as CPython encodes them.

The idea: both are strings of variable-length numbers. The exception table has one entry for each run of instructions with the same
handler; the line table has one for each run of code units with the same position, at most eight of them.

In: code units with their offsets. Out: `exception_table(units)`, `line_table(units, first_line)`. PyTorch's counterpart:
`assemble_exception_table` and `linetable_311_writer` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

from dynexplore.engine.bytecode.code_units import Unit
from dynexplore.engine.bytecode.instruction import Handler, Instruction, Position
from dynexplore.engine.bytecode.versions import FACTS


def exception_table(units: list[Unit]) -> bytes:
    """One entry for each run of instructions with the same handler (CPython: assemble_exception_table)."""
    start_of: dict[Instruction, int] = {}
    for unit in units:
        start_of.setdefault(unit.instruction, unit.start)
    out = bytearray()
    run: Handler | None = None
    begin = 0
    for unit in units:
        handler = unit.instruction.handler
        if handler is run or (handler is not None and run is not None and _same_handler(handler, run)):
            continue
        if run is not None:
            _add_exception_entry(out, begin, unit.start, start_of[run.target], run)
        run, begin = handler, unit.start
    if run is not None:
        _add_exception_entry(out, begin, units[-1].end, start_of[run.target], run)
    return bytes(out)


def _same_handler(first: Handler, second: Handler) -> bool:
    return (first.target, first.depth, first.lasti) == (second.target, second.depth, second.lasti)


def _add_exception_entry(out: bytearray, start: int, end: int, target: int, handler: Handler) -> None:
    first = 0x80  # marks the first byte of an entry
    for value in (start, end - start, target, handler.depth << 1 | handler.lasti):
        shift = 0
        while value >> shift >= 64:
            shift += 6
        for down in range(shift, -1, -6):
            out.append(value >> down & 63 | (64 if down else 0) | first)
            first = 0


def line_table(units: list[Unit], first_line: int) -> bytes:
    """The positions of all instructions (CPython: Objects/locations.md, assemble_location_info)."""
    out = bytearray()
    line = first_line
    length = 0
    position: Position | None = None
    for unit in units:
        size = unit.prefixes + 1 + unit.caches
        if length and FACTS.merges_positions and unit.instruction.position == position:
            length += size
            continue
        if length:
            line = _add_position(out, position, length, line)
        position, length = unit.instruction.position, size
    _add_position(out, position, length, line)
    return bytes(out)


def _add_position(out: bytearray, position: Position | None, length: int, line: int) -> int:
    """Add entries (of at most 8 code units) for one position; returns the line that the next entry counts from."""
    while length > 8:
        line = _add_position_entry(out, position, 8, line)
        length -= 8
    return _add_position_entry(out, position, length, line)


_NOWHERE = Position(None, None, None, None)


def _add_position_entry(out: bytearray, position: Position | None, length: int, line: int) -> int:
    lineno, end_lineno, col, end_col = position or _NOWHERE
    if lineno is None:
        out.append(0x80 | 15 << 3 | length - 1)
        return line
    delta = lineno - line
    if col is None or end_col is None:
        if end_lineno is None or end_lineno == lineno:
            out.append(0x80 | 13 << 3 | length - 1)
            _add_signed(out, delta)
            return lineno
    elif end_lineno == lineno:
        if delta == 0 and col < 80 and 0 <= end_col - col < 16:
            out += bytes((0x80 | col >> 3 << 3 | length - 1, (col & 7) << 4 | end_col - col))
            return lineno
        if 0 <= delta < 3 and col < 128 and end_col < 128:
            out += bytes((0x80 | 10 + delta << 3 | length - 1, col, end_col))
            return lineno
    out.append(0x80 | 14 << 3 | length - 1)
    _add_signed(out, delta)
    _add_unsigned(out, (lineno if end_lineno is None else end_lineno) - lineno)
    _add_unsigned(out, 0 if col is None else col + 1)
    _add_unsigned(out, 0 if end_col is None else end_col + 1)
    return lineno


def _add_unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(64 | value & 63)
        value >>= 6
    out.append(value)


def _add_signed(out: bytearray, value: int) -> None:
    _add_unsigned(out, -value << 1 | 1 if value < 0 else value << 1)
