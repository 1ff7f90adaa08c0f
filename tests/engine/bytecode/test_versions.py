"""The version files: every opcode of the running Python is accounted for, and the tables agree with `opcode`."""

from __future__ import annotations

import opcode
import sys
from typing import Any

import pytest

from dynexplore.engine.bytecode import FACTS, OPCODES, UNSUPPORTED
from dynexplore.engine.bytecode.versions import DECODE, EMIT, LOWER, rows

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")

RUNNING = sorted(name for name, number in opcode.opmap.items() if number < 256)
#: how the operand of an opcode with a lowering row may look
SAMPLES: list[tuple[int, Any]] = [(0, "x"), (1, "x"), (16, "x"), (5, "INTRINSIC_UNARY_POSITIVE")]


@pytest.mark.parametrize("opname", RUNNING)
def test_every_opcode_is_lowered_or_has_a_reason(opname: str) -> None:
    """Each opcode of the running Python becomes canonical ones, or stands in UNSUPPORTED with a reason."""
    if opname in UNSUPPORTED:
        assert len(UNSUPPORTED[opname].split()) > 1
        assert LOWER[opname](0, None) == (("UNSUPPORTED", opname),)
        return
    if opname not in LOWER:
        assert opname in OPCODES, f"{opname} needs a lowering row or a reason in UNSUPPORTED"
        return
    for arg, argval in SAMPLES:
        arg %= {"CONVERT_VALUE": 4, "LOAD_COMMON_CONSTANT": 5}.get(opname, 256)
        argval = ("a", "b") if opname in FACTS.local_pairs else argval
        for op, _ in LOWER[opname](arg, argval):
            assert op in OPCODES


def test_nothing_is_listed_that_this_python_lacks() -> None:
    """The rows of a version file are opcodes of that version (shared ones aside)."""
    shared = {*rows.COMMON, *rows.COMMON_UNSUPPORTED}
    assert {*LOWER} - shared - set(opcode.opmap) == set()
    assert {*FACTS.caches, *FACTS.name_shift, *FACTS.local_pairs, *FACTS.unit_heads} <= set(opcode.opmap)
    assert {name for pair in FACTS.jumps.values() for name in pair if name} <= set(opcode.opmap)


def test_caches_are_those_of_the_running_python() -> None:
    """The inline cache entries of each opcode agree with the `opcode` module."""
    known: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    for decoding in filter(None, DECODE):
        count = known.get(decoding.opname, 0) if isinstance(known, dict) else known[opcode.opmap[decoding.opname]]
        assert decoding.caches == count, decoding.opname


def test_operator_texts_are_those_of_the_running_python() -> None:
    """BINARY_OP, COMPARE_OP and the intrinsics are named as the `opcode` module names them."""
    operators = tuple(text for _, text in opcode._nb_ops)  # type: ignore[attr-defined]
    assert rows.BINARY_OPERATORS[: len(operators)] == operators
    assert opcode.cmp_op == rows.COMPARE_OPERATORS
    for attribute, ours in (("_intrinsic_1_descs", rows.INTRINSICS_1), ("_intrinsic_2_descs", rows.INTRINSICS_2)):
        theirs = getattr(opcode, attribute, [])
        assert ours[: len(theirs)] == tuple(theirs)


def test_facts_are_of_the_running_python() -> None:
    """The version file that is loaded is that of the interpreter, and all of them emit the same things."""
    assert FACTS.version == sys.version_info[:2]
    from dynexplore.engine.bytecode.versions import py311, py312, py313, py314

    assert set(py311.EMIT) == set(py312.EMIT) == set(py313.EMIT) == set(py314.EMIT) == set(EMIT)
