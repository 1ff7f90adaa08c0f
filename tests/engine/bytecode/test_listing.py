"""Instructions as rows of text."""

from __future__ import annotations

import pytest

from dynexplore.engine.bytecode import Writer, assemble, listing, read

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def example(a):
    if a:
        return [len(a), "x" * 3]
    return lambda: 12345678901234567890123456789012345678901234567890123456789012345678901234567890


def test_a_code_object_is_listed_as_people_read_it() -> None:
    """Rows show offset, opcode, operand as text and line."""
    rows = listing(example.__code__)
    assert [row.offset for row in rows] == [i.offset for i in read(example.__code__).instructions]
    by_opcode = {row.opname: row for row in rows}
    assert by_opcode["LOAD_GLOBAL"].arg == "len + NULL"
    assert next(row.arg for row in rows if row.arg.startswith("<code")) == "<code example.<locals>.<lambda>>"
    jump = next(row for row in rows if "JUMP" in row.opname)
    assert jump.arg in {f"to {row.offset}" for row in rows}
    assert {row.line for row in rows} >= {example.__code__.co_firstlineno + n for n in range(4)}
    assert {(row.role, row.origin) for row in rows} == {("", -1)}


def test_long_constants_are_cut() -> None:
    """A constant's text takes at most 60 characters."""
    inner = next(c for c in example.__code__.co_consts if hasattr(c, "co_code"))
    shown = [row.arg for row in listing(inner)]
    assert any(text.endswith("...") and len(text) == 60 for text in shown)


def test_written_code_is_listed_with_roles_and_origins() -> None:
    """After assembling, the writer's instructions and the code object give the same rows."""
    writer = Writer(example.__code__)
    origin = read(example.__code__).instructions[2]
    writer.prologue()
    with writer.role("return"), writer.at(origin):
        writer.load_fast("a")
        writer.return_value()
    assert [row.offset for row in listing(writer)] == [-1, -1, -1]
    code = assemble(writer, example.__code__)
    assert listing(code) == listing(writer)
    assert [(row.role, row.origin) for row in listing(code)[1:]] == [("return", origin.offset)] * 2
