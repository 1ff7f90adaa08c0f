"""CPython 3.11: what its opcodes are lowered to, how the writer emits them, and its stack layout.

The idea: rows of data (rows.py). PyTorch's counterpart: none.

In: `rows`. Out: `FACTS`, `LOWER`, `EMIT`, `UNSUPPORTED`. CPython: Python/ceval.c and Lib/opcode.py of 3.11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynexplore.engine.bytecode.versions.rows import (
    COMMON,
    COMMON_EMIT,
    COMMON_UNSUPPORTED,
    COMPARE_OPERATORS,
    Emitted,
    Facts,
    LowerRow,
    becomes,
    becomes_with,
    format_value,
    nothing,
    unsupported,
)

_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")

FACTS = Facts(
    version=(3, 11),
    null_below=True,
    bool_jumps=False,
    inlined_comprehensions=False,
    closure_by_load_fast=False,
    generator_entry_depth=1,
    merges_positions=False,
    for_iter_skips=(),
    send_skips=(),
    unit_heads=frozenset({"KW_NAMES", "PRECALL"}),
    compare_shift=0,
    compare_to_bool=0,
    name_shift={"LOAD_GLOBAL": 1},
    caches={
        "BINARY_SUBSCR": 4, "STORE_SUBSCR": 1, "UNPACK_SEQUENCE": 1, "STORE_ATTR": 4, "LOAD_ATTR": 4, "COMPARE_OP": 2,
        "LOAD_GLOBAL": 5, "BINARY_OP": 1, "LOAD_METHOD": 10, "PRECALL": 1, "CALL": 4,
    },
    jumps={
        "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
        **{f"POP_JUMP_IF_{c}": (f"POP_JUMP_FORWARD_IF_{c}", f"POP_JUMP_BACKWARD_IF_{c}") for c in _CONDITIONS},
    },
    local_pairs={},
    backward_jumps=frozenset(
        {"JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", *(f"POP_JUMP_BACKWARD_IF_{c}" for c in _CONDITIONS)}
    ),
)  # fmt: skip

UNSUPPORTED: dict[str, str] = {
    **COMMON_UNSUPPORTED,
    "ASYNC_GEN_WRAP": "async generators run untouched",
    "PRINT_EXPR": "only in interactive statements, which are no function",
}


def _load_global(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("PUSH_NULL", None), ("LOAD_GLOBAL", argval)) if arg & 1 else (("LOAD_GLOBAL", argval),)


def _call(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("CALL", (arg, argval)),)


LOWER: dict[str, LowerRow] = {
    **COMMON,
    **{opname: unsupported(opname) for opname in UNSUPPORTED},
    "UNARY_POSITIVE": becomes_with("UNARY_OP", "pos"),
    "LOAD_GLOBAL": _load_global,
    "LOAD_METHOD": lambda arg, argval: (("LOAD_ATTR", argval), ("PUSH_NULL", None), ("SWAP", 2)),
    "KW_NAMES": nothing,
    "PRECALL": nothing,
    "CALL": _call,
    "FORMAT_VALUE": format_value,
    **{f"POP_JUMP_{way}_IF_{c}": becomes(f"POP_JUMP_IF_{c}") for way in ("FORWARD", "BACKWARD") for c in _CONDITIONS},
}


def _emit_call(n: int, kwnames: tuple[str, ...]) -> Emitted:
    names: Emitted = (("KW_NAMES", None, kwnames),) if kwnames else ()
    return (*names, ("PRECALL", n, n), ("CALL", n, n))


def _emit_function(code: Any, flags: int) -> Emitted:
    return (("LOAD_CONST", None, code), ("MAKE_FUNCTION", flags, flags))


EMIT: dict[str, Callable[..., Emitted]] = {
    **COMMON_EMIT,
    "load_fast_checked": lambda name: (("LOAD_FAST", None, name),),
    "load_fast_and_clear": lambda name: (("LOAD_FAST", None, name), ("DELETE_FAST", None, name)),
    "load_closure": lambda name: (("LOAD_CLOSURE", None, name),),
    "to_bool": lambda: (("UNARY_NOT", None, None), ("UNARY_NOT", None, None)),
    "unary_not": lambda: (("UNARY_NOT", None, None),),
    "unary_positive": lambda: (("UNARY_POSITIVE", None, None),),
    "list_to_tuple": lambda: (("LIST_TO_TUPLE", None, None),),
    "compare": lambda op: (("COMPARE_OP", COMPARE_OPERATORS.index(op), op),),
    "call": _emit_call,
    "make_function": _emit_function,
}
