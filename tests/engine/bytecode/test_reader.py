"""Reading code objects: raw instructions, steps, units, and what is remembered."""

from __future__ import annotations

import dis
import gc
import sys
import weakref
from types import CodeType
from typing import Any

import pytest

from dynexplore.engine.bytecode import FACTS, ParsedCode, read, reader

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")


def ops(parsed: ParsedCode) -> list[tuple[str, Any]]:
    return [(step.op, step.arg) for step in parsed.steps]


def everything(a, b, *rest, key=None, **more):
    """A bit of each kind of operand."""
    with a as entered:
        for item in b:
            try:
                entered.method(item, *rest, key=key, **more)[item:1] = -item
            except (ValueError, TypeError) as error:
                raise RuntimeError(f"{error!r:>10}") from error
            finally:
                print(item, end="")
    return [lambda: (item, x) for x in more] if not key else b @ {1, 2} if a is not b else a < b


def test_raw_instructions_are_those_that_dis_shows() -> None:
    """Opcode, operand, place, position and jump target of each instruction agree with `dis`."""
    code = everything.__code__
    shown = [i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE")]
    instructions = read(code).instructions
    assert [(i.opname, i.arg, i.offset) for i in instructions] == [(i.opname, i.arg, i.offset) for i in shown]
    for ours, theirs in zip(instructions, shown, strict=True):
        assert theirs.positions is not None
        assert ours.position == (None if theirs.positions.lineno is None else tuple(theirs.positions))
        if theirs.opcode in dis.hasjrel:
            assert ours.argval == theirs.argval
            assert ours.target is not None
        elif theirs.opcode in (*dis.hasconst, *dis.hasname, *dis.hasfree) and ours.opname != "KW_NAMES":
            assert ours.argval == theirs.argval


def test_regions_are_kept_per_instruction() -> None:
    """Each instruction knows the handler it raises into, how much of the stack is kept, and whether lasti is pushed."""
    code = everything.__code__
    parsed = read(code)
    entries: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    for instruction in parsed.instructions:
        entry = next((e for e in entries if e.start <= instruction.offset < e.end), None)
        if entry is None:
            assert instruction.handler is None
        else:
            assert instruction.handler is not None
            assert (instruction.handler.depth, instruction.handler.lasti) == (entry.depth, entry.lasti)
            assert instruction.handler.target.opname in ("PUSH_EXC_INFO", "COPY", "LOAD_CONST", "SWAP", "POP_TOP")


def test_operands_of_steps_are_resolved() -> None:
    """A step's operand is a value or a name, never an index, and calls carry their keyword names."""

    def f(a, b):
        return a.method(b, key=len(b) < 3)

    got = ops(read(f.__code__))
    if FACTS.null_below:
        assert got == [
            ("LOAD_FAST", "a"), ("LOAD_ATTR", "method"), ("PUSH_NULL", None), ("SWAP", 2), ("LOAD_FAST", "b"),
            ("PUSH_NULL", None), ("LOAD_GLOBAL", "len"), ("LOAD_FAST", "b"), ("CALL", (1, ())), ("LOAD_CONST", 3),
            ("COMPARE_OP", "<"), ("CALL", (2, ("key",))), ("RETURN_VALUE", None),
        ]  # fmt: skip
    else:
        assert got == [
            ("LOAD_FAST", "a"), ("LOAD_ATTR", "method"), ("PUSH_NULL", None), ("LOAD_FAST", "b"),
            ("LOAD_GLOBAL", "len"), ("PUSH_NULL", None), ("LOAD_FAST", "b"), ("CALL", (1, ())), ("LOAD_CONST", 3),
            ("COMPARE_OP", "<"), ("LOAD_CONST", ("key",)), ("CALL_KW", 2), ("RETURN_VALUE", None),
        ]  # fmt: skip


def test_a_for_loop_ends_after_what_the_interpreter_steps_over() -> None:
    """FOR_ITER's target is where the loop continues when the iterator is exhausted and popped."""

    def f(items):
        for item in items:
            pass
        return "done"

    parsed = read(f.__code__)
    step = next(step for step in parsed.steps if step.op == "FOR_ITER")
    assert parsed.steps[step.target].op == "LOAD_CONST"
    assert parsed.steps[step.target].arg == "done"
    back = next(step for step in parsed.steps if step.op == "JUMP")
    assert parsed.steps[back.target] is step


def test_closures_lower_alike() -> None:
    """Pushing a cell is LOAD_CLOSURE on every Python; cells made in the prologue are no steps."""

    def f(a):
        return lambda: a

    got = ops(read(f.__code__))
    assert got[0] == ("LOAD_CLOSURE", "a")
    assert "MAKE_CELL" not in [op for op, _ in got]


def test_formatting_lowers_alike() -> None:
    """f-strings are CONVERT_VALUE and FORMAT_VALUE with a pair, whatever the Python."""

    def f(a):
        return f"{a}{a!r}{a:>5}"

    got = [step for step in ops(read(f.__code__)) if step[0] in ("CONVERT_VALUE", "FORMAT_VALUE")]
    assert got == [
        ("FORMAT_VALUE", (None, False)), ("CONVERT_VALUE", "repr"), ("FORMAT_VALUE", (None, False)),
        ("FORMAT_VALUE", (None, True)),
    ]  # fmt: skip


def test_what_belongs_together_is_a_unit() -> None:
    """A call and the raw instructions that only prepare it are one unit: breaks happen before or after all of it."""

    def f(a, b):
        return a(b, key=b)

    parsed = read(f.__code__)
    call = next(i for i in parsed.instructions if i.opname in ("CALL", "CALL_KW"))
    unit = parsed.unit(call)
    heads = {(3, 11): ["KW_NAMES", "PRECALL"], (3, 12): ["KW_NAMES"], (3, 13): [], (3, 14): []}[FACTS.version]
    assert [i.opname for i in unit] == [*heads, call.opname]
    assert all(parsed.unit(i) == unit and parsed.unit_start(i) is unit[0] for i in unit)
    assert parsed.next_unit(unit[0]).opname == "RETURN_VALUE"
    with pytest.raises(IndexError):
        parsed.next_unit(parsed.instructions[-1])


def test_steps_and_instructions_are_linked_both_ways() -> None:
    """`first_step` leads from a raw instruction to its first step; `origin` leads back."""
    parsed = read(everything.__code__)
    for index, step in enumerate(parsed.steps):
        assert step.index == index
        assert parsed.step_of(step.origin) <= index
    for instruction in parsed.instructions:
        assert instruction.index == parsed.instructions.index(instruction)
        assert parsed.at_offset(instruction.offset) is instruction
    with pytest.raises(KeyError):
        parsed.at_offset(-2)


def test_a_code_object_is_read_once() -> None:
    """Reading the same code object again gives the same instructions; an equal one is another one."""
    source = "def f(a): return a + 1"
    codes = [compile(source, "same", "exec").co_consts[0] for _ in range(2)]
    assert codes[0] == codes[1]
    assert read(codes[0]) is read(codes[0])
    assert read(codes[0]).instructions is not read(codes[1]).instructions
    instructions = read(codes[0]).instructions
    gc.collect()
    assert read(codes[0]).instructions is instructions


def test_reading_does_not_keep_code_alive() -> None:
    """What is remembered goes away with the code object."""
    code = compile("a + 1", "here", "eval")
    read(code)
    gone = weakref.ref(code)
    del code
    assert gone() is None


def test_reading_is_quick() -> None:
    """Reading a function of many hundred instructions (it lies on the way to every capture) takes a few calls for each."""
    body = "\n".join(f"    x = f(x, {n}) + [x, y.attribute][0] if x else y" for n in range(100))
    namespace: dict[str, Any] = {}
    exec(f"def long(f, x, y):\n{body}\n    return x", namespace)
    code: CodeType = namespace["long"].__code__.replace()
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        parsed = read(code)
    finally:
        sys.setprofile(before)
    assert len(parsed.instructions) > 500
    assert calls <= 12 * len(parsed.instructions)


@pytest.mark.plain("reads code that is never run")
def test_a_code_object_that_dies_is_forgotten_by_c_code() -> None:
    """No Python code runs at its end: a signal handler that ran in there would lose its exception."""
    code = compile("1", "made_by_a_test.py", "eval")
    key = id(code)
    read(code)
    assert key in reader._readings
    ran: list[str] = []
    sys.setprofile(lambda frame, event, arg: ran.append(frame.f_code.co_name) if event == "call" else None)
    try:
        del code
    finally:
        sys.setprofile(None)
    assert key not in reader._readings and ran == []
