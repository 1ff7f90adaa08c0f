"""The canonical instruction set."""

from __future__ import annotations

import re

import pytest

from dynexplore.engine.bytecode.opcodes import OPCODES, Opcode, stack_effect


@pytest.mark.parametrize("row", OPCODES.values(), ids=OPCODES)
def test_a_row_is_complete(row: Opcode) -> None:
    """Each opcode has a sentence, an operand kind, and an effect in words that can be counted."""
    assert row.sentence.endswith((".", "?"))
    assert row.operand
    for effect in filter(None, (row.effect, row.jumped)):
        before, dashes, after = effect.partition("--")
        assert dashes == "--"
        assert all(re.fullmatch(r"\w+(\[(n|m|\d+)\])?", word) for word in (before + after).split())
    assert (row.count is not None) == ("[n]" in row.effect)
    assert (row.count_after is not None) == ("[m]" in row.effect)


@pytest.mark.parametrize(
    ("op", "arg", "effect"),
    [
        ("BUILD_MAP", 2, -3),
        ("UNPACK_EX", (1, 2), 3),
        ("CALL", (3, ("k",)), -4),
        ("CALL_FUNCTION_EX", True, -3),
        ("FORMAT_VALUE", (None, True), -1),
        ("MAKE_FUNCTION", 9, -2),
        ("RAISE_VARARGS", 0, 0),
    ],
)
def test_counts_in_an_effect_come_from_the_operand(op: str, arg: object, effect: int) -> None:
    """`items[n]` stands for as many values as the operand says."""
    assert stack_effect(op, arg) == effect


def test_a_taken_jump_may_have_another_effect() -> None:
    """`jumped` is the effect of a jump that is taken."""
    assert stack_effect("FOR_ITER") == 1
    assert stack_effect("FOR_ITER", jump=True) == -1
    assert stack_effect("JUMP_IF_TRUE_OR_POP", jump=True) == 0
    assert not OPCODES["POP_TOP"].jumps
