"""The running Python's version file, and the decoding table made from it: the only place that checks the version.

The idea: a version file is data (rows.py), and exactly one is imported.

In: `py311`, `py312`, `py313` or `py314`. Out: `FACTS`, `LOWER`, `EMIT`, `UNSUPPORTED`, and `DECODE`, which tells for each opcode
number how to read its operand and what it is lowered to. PyTorch's counterpart: none; it checks `sys.version_info` throughout
torch/_dynamo.
"""

from __future__ import annotations

import opcode
import platform
import sys
from importlib import import_module
from typing import Any, NamedTuple

from dynexplore.engine.bytecode.versions.rows import Facts, LowerRow
from dynexplore.engine.bytecode.versions.supported import SUPPORTED, refusal

__all__ = ["COUNTS_BACKWARD", "DECODE", "EMIT", "FACTS", "LOWER", "SUPPORTED", "UNSUPPORTED", "Decoding", "Facts"]

if why_not := refusal():
    raise ImportError(why_not)

_version: Any = import_module(f"{__name__}.py{sys.version_info[0]}{sys.version_info[1]}")

FACTS: Facts = _version.FACTS
COUNTS_BACKWARD = FACTS.backward_jumps | FACTS.references  # opcodes whose operand is a distance to an earlier instruction
LOWER: dict[str, LowerRow] = _version.LOWER
EMIT = _version.EMIT
UNSUPPORTED: dict[str, str] = _version.UNSUPPORTED
PYTHON = platform.python_version()  # for display: "3.12.1"


class Decoding(NamedTuple):
    """How one opcode number is read. `kind` tells what its operand means; `lower` None: it keeps name and operand."""

    opname: str
    kind: str
    shift: int
    caches: int
    has_arg: bool
    lower: LowerRow | None


def _kind(number: int, opname: str) -> str:
    """The meaning of an opcode's operand."""
    if opname in FACTS.local_pairs:
        return "local_pair"
    for kind, numbers in (
        ("const", opcode.hasconst), ("name", opcode.hasname), ("local", opcode.haslocal), ("free", opcode.hasfree),
        ("jump", opcode.hasjrel), ("compare", opcode.hascompare),
    ):  # fmt: skip
        if number in numbers:
            return kind
    special = {"BINARY_OP": "binary", "CALL_INTRINSIC_1": "intrinsic_1", "CALL_INTRINSIC_2": "intrinsic_2"}
    return special.get(opname, "plain")


def _decoding(number: int) -> Decoding | None:
    opname = opcode.opname[number]
    if opcode.opmap.get(opname) != number:  # not an opcode, or a form specialized by the interpreter
        return None
    shift = FACTS.compare_shift if opname == "COMPARE_OP" else FACTS.name_shift.get(opname, 0)
    with_arg = getattr(opcode, "hasarg", None)
    has_arg = number in with_arg if with_arg is not None else number >= opcode.HAVE_ARGUMENT
    kind = "jump_back" if opname in COUNTS_BACKWARD else _kind(number, opname)
    return Decoding(opname, kind, shift, FACTS.caches.get(opname, 0), has_arg, LOWER.get(opname))


#: opcode number -> how it is read (None: no such opcode)
DECODE: tuple[Decoding | None, ...] = tuple(_decoding(number) for number in range(256))
