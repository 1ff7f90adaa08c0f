"""The canonical instruction set."""

from __future__ import annotations

import dis
import re

import pytest

from dynexplore.engine.bytecode.opcodes import OPCODES, Opcode, stack_change, stack_effect

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


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


MOVES = [("POP_TOP", None), ("COPY", 1), ("COPY", 3), ("SWAP", 2), ("SWAP", 4)]


@pytest.mark.parametrize(("op", "arg"), MOVES, ids=[f"{op} {arg or ''}".strip() for op, arg in MOVES])
def test_the_words_of_a_move_say_what_cpython_does(op: str, arg: int | None) -> None:
    """A move is carried out by CPython itself: its stack is the one that the words give."""
    values = ("a", "b", "c", "d")
    expected = stack_change(op, arg).applied(values, {})
    code = (lambda: None).__code__
    unit = [(dis.opmap["RESUME"], 0), *((dis.opmap["LOAD_CONST"], place) for place in range(len(values)))]
    unit += [(dis.opmap[op], arg or 0), (dis.opmap["BUILD_TUPLE"], len(expected)), (dis.opmap["RETURN_VALUE"], 0)]
    moved = code.replace(co_consts=values, co_stacksize=8, co_code=bytes(number for pair in unit for number in pair))
    assert eval(moved) == tuple(expected)


def test_what_only_moves_has_no_word_for_a_new_value() -> None:
    """An opcode that only moves values pushes what it popped, or the empty slot beside a callable."""
    only_moves = [row.name for row in OPCODES.values() if row.only_moves]
    assert only_moves == ["NOP", "POP_TOP", "PUSH_NULL", "COPY", "SWAP"]
    for name in only_moves:
        assert all(value == "null" or isinstance(value, int) for value in stack_change(name, 3).pushed)


def test_a_word_on_both_sides_is_one_value() -> None:
    """The value stays where the words put it; other words are new values."""
    assert stack_change("GET_LEN").pushed == (0, "length")
    assert stack_change("FOR_ITER").applied(["below", "iterator"], {"item": "next"}) == ["below", "iterator", "next"]
    assert stack_change("UNPACK_EX", (1, 1)) == (1, ("items", "items", "items"))
