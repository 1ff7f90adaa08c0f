"""CPython 3.13: what its opcodes are lowered to, how the writer emits them, and its stack layout.

The idea: rows of data (rows.py). PyTorch's counterpart: none.

In: `rows`, and the intrinsics of `py312`. Out: `FACTS`, `LOWER`, `EMIT`, `UNSUPPORTED`.
CPython: Python/bytecodes.c and Lib/_opcode_metadata.py of 3.13.
"""

from __future__ import annotations

import opcode
from collections.abc import Callable
from typing import Any

from dynexplore.engine.bytecode.versions.py312 import intrinsic_1, intrinsic_2
from dynexplore.engine.bytecode.versions.rows import (
    COMMON,
    COMMON_EMIT,
    COMMON_UNSUPPORTED,
    CONVERSIONS,
    Emitted,
    Facts,
    LowerRow,
    becomes,
    becomes_with,
    compare_with_mask,
    unsupported,
)

_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")
_TO_BOOL = 16

FACTS = Facts(
    version=(3, 13),
    null_below=False,
    bool_jumps=True,
    inlined_comprehensions=True,
    closure_by_load_fast=True,
    generator_entry_depth=0,
    merges_positions=True,
    for_iter_skips=("END_FOR", "POP_TOP"),
    send_skips=("END_SEND",),
    unit_heads=frozenset(),
    compare_shift=5,
    compare_to_bool=_TO_BOOL,
    name_shift={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    caches={
        "BINARY_SUBSCR": 1, "STORE_SUBSCR": 1, "TO_BOOL": 3, "BINARY_OP": 1, "CALL": 3, "COMPARE_OP": 1,
        "CONTAINS_OP": 1, "FOR_ITER": 1, "JUMP_BACKWARD": 1, "LOAD_ATTR": 9, "LOAD_GLOBAL": 4, "LOAD_SUPER_ATTR": 1,
        "POP_JUMP_IF_FALSE": 1, "POP_JUMP_IF_NONE": 1, "POP_JUMP_IF_NOT_NONE": 1, "POP_JUMP_IF_TRUE": 1, "SEND": 1,
        "STORE_ATTR": 4, "UNPACK_SEQUENCE": 1,
    },
    jumps={
        "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
        **{f"POP_JUMP_IF_{c}": (f"POP_JUMP_IF_{c}", None) for c in _CONDITIONS},
    },
    local_pairs={
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    },
)  # fmt: skip

UNSUPPORTED: dict[str, str] = {
    **COMMON_UNSUPPORTED,
    "INTERPRETER_EXIT": "only in CPython's own entry frames",
    "EXIT_INIT_CHECK": "only in CPython's own frame around __init__",
    "ENTER_EXECUTOR": "the experimental JIT's mark; reading a code object shows the opcode under it",
    "RESERVED": "no instruction",
    **{
        n: "a tool's mark; reading a code object shows the opcode under it" for n in opcode.opmap if "INSTRUMENTED" in n
    },
}


def _load_global(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("LOAD_GLOBAL", argval), ("PUSH_NULL", None)) if arg & 1 else (("LOAD_GLOBAL", argval),)


def _load_attr(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("LOAD_ATTR", argval), ("PUSH_NULL", None)) if arg & 1 else (("LOAD_ATTR", argval),)


def _load_super_attr(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    load = ("LOAD_SUPER_ATTR", (argval, bool(arg & 2)))
    return (load, ("PUSH_NULL", None)) if arg & 1 else (load,)


def _compare(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("COMPARE_OP", argval), ("TO_BOOL", None)) if arg & _TO_BOOL else (("COMPARE_OP", argval),)


def two_locals(first: str, second: str) -> LowerRow:
    """The row of an opcode that combines two, each with a local variable."""
    return lambda arg, argval: ((first, argval[0]), (second, argval[1]))


LOWER: dict[str, LowerRow] = {
    **COMMON,
    **{opname: unsupported(opname) for opname in UNSUPPORTED},
    **{opname: two_locals(*pair) for opname, pair in FACTS.local_pairs.items()},
    "LOAD_FAST_CHECK": becomes("LOAD_FAST"),
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "COMPARE_OP": _compare,
    "CALL": lambda arg, argval: (("CALL", (arg, ())),),
    "MAKE_FUNCTION": becomes_with("MAKE_FUNCTION", 0),
    "CONVERT_VALUE": lambda arg, argval: (("CONVERT_VALUE", CONVERSIONS[arg]),),
    "FORMAT_SIMPLE": becomes_with("FORMAT_VALUE", (None, False)),
    "FORMAT_WITH_SPEC": becomes_with("FORMAT_VALUE", (None, True)),
    "RETURN_CONST": lambda arg, argval: (("LOAD_CONST", argval), ("RETURN_VALUE", None)),
    "END_FOR": becomes_with("POP_TOP", None),
    "CALL_INTRINSIC_1": intrinsic_1,
    "CALL_INTRINSIC_2": intrinsic_2,
}


def _emit_call(n: int, kwnames: tuple[str, ...]) -> Emitted:
    if kwnames:
        return (("LOAD_CONST", None, kwnames), ("CALL_KW", n, n))
    return (("CALL", n, n),)


def emit_function(code: Any, flags: int, order: tuple[int, ...] = (8, 4, 2, 1)) -> Emitted:
    """Emit the creation of a function from the code and its attributes, which are on the stack; `order` lists their flags, top
    first.
    """
    parts: Emitted = tuple(("SET_FUNCTION_ATTRIBUTE", flag, flag) for flag in order if flags & flag)
    return (("LOAD_CONST", None, code), ("MAKE_FUNCTION", None, None), *parts)


EMIT: dict[str, Callable[..., Emitted]] = {
    **COMMON_EMIT,
    "load_fast_checked": lambda name: (("LOAD_FAST_CHECK", None, name),),
    "load_fast_and_clear": lambda name: (("LOAD_FAST_AND_CLEAR", None, name),),
    "load_closure": lambda name: (("LOAD_FAST", None, name),),
    "to_bool": lambda: (("TO_BOOL", None, None),),
    "unary_not": lambda: (("TO_BOOL", None, None), ("UNARY_NOT", None, None)),
    "unary_positive": lambda: (("CALL_INTRINSIC_1", 5, "INTRINSIC_UNARY_POSITIVE"),),
    "list_to_tuple": lambda: (("CALL_INTRINSIC_1", 6, "INTRINSIC_LIST_TO_TUPLE"),),
    "compare": lambda op: compare_with_mask(5, op),
    "call": _emit_call,
    "make_function": emit_function,
}
