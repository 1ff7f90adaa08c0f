"""CPython 3.12: what its opcodes are lowered to, how the writer emits them, and its stack layout.

The idea: rows of data (rows.py). PyTorch's counterpart: none.

In: `rows`. Out: `FACTS`, `LOWER`, `EMIT`, `UNSUPPORTED`. CPython: Python/bytecodes.c and Lib/opcode.py of 3.12.
"""

from __future__ import annotations

import opcode
from collections.abc import Callable
from typing import Any

from dynexplore.engine.bytecode.versions.rows import (
    COMMON,
    COMMON_EMIT,
    COMMON_UNSUPPORTED,
    Emitted,
    Facts,
    LowerRow,
    becomes,
    compare_with_mask,
    format_value,
    nothing,
    unsupported,
)

_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")

FACTS = Facts(
    version=(3, 12),
    null_below=True,
    bool_jumps=False,
    inlined_comprehensions=True,
    closure_by_load_fast=False,
    generator_entry_depth=1,
    merges_positions=True,
    for_iter_skips=("END_FOR",),
    send_skips=("END_SEND",),
    unit_heads=frozenset({"KW_NAMES"}),
    compare_shift=4,
    compare_to_bool=0,
    name_shift={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    caches={
        "BINARY_SUBSCR": 1, "STORE_SUBSCR": 1, "UNPACK_SEQUENCE": 1, "FOR_ITER": 1, "STORE_ATTR": 4, "LOAD_ATTR": 9,
        "COMPARE_OP": 1, "LOAD_GLOBAL": 4, "BINARY_OP": 1, "SEND": 1, "LOAD_SUPER_ATTR": 1, "CALL": 3,
    },
    jumps={
        "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
        **{f"POP_JUMP_IF_{c}": (f"POP_JUMP_IF_{c}", None) for c in _CONDITIONS},
    },
    local_pairs={},
)  # fmt: skip

UNSUPPORTED: dict[str, str] = {
    **COMMON_UNSUPPORTED,
    "INTERPRETER_EXIT": "only in CPython's own entry frames",
    "RESERVED": "no instruction",
    **{
        n: "a tool's mark; reading a code object shows the opcode under it" for n in opcode.opmap if "INSTRUMENTED" in n
    },
}

_INTRINSIC_1: dict[str, tuple[tuple[str, Any], ...]] = {
    "INTRINSIC_UNARY_POSITIVE": (("UNARY_OP", "pos"),),
    "INTRINSIC_LIST_TO_TUPLE": (("LIST_TO_TUPLE", None),),
    # unlike IMPORT_STAR of 3.11 it pushes None, which the next POP_TOP drops
    "INTRINSIC_IMPORT_STAR": (("IMPORT_STAR", None), ("LOAD_CONST", None)),
}


def _load_global(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("PUSH_NULL", None), ("LOAD_GLOBAL", argval)) if arg & 1 else (("LOAD_GLOBAL", argval),)


def _load_attr(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    return (("LOAD_ATTR", argval), ("PUSH_NULL", None), ("SWAP", 2)) if arg & 1 else (("LOAD_ATTR", argval),)


def _load_super_attr(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    load = ("LOAD_SUPER_ATTR", (argval, bool(arg & 2)))
    return (load, ("PUSH_NULL", None), ("SWAP", 2)) if arg & 1 else (load,)


def intrinsic_1(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    """CALL_INTRINSIC_1, from 3.12 on: intrinsics that used to be opcodes are lowered to those."""
    return _INTRINSIC_1.get(argval, (("CALL_INTRINSIC_1", argval),))


def intrinsic_2(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    """CALL_INTRINSIC_2, from 3.12 on."""
    is_reraise_star = argval == "INTRINSIC_PREP_RERAISE_STAR"
    return (("PREP_RERAISE_STAR", None),) if is_reraise_star else (("CALL_INTRINSIC_2", argval),)


LOWER: dict[str, LowerRow] = {
    **COMMON,
    **{opname: unsupported(opname) for opname in UNSUPPORTED},
    "LOAD_FAST_CHECK": becomes("LOAD_FAST"),
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "KW_NAMES": nothing,
    "CALL": lambda arg, argval: (("CALL", (arg, argval)),),
    "FORMAT_VALUE": format_value,
    "RETURN_CONST": lambda arg, argval: (("LOAD_CONST", argval), ("RETURN_VALUE", None)),
    "END_FOR": lambda arg, argval: (("POP_TOP", None), ("POP_TOP", None)),
    "CALL_INTRINSIC_1": intrinsic_1,
    "CALL_INTRINSIC_2": intrinsic_2,
}


def _emit_call(n: int, kwnames: tuple[str, ...]) -> Emitted:
    names: Emitted = (("KW_NAMES", None, kwnames),) if kwnames else ()
    return (*names, ("CALL", n, n))


def _emit_function(code: Any, flags: int) -> Emitted:
    return (("LOAD_CONST", None, code), ("MAKE_FUNCTION", flags, flags))


EMIT: dict[str, Callable[..., Emitted]] = {
    **COMMON_EMIT,
    "load_fast_checked": lambda name: (("LOAD_FAST_CHECK", None, name),),
    "load_fast_and_clear": lambda name: (("LOAD_FAST_AND_CLEAR", None, name),),
    "load_closure": lambda name: (("LOAD_CLOSURE", None, name),),
    "to_bool": lambda: (("UNARY_NOT", None, None), ("UNARY_NOT", None, None)),
    "unary_not": lambda: (("UNARY_NOT", None, None),),
    "unary_positive": lambda: (("CALL_INTRINSIC_1", 5, "INTRINSIC_UNARY_POSITIVE"),),
    "list_to_tuple": lambda: (("CALL_INTRINSIC_1", 6, "INTRINSIC_LIST_TO_TUPLE"),),
    "compare": lambda op: compare_with_mask(4, op),
    "call": _emit_call,
    "make_function": _emit_function,
}
