"""Disassembly: instructions as rows of text, for every view that shows bytecode.

The idea: original and modified code are shown in the same form, and each row of the modified code has a role and the original
instruction that it comes from.

In: a code object, or instructions. Out: `ListingRow`s from `listing`.
PyTorch's counterpart: `format_bytecode` in torch/_dynamo/utils.py, which prints `dis.Bytecode(code).dis()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from dynexplore.engine.bytecode.instruction import Instruction
from dynexplore.engine.bytecode.reader import name_of_code, read
from dynexplore.engine.bytecode.versions import DECODE
from dynexplore.engine.bytecode.writer import Writer

_LONGEST_CONSTANT = 60
_KINDS = {decoding.opname: decoding.kind for decoding in DECODE if decoding is not None}


class ListingRow(NamedTuple):
    """One raw instruction as text. `origin` is the byte offset of the original instruction, -1 if there is none."""

    offset: int
    opname: str
    arg: str
    line: int | None
    role: str
    origin: int


def listing(source: CodeType | Writer | Sequence[Instruction]) -> list[ListingRow]:
    """The rows of a code object or of instructions (with final offsets once they are assembled).

    >>> [row.opname for row in listing(compile("1", "", "eval"))][-1].startswith("RETURN")
    True
    """
    if isinstance(source, CodeType):
        instructions: Sequence[Instruction] = read(source).instructions
    else:
        instructions = source.instructions if isinstance(source, Writer) else source
    return [
        ListingRow(
            offset_of(instruction),
            instruction.opname,
            operand_text(instruction),
            instruction.lineno,
            instruction.role,
            -1 if instruction.origin is None else instruction.origin.offset,
        )
        for instruction in instructions
    ]


def offset_of(instruction: Instruction) -> int:
    """The offset of the instruction in its code object: the final offset of a written one, else the original one."""
    return instruction.offset if instruction.offset >= 0 else instruction.final_offset


def operand_text(instruction: Instruction) -> str:
    """The operand as readable text: a name, a constant, an operator, "to 34", "from 34"; "" if there is none."""
    if instruction.target is not None:
        return f"{'from' if instruction.jump_target is None else 'to'} {offset_of(instruction.target)}"
    argval = instruction.argval
    kind = _KINDS.get(instruction.opname)
    if kind == "const":
        return _constant_text(argval)
    if argval is None:
        return ""
    if kind == "local_pair":
        return ", ".join(argval)
    if instruction.opname == "LOAD_GLOBAL" and instruction.arg is not None and instruction.arg & 1:
        return f"{argval} + NULL"
    return str(argval)


def _constant_text(value: Any) -> str:
    if isinstance(value, CodeType):
        return f"<code {name_of_code(value)}>"
    text = repr(value)
    return text if len(text) <= _LONGEST_CONSTANT else text[: _LONGEST_CONSTANT - 3] + "..."
