"""What the bytecode layer promises about every code object, tried on the standard library of the running Python.

A sample of its files by default; all of them with DYNEXPLORE_WHOLE_LIBRARY=1 (a minute or two).
"""

from __future__ import annotations

import dis
import inspect
import os
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

from dynexplore.engine.bytecode import FACTS, OPCODES, UNSUPPORTED, Instruction, ParsedCode, assemble, live_locals, read
from dynexplore.engine.bytecode.opcodes import stack_effect
from dynexplore.engine.bytecode.stack_depths import stack_depths

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")

ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
WHOLE = os.environ.get("DYNEXPLORE_WHOLE_LIBRARY") == "1"
#: odd things on purpose: except*, huge functions, every statement there is
ALWAYS = {"test_sys_settrace.py", "test_except_star.py", "test_patma.py", "test_contextlib.py", "test_exceptions.py"}
LIBRARY = Path(sysconfig.get_path("stdlib"))
#: these leave the code object as it was
COMPARED = (
    "co_code", "co_exceptiontable", "co_linetable", "co_stacksize", "co_consts", "co_names", "co_varnames",
    "co_cellvars", "co_freevars", "co_flags", "co_argcount", "co_firstlineno",
)  # fmt: skip


@cache
def files() -> list[Path]:
    """The library's files, or a sample of them."""
    every = [path for path in sorted(LIBRARY.rglob("*.py")) if path.is_file() and "site-packages" not in path.parts]
    return every if WHOLE else [path for n, path in enumerate(every) if n % 60 == 0 or path.name in ALWAYS]


def code_objects() -> Iterator[CodeType]:
    """All code objects in `files()` that compile."""
    for path in files():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue  # the library's tests have files that are wrong on purpose
        yield from _within(code)


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


def test_reading_and_assembling_gives_the_same_bits() -> None:
    """Code, exception table, line table and stack size of every code object survive unchanged."""
    count = 0
    for code in code_objects():
        again = assemble(read(code).instructions, code)
        for attribute in COMPARED:
            assert getattr(again, attribute) == getattr(code, attribute), f"{attribute} of {code}"
        count += 1
    assert count > (10_000 if WHOLE else 500)
    print(f"{count} code objects")


def raw_effect(parsed: ParsedCode, unit: list[Instruction], jump: bool) -> int:
    """What CPython says a unit does to the stack; for a taken FOR_ITER or SEND with what it steps over."""
    skips = {"FOR_ITER": FACTS.for_iter_skips, "SEND": FACTS.send_skips}.get(unit[-1].opname, ()) if jump else ()
    target = unit[-1].target
    passed = [] if target is None or not skips else parsed.instructions[target.index : target.index + len(skips)]
    assert [i.opname for i in passed] == list(skips)
    return sum(dis.stack_effect(dis.opmap[i.opname], i.arg, jump=jump) for i in [*unit, *passed])


def test_steps_do_to_the_stack_what_cpython_says() -> None:
    """The net stack effect of the steps of each instruction is dis.stack_effect's, jumped or not."""
    for code in code_objects():
        parsed = read(code)
        for first in parsed.instructions:
            unit = parsed.unit(first)
            if unit[0] is not first or first.opname in UNSUPPORTED:
                continue
            begin = parsed.step_of(first)
            end = parsed.step_of(parsed.next_unit(first)) if unit[-1] is not parsed.instructions[-1] else None
            steps = parsed.steps[begin:end]
            for jump in (False, True) if unit[-1].target is not None else (False,):
                effect = sum(stack_effect(step.op, step.arg, jump=jump and step is steps[-1]) for step in steps)
                if first.opname == "RETURN_GENERATOR":
                    # what is sent first: pushed by this instruction, or there from the beginning
                    assert effect == dis.stack_effect(dis.opmap[first.opname]) + FACTS.generator_entry_depth
                else:
                    # from 3.14 CPython counts the push on the stack of the caller
                    returned = 1 if first.opname == "RETURN_VALUE" and FACTS.version >= (3, 14) else 0
                    assert effect == raw_effect(parsed, unit, jump) - returned, f"{first} in {code}"


def test_every_step_is_canonical_and_jumps_to_a_step() -> None:
    """Steps are rows of the table; those that jump have a target at the depth that their effect leads to."""
    for code in code_objects():
        parsed = read(code)
        depths = None
        for step in parsed.steps:
            assert step.op in OPCODES
            if step.op == "UNSUPPORTED":
                continue
            assert (step.target >= 0) == OPCODES[step.op].jumps, f"{step} in {code}"
            if step.op in ("FOR_ITER", "SEND"):
                depths = depths or stack_depths(parsed)
                target = parsed.unit_start(parsed.steps[step.target].origin)
                before, after = depths[step.origin], depths[target]
                if before >= 0:  # else nothing leads here
                    assert after == before + stack_effect(step.op, step.arg, jump=True), f"{step} in {code}"


def test_liveness_never_misses_what_is_read() -> None:
    """On a straight way from any instruction to the next jump, what is read before it is written is live."""
    for number, code in enumerate(code_objects()):
        if number % 20 or not code.co_flags & 1:
            continue
        parsed = read(code)
        hidden = {*code.co_cellvars, *code.co_freevars}
        for instruction in parsed.instructions[::5]:
            assert _straight_reads(parsed, instruction) - hidden <= live_locals(parsed, instruction), f"{instruction} in {code}"


def _straight_reads(parsed: ParsedCode, instruction: Instruction) -> set[str]:
    read_first: set[str] = set()
    written: set[str] = set()
    for step in parsed.steps[parsed.step_of(instruction) :]:
        if step.op in ("LOAD_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR") and step.arg not in written:
            read_first.add(step.arg)
        if step.op in ("STORE_FAST", "LOAD_FAST_AND_CLEAR"):
            written.add(step.arg)
        if OPCODES[step.op].jumps or step.op in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "UNSUPPORTED"):
            break
    return read_first


def test_ordinary_functions_have_no_unsupported_opcode() -> None:
    """Only asynchronous code and the bodies of modules and classes contain opcodes that are not traced.

    (An `async for` inside a generator expression makes even that GET_AITER in the function around it.)
    """
    for code in code_objects():
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & ASYNCHRONOUS:
            unsupported = {step.arg for step in read(code).steps if step.op == "UNSUPPORTED"}
            assert unsupported <= {"GET_AITER"}, str(code)
