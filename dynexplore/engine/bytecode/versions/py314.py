"""CPython 3.14: how lowering, emission and stack layout differ from 3.13.

The idea: rows of data (rows.py), on top of those of `py313`. PyTorch's counterpart: none.

In: `rows`, and the tables of `py313`. Out: `FACTS`, `LOWER`, `EMIT`, `UNSUPPORTED`.
CPython: Python/bytecodes.c and Lib/_opcode_metadata.py of 3.14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dynexplore.engine.bytecode.versions import py313
from dynexplore.engine.bytecode.versions.rows import (
    BINARY_OPERATORS,
    Emitted,
    Facts,
    LowerRow,
    becomes,
    becomes_with,
    nothing,
    unsupported,
)

_REMOVED = ("RETURN_CONST",)

FACTS: Facts = replace(
    py313.FACTS,
    version=(3, 14),
    for_iter_skips=("END_FOR", "POP_ITER"),
    # a subscript is a BINARY_OP
    caches={opname: size for opname, size in py313.FACTS.caches.items() if opname != "BINARY_SUBSCR"}
    | {"BINARY_OP": 5, "CALL_KW": 3},
    local_pairs=py313.FACTS.local_pairs | {"LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST_BORROW", "LOAD_FAST_BORROW")},
    # its operand refers to the END_SEND of its loop, where the other branch of sys.monitoring begins; it does not jump
    references=frozenset({"END_ASYNC_FOR"}),
    # LOAD_SPECIAL 1 is __exit__, LOAD_SPECIAL 0 __enter__; each pushes a function and its receiver, or a method and NULL
    with_unit=(("COPY", 1), ("LOAD_SPECIAL", 1), ("SWAP", 2), ("SWAP", 3), ("LOAD_SPECIAL", 0), ("CALL", 0)),
    not_taken="NOT_TAKEN",
    lasti_is_tagged=True,
)

UNSUPPORTED: dict[str, str] = {
    **py313.UNSUPPORTED,
    "LOAD_SPECIAL": "in an `async with`; that of a `with` is part of what enters it",
}

_CONVERSION_LETTERS = (None, "s", "r", "a")
COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, all, any)


def _common_constant(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("LOAD_ASSERTION_ERROR", None),) if arg == 0 else (("LOAD_CONST", COMMON_CONSTANTS[arg]),)


def _binary(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("BINARY_SUBSCR", None),) if argval == "[]" else (("BINARY_OP", argval),)


LOWER: dict[str, LowerRow] = {
    **{opname: row for opname, row in py313.LOWER.items() if opname not in _REMOVED},
    "LOAD_SPECIAL": unsupported("LOAD_SPECIAL"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": py313.two_locals("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW": becomes("LOAD_FAST"),
    "LOAD_SMALL_INT": lambda arg, argval: (("LOAD_CONST", arg),),
    "LOAD_COMMON_CONSTANT": _common_constant,
    "NOT_TAKEN": nothing,
    "POP_ITER": becomes_with("POP_TOP", None),
    "BINARY_OP": _binary,
    # keywords, or a NULL, are always on the stack
    "CALL_FUNCTION_EX": becomes_with("CALL_FUNCTION_EX", True),
    "WITH_EXCEPT_START": becomes_with("WITH_EXCEPT_START", 1),
    "BUILD_INTERPOLATION": lambda arg, argval: (("BUILD_INTERPOLATION", (_CONVERSION_LETTERS[arg >> 2 & 3], bool(arg & 1))),),
}


def _emit_call_function_ex(has_kwargs: bool) -> Emitted:
    empty: Emitted = () if has_kwargs else (("PUSH_NULL", None, None),)
    return (*empty, ("CALL_FUNCTION_EX", None, None))


EMIT: dict[str, Callable[..., Emitted]] = {
    **py313.EMIT,
    "binary_subscr": lambda: (("BINARY_OP", BINARY_OPERATORS.index("[]"), "[]"),),
    "call_function_ex": _emit_call_function_ex,
    "make_function": lambda code, flags: py313.emit_function(code, flags, (8, 16, 4, 2, 1)),  # 16: annotations as a function
}
