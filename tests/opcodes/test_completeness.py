"""Every canonical instruction has a handler or a reason, and a tiny function that shows it."""

from __future__ import annotations

import importlib

import pytest
from opcodes.opcode_table import OpcodeTable

from dynexplore.engine.bytecode import OPCODES
from dynexplore.engine.bytecode.versions import DECODE
from dynexplore.engine.translate.handlers import NOT_TRACED
from dynexplore.engine.translate.translator import HANDLERS

pytestmark = pytest.mark.plain("compares tables with each other")

for _theme in ("test_containers", "test_names_and_operators", "test_control", "test_calls"):
    importlib.import_module(f"opcodes.{_theme}")

NEVER_IN_A_FUNCTION = {
    "NOP": "lowers to nothing",
    "LOAD_NAME": "module and class bodies",
    "IMPORT_STAR": "only at the top of a module",
    "LOAD_CLASSDEREF": "class bodies of Python 3.11",
    "LOAD_LOCALS": "class bodies",
    "LOAD_FROM_DICT_OR_DEREF": "class bodies",
    "LOAD_FROM_DICT_OR_GLOBALS": "class bodies with type parameters",
    "MAKE_CELL": "lowers to nothing: cells are made before the first step",
    "UNSUPPORTED": "stands for what a version cannot be asked for",
}
"""What no function of a test file can show, and where it occurs instead."""


def lowered() -> set[str]:
    """The canonical instructions that the running Python's opcodes become."""
    found = set()
    for decoding in filter(None, DECODE):
        if decoding.lower is None:
            found.add(decoding.opname)
    return found


def test_every_instruction_is_handled_or_has_a_reason() -> None:
    """Each row of the canonical set has one handler, or a sentence that says why a graph breaks there; never both."""
    assert set(HANDLERS) | set(NOT_TRACED) == set(OPCODES)
    assert not set(HANDLERS) & set(NOT_TRACED)
    assert all(len(reason.split()) > 2 for reason in NOT_TRACED.values())


@pytest.mark.parametrize("opcode", sorted(set(OPCODES) - set(NEVER_IN_A_FUNCTION)))
def test_every_instruction_is_shown(opcode: str) -> None:
    """A function of tests/opcodes holds it, unless the running Python has no such instruction."""
    assert opcode in OpcodeTable.shown or opcode not in lowered(), f"{opcode} needs a function in tests/opcodes"
