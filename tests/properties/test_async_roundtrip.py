"""What the bytecode layer promises about asynchronous code: a table of all pairs of statements around one that does something.

Each program is read and assembled again: the bits are the same, and it runs alike, also where an exception is thrown into it.
"""

from __future__ import annotations

import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from textwrap import indent
from typing import Any

import pytest

from dynexplore.engine.bytecode import assemble, listing, read
from dynexplore.engine.bytecode.stack_depths import stack_depths

pytestmark = pytest.mark.plain("reads and writes bytecode, and captures nothing")

#: a statement, with a slot for those that it contains
AROUND = {
    "async for": "async for i in walk(2):\n{}",
    "async for with else": "async for i in walk(2):\n{}\nelse:\n note('else')",
    "async with": "async with manager('m') as m:\n{}",
    "for": "for i in (1, 2):\n{}",
    "while": "while len(noted) < 9:\n note('round')\n{}",
    "with": "with plain('p') as p:\n{}",
    "try": "try:\n{}\nexcept KeyError as e:\n note(repr(e))",
    "await in a handler": "try:\n{}\nexcept KeyError:\n await pause('handler')",
    "await in finally": "try:\n{}\nfinally:\n await pause('finally')",
    "group": "try:\n{}\nexcept* KeyError:\n await pause('group')",
    "if": "if await pause(1):\n{}",
}
INNERMOST = {
    "await": "await pause('x')",
    "yield": "yield 7",
    "comprehension": "note([v async for v in walk(3) if v])",
    "await in a comprehension": "note({v: [await pause(v) for w in (1,)] async for v in walk(2)})",
    "generator expression": "note([v async for v in (u * 2 async for u in walk(2))])",
    "arguments": "note(1, await pause(2), [await pause(3)], *[v async for v in walk(1)])",
    "return": "return",
    "break": "break",
    "continue": "continue",
    "raise": "raise KeyError(1)",
}

noted: list[str] = []


def note(*values: object) -> None:
    noted.append(repr(values))


class Pause:
    """Awaiting it passes a value to whoever runs the coroutine, and returns it."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __await__(self) -> Iterator[Any]:
        yield self.value
        return self.value


async def pause(value: object) -> object:
    return await Pause(value)


class walk:
    """n - 1 ... 0, with a pause before each."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __aiter__(self) -> walk:
        return self

    async def __anext__(self) -> int:
        await Pause("next")
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return self.n


class manager:
    def __init__(self, name: str) -> None:
        self.name = name

    async def __aenter__(self) -> str:
        await Pause("enter")
        return self.name

    async def __aexit__(self, *exception: object) -> None:
        await Pause(("exit", exception[0]))


class plain:
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> str:
        note("enter")
        return self.name

    def __exit__(self, *exception: object) -> None:
        note("exit", exception[0])


def ends(awaitable: Any, paused: list[Any], throw_at: int) -> tuple[Any, ...]:
    """How a coroutine ends if an exception is thrown into it at a pause; the pauses are appended to `paused`."""
    try:
        while len(paused) < 60:
            paused.append(awaitable.throw(KeyError("thrown")) if len(paused) == throw_at else awaitable.send(None))
    except StopIteration as end:
        return ("returned", end.value)
    except (StopAsyncIteration, KeyError, ExceptionGroup) as error:
        lines, trace = [], error.__traceback__
        while trace is not None:
            lines.append(trace.tb_lineno)
            trace = trace.tb_next
        return (repr(error), lines)
    awaitable.close()
    return ("goes on",)


def outcome(function: Callable[[], Any], throw_at: int) -> list[Any]:
    """Everything that a coroutine function or asynchronous generator does."""
    noted.clear()
    paused: list[Any] = []
    started = function()
    if not hasattr(started, "__anext__"):
        return [ends(started, paused, throw_at), paused, list(noted)]
    results = [ends(started.__anext__(), paused, throw_at)]
    while results[-1][0] == "returned" and len(results) < 12:
        results.append(ends(started.__anext__(), paused, throw_at))
    return [results, ends(started.aclose(), paused, throw_at), paused, list(noted)]


def programs() -> Iterator[tuple[str, types.CodeType]]:
    """Source and code of each program that the compiler accepts."""
    for outer, inner in itertools.product(AROUND.values(), (None, *AROUND.values())):
        for innermost in INNERMOST.values():
            body = innermost if inner is None else inner.format(indent(innermost, " "))
            source = f"async def program():\n note('begin')\n{indent(outer.format(indent(body, ' ')), ' ')}\n note('end')\n"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `break` in `finally`
                try:
                    module = compile(source, "program", "exec", dont_inherit=True)
                except SyntaxError:
                    continue  # `break` outside of a loop
            yield source, next(code for code in module.co_consts if isinstance(code, types.CodeType))


def within(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from within(constant)


def test_asynchronous_code_survives_unchanged_and_runs_alike() -> None:
    """The same bits, a stack depth everywhere, and the same pauses, results and tracebacks, whatever is thrown where."""
    count = 0
    for source, code in programs():
        for each in within(code):
            again = assemble(read(each).instructions, each)
            for attribute in ("co_code", "co_exceptiontable", "co_linetable", "co_stacksize"):
                assert getattr(again, attribute) == getattr(each, attribute), f"{attribute}\n{source}"
            stack_depths(read(each))
        written = types.FunctionType(assemble(read(code).instructions, code), globals())
        for throw_at in (-1, 1, 4):
            assert outcome(written, throw_at) == outcome(types.FunctionType(code, globals()), throw_at), source
        count += 1
    assert count > 1000


def test_what_ends_an_async_for_does_not_jump() -> None:
    """From 3.14 the operand of END_ASYNC_FOR refers to an earlier instruction, which is neither its target nor its successor."""
    code = next(code for source, code in programs() if "async for" in source)
    parsed = read(code)
    (end,) = [instruction for instruction in parsed.instructions if instruction.opname == "END_ASYNC_FOR"]
    assert end.jump_target is None
    assert parsed.steps[parsed.step_of(end)].target == -1
    (row,) = [row for row in listing(code) if row.opname == "END_ASYNC_FOR"]
    assert row.arg == ("" if end.target is None else f"from {end.target.offset}")
