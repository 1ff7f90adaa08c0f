"""The instructions that jump, loop, match, raise and enter blocks, one tiny function each.

PYTEST_DONT_REWRITE: the asserts of the functions are material.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from opcodes.opcode_table import OpcodeTable, X

TABLE = OpcodeTable()
shows = TABLE.shows


@dataclass
class Point:
    """Something to match."""

    x: Any
    y: int = 0


@shows("POP_JUMP_IF_FALSE", X, 3, graphs=1, ops=1)
def branches(x, n):
    if n > 2:
        x = x + 1
    elif n:
        x = x * 2
    else:
        return None
    return x if n else -x


@shows("POP_JUMP_IF_TRUE", X, [], graphs=1, ops=1)
def branches_on_emptiness(x, items):
    if not items:
        x = x + 1
    while not items:
        items.append(1)
    return x


@shows("POP_JUMP_IF_NONE", X, None, graphs=1, ops=1)
def branches_on_none(x, n):
    if n is not None:
        return x * n
    return x + 1


@shows("POP_JUMP_IF_NOT_NONE", X, 2, graphs=1, ops=1)
def branches_on_something(x, n):
    if n is None:
        return x
    return x * n


@shows("JUMP_IF_FALSE_OR_POP", X, 0, graphs=1, ops=1)
def both(x, n):
    return (n and x, 5 and x + 1)


@shows("JUMP_IF_TRUE_OR_POP", X, 0, graphs=1, ops=1)
def either(x, n):
    return (n or x + 1, "text" or x)


@shows("TO_BOOL", X, [0], graphs=1, ops=1)
def asks_for_the_truth(x, items):
    flag = not items
    return x + flag, bool(items), bool("")


@shows("JUMP", X, graphs=1, ops=2)
def loops(x):
    n = 0
    while True:
        n += 1
        if n == 2:
            continue
        if n > 3:
            break
        x = x + n
    return x


@shows("FOR_ITER", graphs=1, ops=11)
def loops_over_things(x):
    for n in range(3):
        if n == 1:
            continue
        x = x + n
    else:
        x = x * 2
    for row, (a, b) in zip(x, [(1, 2), (3, 4)], strict=False):
        x = x + row * a - b
    return x


@shows("GET_ITER", X, {"a": 1}, graphs=1, ops=1)
def iterates(x, table):
    return [x * n for n in table.values()], [*table], sum(n for n in (1, 2))


@shows("MATCH_SEQUENCE", graphs=1, ops=1)
def matches_sequences(x):
    match [1, x, 3]:
        case [2, *_]:
            return None
        case [1, value, *rest]:
            return value + 1, rest


@shows("MATCH_CLASS", graphs=1, ops=1)
def matches_classes(x):
    match Point(x, 2):
        case Point(x=value, y=1):
            return value
        case Point(value, y=2):
            return value + 1
    return None


@shows("RAISE_VARARGS", graphs=1, ops=1)
def raises_and_catches(x):
    try:
        raise ValueError("v")
    except (KeyError, ValueError) as error:
        return x + 1, str(error)


@shows("RERAISE", X, graphs=1, ops=1, breaks=None)
def raises_again(x):
    try:
        try:
            raise KeyError("k")
        finally:
            x = x + 1
    except KeyError as error:
        return x, error.args


@shows("CHECK_EXC_MATCH", X, {}, graphs=1, ops=1)
def catches_what_a_lookup_raises(x, table):
    try:
        table["missing"]
    except IndexError:
        return x
    except LookupError as error:
        return x + 1, type(error).__name__


@shows("PUSH_EXC_INFO", graphs=1, ops=1)
def handles_in_a_handler(x):
    try:
        raise ValueError(1)
    except ValueError:
        try:
            raise KeyError(2) from None
        except KeyError as error:
            return x + error.args[0]


@shows("POP_EXCEPT", graphs=1, ops=3)
def goes_on_after_a_handler(x):
    for n in range(3):
        try:
            if n == 1:
                raise ValueError
        except ValueError:
            x = x * 2
        else:
            x = x + 1
    return x


@shows("LOAD_ASSERTION_ERROR", graphs=1, ops=1)
def asserts(x):
    assert x.dim() == 2, "a matrix"
    try:
        assert x.dim() == 3, "no cube"
    except AssertionError as error:
        return x + 1, str(error)


@shows("BEFORE_WITH", graphs=1, ops=3)
def enters_a_block(x):
    with torch.no_grad() as nothing:
        y = x + 1
    return y, nothing


@shows("WITH_EXCEPT_START", graphs=1, ops=2)
def leaves_a_block_by_an_exception(x):
    with contextlib.suppress(ValueError), torch.enable_grad():
        x = x + 1
        raise ValueError
    return x * 2


@shows("CHECK_EG_MATCH", graphs=2, ops=[1, 1], breaks=None)
def catches_a_group(x):
    try:
        raise ExceptionGroup("both", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        x = x + len(group.exceptions)
    except* KeyError:
        x = x * 2
    return x


@TABLE.parameters()
def test_instruction(run):
    """The function holds the instruction, where this Python has it, and does what CPython does."""
    run()
