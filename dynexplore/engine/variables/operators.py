"""Operators: unary, binary, comparisons, `is` and `in`, as rules keyed by the operator and the classes of the trackers.

The idea: `a + b` has a different meaning for two numbers, two lists, a tensor and a number, or two user objects. Each meaning is a
rule `(left class, right class, operators) -> function`, in the file of the tracker that it concerns:

    @binary_rule(ListVariable, ListVariable, "+")
    def _concatenate(ctx, operator, left, right): ...

The first match wins, in order of rank (tensors before user objects before constants). Two constants are folded here. The in-place
form `a += b` first looks for a separate rule, then falls back to the plain operator, as Python does.

In: an operator and its operands' trackers. Out: the tracker of the result. PyTorch's counterpart: `_binop_handlers` in
torch/_dynamo/variables/builtin.py, and object_protocol.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.type_lookup import guard_on_names, is_fixed_class, peek
from dynexplore.engine.variables.type_errors import compare_different_types, raise_type_error

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

BinaryHandler = Callable[["TraceContext", str, Any, Any], VariableTracker]
UnaryHandler = Callable[["TraceContext", str, Any], VariableTracker]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul, "<<=": operator.ilshift, ">>=": operator.irshift,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "pos": operator.pos, "not": operator.not_, "invert": operator.invert,
}
DUNDER: dict[str, str] = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}
COMPARE_DUNDER: dict[str, tuple[str, str]] = {
    "<": ("__lt__", "__gt__"), "<=": ("__le__", "__ge__"), "==": ("__eq__", "__eq__"), "!=": ("__ne__", "__ne__"),
    ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__"),
}

_Row = tuple[int, type[VariableTracker], type[VariableTracker], frozenset[str] | None, BinaryHandler]
_BINARY_ROWS: list[_Row] = []
_UNARY_ROWS: list[tuple[int, type[VariableTracker], frozenset[str] | None, UnaryHandler]] = []
_HANDLERS: dict[tuple[str, type[VariableTracker], type[VariableTracker]], BinaryHandler | None] = {}


def binary_rule(
    lhs: type[VariableTracker], rhs: type[VariableTracker], *operators: str, rank: int = 50
) -> Callable[[BinaryHandler], BinaryHandler]:
    """Declare a rule for these classes; no operators means all binary ones, comparisons included."""

    def declare(handler: BinaryHandler) -> BinaryHandler:
        _BINARY_ROWS.append((rank, lhs, rhs, frozenset(operators) or None, handler))
        _BINARY_ROWS.sort(key=lambda row: row[0])
        _HANDLERS.clear()
        return handler

    return declare


def unary_rule(operand: type[VariableTracker], *operators: str, rank: int = 50) -> Callable[[UnaryHandler], UnaryHandler]:
    """Declare a rule for a unary operator."""

    def declare(handler: UnaryHandler) -> UnaryHandler:
        _UNARY_ROWS.append((rank, operand, frozenset(operators) or None, handler))
        _UNARY_ROWS.sort(key=lambda row: row[0])
        return handler

    return declare


def _binary_row(symbol: str, lhs: type[VariableTracker], rhs: type[VariableTracker]) -> BinaryHandler | None:
    key = symbol, lhs, rhs
    if key not in _HANDLERS:
        _HANDLERS[key] = next(
            (handler for _, left_class, right_class, symbols, handler in _BINARY_ROWS
             if issubclass(lhs, left_class) and issubclass(rhs, right_class) and (symbols is None or symbol in symbols)),
            None,
        )
    return _HANDLERS[key]


def binary(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """`left symbol right`, including in-place forms such as `+=`."""
    _guard_on_metaclasses(ctx, (lhs, rhs), dunders(symbol), symbol)
    handler = _binary_row(symbol, type(lhs), type(rhs))
    plain = symbol
    if handler is None and symbol.endswith("="):
        plain = symbol[:-1]
        handler = _binary_row(plain, type(lhs), type(rhs))
    if handler is None:
        raise_type_error(ctx, BINARY[symbol], lhs, rhs, kind="DX304", operator=symbol, left=lhs.type_name(),
               right=rhs.type_name())
    return handler(ctx, plain, lhs, rhs)


def compare(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """`left < right` and the other comparisons."""
    _guard_on_metaclasses(ctx, (lhs, rhs), dunders(symbol), symbol)
    handler = _binary_row(symbol, type(lhs), type(rhs))
    if handler is None:
        return compare_different_types(ctx, symbol, COMPARE[symbol], lhs, rhs)
    return handler(ctx, symbol, lhs, rhs)


def dunders(symbol: str) -> tuple[str, ...]:
    """The methods that Python calls for a binary operator or a comparison.

    >>> dunders("+"), dunders("+="), dunders("<")
    (('__add__', '__radd__'), ('__iadd__', '__add__', '__radd__'), ('__lt__', '__gt__'))
    """
    if symbol in COMPARE_DUNDER:
        return COMPARE_DUNDER[symbol]
    name = DUNDER[symbol.removesuffix("=")]
    return (*((f"__i{name}__",) if symbol.endswith("=") else ()), f"__{name}__", f"__r{name}__")


def _guard_on_metaclasses(
    ctx: TraceContext, operands: tuple[VariableTracker, ...], names: tuple[str, ...], symbol: str
) -> None:
    """An operator on classes: guard that their metaclasses define no method for it."""
    for operand in operands:
        if operand.kind == "class":
            metaclass = operand.python_type()
            guard_on_names(ctx, metaclass, *names)
            if any(isinstance(peek(metaclass, name), FunctionType) for name in names) and not is_fixed_class(metaclass):
                ctx.break_graph("DX304", operator=symbol, left=operands[0].type_name(), right=operands[-1].type_name())


def unary(ctx: TraceContext, symbol: str, operand: VariableTracker) -> VariableTracker:
    """`-operand`, `+operand`, `~operand`."""
    for _, operand_class, symbols, handler in _UNARY_ROWS:
        if isinstance(operand, operand_class) and (symbols is None or symbol in symbols):
            return handler(ctx, symbol, operand)
    raise_type_error(ctx, UNARY[symbol], operand, kind="DX304", operator=symbol, left=operand.type_name(), right="")
