"""Stand-ins: what Python itself says when the types of operands do not fit.

The idea: `[] + 1` raises a TypeError that CPython words. The engine copies no messages: it runs the operation on
*stand-ins*, the constant itself or an empty value of the same builtin type, and what that raises the traced program
raises.
What a stand-in computes is never used, but for one thing: values of two types are not equal where neither knows the other.

In: an operator and two trackers that no row serves. Out: an exception of the program, an answer, or a graph break.
"""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, MappingProxyType, MethodDescriptorType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

STAND_INS: dict[type[Any], Callable[[], Any]] = {
    list: list,
    tuple: tuple,
    dict: dict,
    set: set,
    frozenset: frozenset,
    deque: deque,
    OrderedDict: OrderedDict,
    defaultdict: defaultdict,
    MappingProxyType: lambda: MappingProxyType({}),
    range: lambda: range(0),
    slice: lambda: slice(None),
    type({}.keys()): lambda: {}.keys(),
    type({}.values()): lambda: {}.values(),
    type({}.items()): lambda: {}.items(),
    zip: zip,
    int: int,
    float: float,
    str: str,
    bool: bool,
    bytes: bytes,
    type(iter([])): lambda: iter([]),
    type(None): lambda: None,
    torch.Size: torch.Size,
}
_ORDERINGS: dict[Callable[[Any, Any], Any], tuple[str, str]] = {
    operator.lt: ("__lt__", "__gt__"),
    operator.le: ("__le__", "__ge__"),
    operator.gt: ("__gt__", "__lt__"),
    operator.ge: ("__ge__", "__le__"),
}


_C_CALLABLES = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)  # equal where they are identical


class NoStandIn(Exception):
    """The value's type is none of the builtin ones."""


def stand_in(value: VariableTracker) -> Any:
    """The constant itself, or an empty value of the same builtin type. Raises NoStandIn."""
    make = STAND_INS.get(type_of(value))  # type: ignore[arg-type]
    if make is None:
        raise NoStandIn(value.type_name())
    return value.as_constant() if value.kind == "constant" else make()


def raise_if_refused(ctx: TraceContext, function: Callable[..., Any], /, *operands: VariableTracker) -> None:
    """The program raises the TypeError that a C function raises for operands of these types; what has no stand-in is taken."""
    try:
        function(*map(stand_in, operands))
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    except NoStandIn:
        pass


def does_not_answer(receiver: VariableTracker, method: str, other: VariableTracker) -> bool:
    """Whether a special method of a builtin type, called by its name, returns NotImplemented for a value of this type."""
    kind = type_of(receiver)
    if kind is None or type_of(other) is None:
        return False
    if getattr(kind, method, None) is getattr(object, method, None):  # identity is all that it knows
        return method not in ("__eq__", "__ne__") or receiver.same_object(other) is False
    try:
        answer = getattr(stand_in(receiver), method)(_stand_in_of(other))
    except Exception:  # also what it raises: the operator says that
        return False
    return answer is NotImplemented


def _stand_in_of(other: VariableTracker) -> Any:
    try:
        return stand_in(getattr(other, "storage", None) or other)
    except NoStandIn:
        return object()


def type_of(value: VariableTracker) -> type[Any] | None:
    """The value's Python type, or None when it is not known."""
    try:
        return value.python_type()
    except NotImplementedError:
        return None


def raise_type_error(
    ctx: TraceContext, function: Callable[..., Any], /, *operands: VariableTracker, kind: str, **facts: object
) -> NoReturn:
    """The program raises what `function` raises on stand-ins of the operands; a graph break if that says nothing."""
    try:
        values = [stand_in(operand) for operand in operands]
    except NoStandIn:
        ctx.break_graph(kind, **facts)
    try:
        function(*values)
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    except Exception:  # about the stand-in's content, which says nothing of the real one
        pass
    ctx.break_graph(kind, **facts)


def compare_different_types(
    ctx: TraceContext, symbol: str, function: Callable[[Any, Any], Any], lhs: VariableTracker, rhs: VariableTracker
) -> VariableTracker:
    """A comparison that no row serves: identity where types have nothing else, TypeError where no order."""
    types = type_of(lhs), type_of(rhs)
    facts = {"operator": symbol, "left": lhs.type_name(), "right": rhs.type_name()}
    if symbol in ("==", "!="):
        equal = _equal_by_type(ctx, symbol, lhs, rhs, types)
        if equal is None:
            ctx.break_graph("DX305", **facts)
        return ctx.build(equal == (symbol == "=="), None)
    forward, reflected = _ORDERINGS[function]
    if None not in types and _is_plain(types[0], forward) and _is_plain(types[1], reflected):
        names = f"{_name(types[0])} and {_name(types[1])}"
        ctx.raise_exception(TypeError, f"{symbol!r} not supported between instances of {names}")
    raise_type_error(ctx, function, lhs, rhs, kind="DX305", **facts)


def _equal_by_type(
    ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker,
    types: tuple[type[Any] | None, type[Any] | None],
) -> bool | None:
    """Whether values are equal, as far as types and identity tell; None when they do not."""
    if None in types:
        return None
    methods = ("__eq__",) if symbol == "==" else ("__ne__", "__eq__")
    plain = [all(_is_plain(value_type, name) for name in methods) or value_type in _C_CALLABLES for value_type in types]
    if all(plain):
        same = _same_c_method(lhs, rhs) or lhs.same_object(rhs)
        if same is False:
            ctx.journal.observe_identity(lhs.read(ctx), rhs.read(ctx))
        return same
    builtin = [value_type in STAND_INS for value_type in types]
    if types[0] is not types[1] and all(a or b for a, b in zip(plain, builtin, strict=True)) and _neither_answers(types):
        return False
    return None


def _same_c_method(lhs: VariableTracker, rhs: VariableTracker) -> bool:
    """Whether two live functions of C are one method of one object: each access makes another object."""
    try:
        first, second = lhs.live_value(), rhs.live_value()
    except NotConstant:
        return False
    return type(first) is type(second) is BuiltinFunctionType and bool(first == second)


def _neither_answers(types: tuple[type[Any] | None, type[Any] | None]) -> bool:
    """Whether both types leave `==` to the other: then values are equal where they are one object.

    >>> _neither_answers((list, tuple)), _neither_answers((set, type({}.keys())))
    (True, False)
    """
    lhs, rhs = (STAND_INS.get(value_type, object)() for value_type in types)  # type: ignore[arg-type]
    return lhs.__eq__(rhs) is rhs.__eq__(lhs) is NotImplemented


def _is_plain(value_type: type[Any] | None, dunder: str) -> bool:
    """Whether a type has nothing but what `object` gives it."""
    return getattr(value_type, dunder) is getattr(object, dunder)


def _name(value_type: type[Any] | None) -> str:
    return repr(value_type.__name__) if value_type is not None else "?"
