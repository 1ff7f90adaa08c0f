"""The row types of a version file, and the rows that are the same on every supported Python.

The idea: a version file is data. `LOWER` maps a raw opcode to canonical steps (an opcode without a row keeps its name and its
resolved operand), `EMIT` lists how the writer emits instructions that differ between Pythons, `FACTS` describes the stack layout.

In: nothing. Out: `Facts`, the row types, `COMMON` (lowering rows), operator texts.
PyTorch's counterpart: none; it checks `sys.version_info` at each such place (206 times in torch/_dynamo).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynexplore.engine.records import record

#: (canonical opcode, operand) ... for (arg, argval) of a raw instruction
LowerRow = Callable[[int, Any], tuple[tuple[str, Any], ...]]
#: (opname, arg or None, argval) of each raw instruction to emit; arg None: the assembler finds it from argval
Emitted = tuple[tuple[str, int | None, Any], ...]


@record()
class Facts:
    """The stack layout and jumps of one Python version; handlers check these instead of the version."""

    version: tuple[int, int]
    #: the NULL of a call is below the callable (else above it)
    null_below: bool
    #: POP_JUMP_IF_TRUE/FALSE and UNARY_NOT accept only True and False
    bool_jumps: bool
    #: comprehensions are part of the enclosing function (LOAD_FAST_AND_CLEAR, MAKE_CELL in its body)
    inlined_comprehensions: bool
    #: cells are pushed by LOAD_FAST of their slot
    closure_by_load_fast: bool
    #: stack depth at the first instruction of a generator (what the first send() passes)
    generator_entry_depth: int
    #: adjacent instructions of one source position share an entry of the line table
    merges_positions: bool
    #: opcodes that the interpreter skips at the target of FOR_ITER and SEND
    for_iter_skips: tuple[str, ...]
    send_skips: tuple[str, ...]
    #: raw opcodes that only work together with the CALL after them
    unit_heads: frozenset[str]
    #: bits of COMPARE_OP's operand below the operator
    compare_shift: int
    #: COMPARE_OP's bit that requests a real bool (0: there is none)
    compare_to_bool: int
    #: bits below the name index of an operand
    name_shift: dict[str, int]
    #: inline cache entries, in code units
    caches: dict[str, int]
    #: direction-free name of a jump -> (forward, backward or None)
    jumps: dict[str, tuple[str, str | None]]
    #: opcodes with two local variables in one operand -> the two opcodes they combine
    local_pairs: dict[str, tuple[str, str]]
    #: jumps whose operand counts backward
    backward_jumps: frozenset[str] = frozenset({"JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
    #: opcodes whose operand refers to an earlier instruction, to which they do not jump
    references: frozenset[str] = frozenset()
    #: the raw opcodes and operands that enter a `with`, if no single opcode does
    with_unit: tuple[tuple[str, int], ...] = ()
    #: the opcode after a conditional jump that marks "not taken", for branch coverage tools
    not_taken: str | None = None
    #: the index below a handler's exception is a tagged integer and not an object: only raising can push it
    lasti_is_tagged: bool = False


#: operand of BINARY_OP -> text (CPython: Include/opcode.h, NB_*)
BINARY_OPERATORS = (
    "+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^",
    "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^=",
    "[]",  # from 3.14
)  # fmt: skip
COMPARE_OPERATORS = ("<", "<=", "==", "!=", ">", ">=")
#: low bits of COMPARE_OP from 3.12: unordered 1, less 2, greater 4, equal 8 (CPython:
#: Include/internal/pycore_code.h)
COMPARE_MASKS = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}
INTRINSICS_1 = (
    "INTRINSIC_1_INVALID", "INTRINSIC_PRINT", "INTRINSIC_IMPORT_STAR", "INTRINSIC_STOPITERATION_ERROR",
    "INTRINSIC_ASYNC_GEN_WRAP", "INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE", "INTRINSIC_TYPEVAR",
    "INTRINSIC_PARAMSPEC", "INTRINSIC_TYPEVARTUPLE", "INTRINSIC_SUBSCRIPT_GENERIC", "INTRINSIC_TYPEALIAS",
)  # fmt: skip
INTRINSICS_2 = (
    "INTRINSIC_2_INVALID", "INTRINSIC_PREP_RERAISE_STAR", "INTRINSIC_TYPEVAR_WITH_BOUND",
    "INTRINSIC_TYPEVAR_WITH_CONSTRAINTS", "INTRINSIC_SET_FUNCTION_TYPE_PARAMS", "INTRINSIC_SET_TYPEPARAM_DEFAULT",
)  # fmt: skip
CONVERSIONS = (None, "str", "repr", "ascii")


def nothing(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    """The row of an opcode that only matters to the interpreter."""
    return ()


def becomes(op: str) -> LowerRow:
    """The row of an opcode that only has another name."""
    return lambda arg, argval: ((op, argval),)


def becomes_with(op: str, operand: Any) -> LowerRow:
    """The row of an opcode whose operand is part of its name."""
    return lambda arg, argval: ((op, operand),)


def as_flag(op: str) -> LowerRow:
    """The row of an opcode whose operand is a flag."""
    return lambda arg, argval: ((op, bool(arg)),)


def unsupported(opname: str) -> LowerRow:
    """The row of an opcode that the translator does not know."""
    return lambda arg, argval: (("UNSUPPORTED", opname),)


def format_value(arg: int, argval: Any) -> tuple[tuple[str, Any], ...]:
    """FORMAT_VALUE of 3.11 and 3.12: the conversion is a separate step."""
    conversion, has_spec = CONVERSIONS[arg & 3], bool(arg & 4)
    if has_spec or conversion is None:
        return (("FORMAT_VALUE", (conversion, has_spec)),)
    return (("CONVERT_VALUE", conversion), ("FORMAT_VALUE", (None, False)))


def compare_with_mask(shift: int, op: str) -> Emitted:
    """COMPARE_OP from 3.12: the low bits are a mask of the outcomes that mean True (read by specialized forms)."""
    return (("COMPARE_OP", COMPARE_OPERATORS.index(op) << shift | COMPARE_MASKS[op], op),)


#: lowering rows that all versions share
COMMON: dict[str, LowerRow] = {
    "RESUME": nothing,
    "CACHE": nothing,
    "COPY_FREE_VARS": nothing,
    "NOP": nothing,
    "UNARY_NEGATIVE": becomes_with("UNARY_OP", "neg"),
    "UNARY_NOT": becomes_with("UNARY_OP", "not"),
    "UNARY_INVERT": becomes_with("UNARY_OP", "invert"),
    "IS_OP": as_flag("IS_OP"),
    "CONTAINS_OP": as_flag("CONTAINS_OP"),
    "CALL_FUNCTION_EX": lambda arg, argval: (("CALL_FUNCTION_EX", bool(arg & 1)),),
    "UNPACK_EX": lambda arg, argval: (("UNPACK_EX", (arg & 0xFF, arg >> 8)),),
    "JUMP_FORWARD": becomes("JUMP"),
    "JUMP_BACKWARD": becomes("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": becomes("JUMP"),
    "WITH_EXCEPT_START": becomes_with("WITH_EXCEPT_START", 0),
    "SETUP_ANNOTATIONS": lambda arg, argval: (("BUILD_MAP", 0), ("STORE_NAME", "__annotations__")),  # a body begins with it
}

#: emission rows that all versions before 3.14 share
COMMON_EMIT: dict[str, Callable[..., Emitted]] = {
    "binary_subscr": lambda: (("BINARY_SUBSCR", None, None),),
    "call_function_ex": lambda has_kwargs: (("CALL_FUNCTION_EX", int(has_kwargs), int(has_kwargs)),),
}

_ASYNC = "async functions run untouched"
COMMON_UNSUPPORTED: dict[str, str] = {
    "GET_AITER": _ASYNC,
    "GET_ANEXT": _ASYNC,
    "BEFORE_ASYNC_WITH": _ASYNC,
    "END_ASYNC_FOR": _ASYNC,
    "GET_AWAITABLE": _ASYNC,
    "EXTENDED_ARG": "folded into the operand of the instruction after it, so it is never seen",
}
