"""The assembler: from instructions to a code object (operands, offsets, exception table, line table, stack size).

The idea: only this file and its parts (code_units.py, code_tables.py, stack_depths.py) count bytes. They redo the last step of
CPython's compiler (Python/compile.c of 3.11, Python/assemble.c from 3.12) for lists of `Instruction`, so precisely that reading a
code object and assembling it again gives the same bits. Nothing is added to the instructions but prefixes (EXTENDED_ARG), inline
caches, the direction of jumps, and a second instruction if one opcode cannot express a jump or a pair of operands.

In: a `Writer` or a list of instructions, and the code object that the result resembles. Out: a code object; each instruction's
`final_offset`. PyTorch's counterpart: `assemble` and `update_offsets` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

import opcode
from collections.abc import Sequence
from types import CodeType

from dynexplore.engine.bytecode.code_tables import exception_table, line_table
from dynexplore.engine.bytecode.code_units import Operands, Unit, prefix_count, units_of
from dynexplore.engine.bytecode.instruction import Instruction
from dynexplore.engine.bytecode.reader import remember_origins
from dynexplore.engine.bytecode.stack_depths import GENERATOR_FLAGS, stack_size
from dynexplore.engine.bytecode.versions import COUNTS_BACKWARD
from dynexplore.engine.bytecode.writer import Writer
from dynexplore.engine.phases import timed

_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]


@timed("assemble")
def assemble(
    source: Writer | Sequence[Instruction],
    like: CodeType,
    *,
    name: str | None = None,
    qualname: str | None = None,
    argcount: int | None = None,
    posonlyargcount: int | None = None,
    kwonlyargcount: int | None = None,
    flags: int | None = None,
    varnames: tuple[str, ...] | None = None,
    cellvars: tuple[str, ...] | None = None,
    freevars: tuple[str, ...] | None = None,
    firstlineno: int | None = None,
    moved: tuple[str, ...] = (),
) -> CodeType:
    """Make a code object from instructions; everything else is as in `like`.

    `moved` are free variables whose cells the prologue moves to locals of the same name, to which all instructions then refer.

    Constants and names start with those of `like` and grow as needed. Sets each instruction's `final_offset`; a
    later `read` of the result knows each instruction's origin and role.

    ValueError: a label that was never marked, a name without a slot, or a stack that does not fit.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> double = (lambda x: x + x).__code__
    >>> assemble(read(double).instructions, double) == double
    True
    """
    instructions = source.instructions if isinstance(source, Writer) else source
    local = like.co_varnames if varnames is None else varnames
    cells = like.co_cellvars if cellvars is None else cellvars
    free = like.co_freevars if freevars is None else freevars
    code_flags = like.co_flags if flags is None else flags
    operands = Operands(like, local, cells, free, moved)
    units = units_of(instructions, operands)
    _lay_out(units)
    first_line = like.co_firstlineno if firstlineno is None else firstlineno
    code = like.replace(
        co_code=_code_bytes(units),
        co_exceptiontable=exception_table(units),
        co_linetable=line_table(units, first_line),
        co_stacksize=stack_size(units, bool(code_flags & GENERATOR_FLAGS)),
        co_consts=tuple(operands.consts),
        co_names=tuple(operands.names),
        co_varnames=local,
        co_nlocals=len(local),
        co_cellvars=cells,
        co_freevars=free,
        co_flags=code_flags,
        co_firstlineno=first_line,
        co_name=like.co_name if name is None else name,
        co_qualname=like.co_qualname if qualname is None else qualname,
        co_argcount=like.co_argcount if argcount is None else argcount,
        co_posonlyargcount=like.co_posonlyargcount if posonlyargcount is None else posonlyargcount,
        co_kwonlyargcount=like.co_kwonlyargcount if kwonlyargcount is None else kwonlyargcount,
    )
    _assign_offsets(units, code)
    return code


def _lay_out(units: list[Unit]) -> None:
    """Find where each unit starts; a jump that needs a longer operand moves others, so repeat until nothing moves."""
    jumps = [unit for unit in units if unit.target is not None]
    moved = True
    while moved:
        start = 0
        for unit in units:
            unit.start = start
            start += unit.prefixes + 1 + unit.caches
        moved = False
        for unit in jumps:
            assert unit.target is not None
            distance = unit.target.start - unit.end
            if (distance < 0) != (unit.opname in COUNTS_BACKWARD):
                raise ValueError(f"{unit.instruction} ({unit.opname}) cannot jump in that direction")
            unit.arg = abs(distance)
            if prefix_count(unit.arg) > unit.prefixes:
                unit.prefixes = prefix_count(unit.arg)
                moved = True


def _assign_offsets(units: list[Unit], code: CodeType) -> None:
    origins: dict[int, tuple[Instruction | None, str]] = {}
    seen: Instruction | None = None
    for unit in units:
        instruction = unit.instruction
        offset = 2 * (unit.start + unit.prefixes)
        if instruction is not seen:
            instruction.final_offset = offset
            seen = instruction
        if instruction.origin is not None or instruction.role:
            origins[offset] = (instruction.origin, instruction.role)
    if origins:
        remember_origins(code, origins)


def _code_bytes(units: list[Unit]) -> bytes:
    out = bytearray()
    for unit in units:
        for shift in range(8 * unit.prefixes, 0, -8):
            out += bytes((_EXTENDED_ARG, unit.arg >> shift & 0xFF))
        out += bytes((unit.number, unit.arg & 0xFF))
        out += bytes(2 * unit.caches)
    return bytes(out)
