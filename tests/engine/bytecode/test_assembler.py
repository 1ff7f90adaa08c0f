"""The assembler: tables, long jumps, positions, stack sizes, and what it refuses."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynexplore.engine.bytecode import FACTS, Instruction, Label, Position, Writer, assemble, read
from dynexplore.engine.bytecode.stack_depths import stack_depths

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def template(a):
    return a


def returning(*values: Any, **more: Any) -> types.CodeType:
    writer = Writer(template.__code__)
    writer.prologue()
    for value in values:
        writer.load_const(value)
    writer.build_tuple(len(values))
    writer.return_value()
    return assemble(writer, template.__code__, **more)


def test_constants_that_differ_get_slots_of_their_own() -> None:
    """1, 1.0 and True, 0.0 and -0.0, and tuples of such are kept apart; equal ones of a type share a slot."""
    values = (1, 1.0, True, 0.0, -0.0, (1, 2), (1.0, 2), b"1", "1", 1, 0.0, (1, 2), None, ...)
    code = returning(*values)
    result = types.FunctionType(code, {})(0)
    assert [repr(value) for value in result] == [repr(value) for value in values]
    assert len(code.co_consts) == len(template.__code__.co_consts) + len({repr(value) for value in values} - {"None"})


def test_objects_as_constants_are_kept_by_identity() -> None:
    """Two equal objects that are no plain constants stay two."""
    one, other = [1], [1]
    result = types.FunctionType(returning(one, other), {})(0)
    assert result[0] is one
    assert result[1] is other


def test_what_is_not_said_is_as_in_the_model() -> None:
    """Name, file, lines and flags come from `like` unless given."""
    code = returning(1)
    like = template.__code__
    assert (code.co_name, code.co_qualname, code.co_filename) == (like.co_name, like.co_qualname, like.co_filename)
    assert (code.co_flags, code.co_argcount, code.co_varnames) == (like.co_flags, like.co_argcount, like.co_varnames)
    other = returning(1, name="n", qualname="q.n", varnames=("a", "b"), firstlineno=7)
    assert (other.co_name, other.co_qualname, other.co_varnames, other.co_firstlineno) == ("n", "q.n", ("a", "b"), 7)


def test_long_jumps_and_many_names_get_their_prefixes() -> None:
    """Operands above one byte work: constants, names and jumps in both directions."""
    writer = Writer(template.__code__)
    writer.prologue()
    start, end = Label("start"), Label("end")
    writer.mark(start)
    writer.load_fast("a")
    writer.load_const(0)
    writer.compare("==")
    writer.pop_jump_if_true(end)
    for number in range(400):
        writer.load_const(f"constant {number}")
        writer.store_global(f"name_{number}")
    writer.load_fast("a")
    writer.load_const(1)
    writer.binary("-")
    writer.store_fast("a")
    writer.jump(start)
    writer.mark(end)
    writer.load_global("name_399")
    writer.return_value()
    namespace: dict[str, Any] = {}
    code = assemble(writer, template.__code__)
    assert types.FunctionType(code, namespace)(3) == "constant 399"
    assert len([name for name in namespace if name.startswith("name_")]) == 400
    again = read(code)
    assert [i.offset for i in again.instructions if i.opname == "STORE_FAST"] == [
        i.final_offset for i in writer.instructions if i.opname == "STORE_FAST"
    ]


def test_pairs_of_locals_are_split_where_they_do_not_fit() -> None:
    """Two locals in one operand (3.13) become two instructions when a slot needs more than half a byte."""

    def f(a, b):
        c = a
        d = b
        return (c, d, a, b)

    assert bool(FACTS.local_pairs) == any(i.opname in FACTS.local_pairs for i in read(f.__code__).instructions)
    far = ("a", "b", *(f"pad{n}" for n in range(20)), "c", "d")
    code = assemble(read(f.__code__).instructions, f.__code__, varnames=far)
    assert types.FunctionType(code, {})(1, 2) == (1, 2, 1, 2)


def test_a_pair_of_locals_whose_name_is_a_free_variable_too_is_kept() -> None:
    """An inlined comprehension (3.12) can have a variable of its own named like a free variable, here in one operand (3.13)."""
    item = 7

    def f(items):
        first = item
        return first, [item for item in items], item

    code = assemble(read(f.__code__).instructions, f.__code__)
    assert code.co_code == f.__code__.co_code
    assert types.FunctionType(code, {}, closure=f.__closure__)([1, 2]) == (7, [1, 2], 7)


@settings(suppress_health_check=[HealthCheck.too_slow])  # drawn on a busy machine
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.builds(
                lambda line, lines, col, width, known: Position(
                    line, line + lines, col if known else None, (width if lines else col + width) if known else None
                ),
                st.integers(1, 3000), st.integers(0, 3), st.integers(0, 300), st.integers(0, 200), st.booleans(),
            ),
        ),
        min_size=1,
        max_size=60,
    )
)  # fmt: skip
def test_positions_are_written_exactly(positions: list[Position | None]) -> None:
    """Whatever the positions, CPython reads back what was written."""
    instructions = [Instruction("RESUME", 0, 0)]
    for position in positions:
        instructions.append(Instruction("LOAD_GLOBAL", None, "print", position=position))
        instructions.append(Instruction("POP_TOP", position=position))
    instructions += [Instruction("LOAD_CONST", None, None), Instruction("RETURN_VALUE")]
    code = assemble(instructions, template.__code__)
    written = [i.position for i in read(code).instructions[1:-2]]
    assert written == [position for position in positions for _ in range(2)]


def test_the_stack_is_as_deep_as_needed() -> None:
    """The stack size is the deepest point of all ways through the code."""
    assert returning(*range(20)).co_stacksize == 20
    depths = stack_depths(read(returning(1, 2, 3)))
    assert [depth for depth in depths.values()][-2:] == [3, 1]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda w: w.pop_top(), "run off the end"),
        (lambda w: (w.pop_top(), w.return_value()), "pops from an empty stack"),
        (lambda w: (w.load_fast("nobody"), w.return_value()), "no variable 'nobody'"),
        (lambda w: w.jump(Label("nowhere")), "never marked"),
        (lambda w: w.emit("NO_SUCH_OPCODE"), "no opcode NO_SUCH_OPCODE"),
        (lambda w: _two_depths(w), "stack depth"),
        (lambda w: _open_region(w), "never marked"),
        (lambda w: _deep_region(w), "handler keeps 2"),
    ],
)
def test_what_cannot_run_is_refused(write: Any, message: str) -> None:
    """Mistakes of whoever writes code are an error here, not a crash of the interpreter."""
    writer = Writer(template.__code__)
    writer.prologue()
    write(writer)
    with pytest.raises(ValueError, match=message):
        assemble(writer, template.__code__)


def _two_depths(w: Writer) -> None:
    end = Label("end")
    w.load_fast("a")
    w.load_fast("a")
    w.pop_jump_if_none(end)
    w.load_fast("a")
    w.mark(end)
    w.return_value()


def _open_region(w: Writer) -> None:
    with w.covered_by(Label("open"), 0):
        w.load_fast("a")
    w.return_value()


def _deep_region(w: Writer) -> None:
    handler = Label("handler")
    w.load_fast("a")
    with w.covered_by(handler, 2):
        w.return_value()
    w.mark(handler)
    w.return_value()


def test_an_instruction_stands_in_a_list_once() -> None:
    """The same object twice would have two offsets."""
    with pytest.raises(ValueError, match="twice"):
        assemble([*read(template.__code__).instructions[:-1]] * 2, template.__code__)
