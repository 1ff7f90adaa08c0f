"""The nouns of the bytecode layer."""

from __future__ import annotations

import pytest

from dynexplore.engine.bytecode import Instruction, Label, Position, Step

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def test_instructions_are_compared_by_identity() -> None:
    """Two instructions that say the same are still two, so they can be keys of a table."""
    one, other = Instruction("LOAD_CONST", 0, None), Instruction("LOAD_CONST", 0, None)
    assert one != other
    assert len({one, other}) == 2


def test_an_instruction_knows_its_line() -> None:
    """`lineno` is the position's line, None where there is no position."""
    assert Instruction("NOP").lineno is None
    assert Instruction("NOP", position=Position(7, 7, 0, 3)).lineno == 7


def test_they_say_what_they_are() -> None:
    """A repr shows opcode, operand and place."""
    target = Instruction("NOP", offset=8)
    assert repr(Instruction("LOAD_FAST", 0, "x", offset=2)) == "<LOAD_FAST 'x' @2>"
    assert repr(Instruction("JUMP", target=target, offset=4)) == "<JUMP to 8 @4>"
    assert repr(Step("LOAD_FAST", "x", target, 3)) == "<step 3: LOAD_FAST 'x'>"
    assert repr(Step("JUMP", None, target, 3, 5)) == "<step 3: JUMP to step 5>"
    assert repr(Label("end")) == "<Label end>"
