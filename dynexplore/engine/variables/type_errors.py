"""Type errors: what Python raises when the types of the operands do not fit.

The idea: CPython words the TypeError of `[] + 1`. The engine copies no error messages: it runs the operation on *sample values*
(the constant itself, or an empty value of the same builtin type), and raises the resulting exception in the traced program.

The result of a sample value is never used, with one exception: values of two types are unequal if neither type implements `==`
for the other.

In: an operator and two trackers for which there is no rule. Out: an exception of the program, a result, or a graph break. PyTorch's
counterpart: `generic_richcompare` and its neighbors in torch/_dynamo/variables/object_protocol.py, which word their own messages.
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

SAMPLE_VALUES: dict[type[Any], Callable[[], Any]] = {
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


_C_CALLABLES = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)  # equal only if identical


class NoSampleValue(Exception):
    """The value's type is not one of the builtin types."""


def sample_value(value: VariableTracker) -> Any:
    """The constant itself, or an empty value of the same builtin type. Raises NoSampleValue."""
    make = SAMPLE_VALUES.get(type_of(value))  # type: ignore[arg-type]
    if make is None:
        raise NoSampleValue(value.type_name())
    return value.as_constant() if value.kind == "constant" else make()


def raise_if_refused(ctx: TraceContext, function: Callable[..., Any], /, *operands: VariableTracker) -> None:
    """Raise in the program the TypeError that a C function raises for operands of
    these types; a value without a sample value is accepted.
    """
    try:
        function(*map(sample_value, operands))
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    except NoSampleValue:
        pass


def does_not_answer(receiver: VariableTracker, method: str, other: VariableTracker) -> bool:
    """Whether a special method of a builtin type, called explicitly, returns NotImplemented for the other value's type."""
    kind = type_of(receiver)
    if kind is None or type_of(other) is None:
        return False
    if getattr(kind, method, None) is getattr(object, method, None):  # the type compares by identity alone
        return method not in ("__eq__", "__ne__") or receiver.same_object(other) is False
    try:
        returned = getattr(sample_value(receiver), method)(_sample_of(other))
    except Exception:  # including an exception of the method: the operator raises that
        return False
    return returned is NotImplemented


def _sample_of(other: VariableTracker) -> Any:
    try:
        return sample_value(getattr(other, "storage", None) or other)
    except NoSampleValue:
        cls = type_of(other)
        # a method of a builtin type treats an object of a subclass, such as a named tuple, as one of the type
        base = next((base for base in _BUILTIN_BASES if cls is not None and issubclass(cls, base)), object)
        return base()


_BUILTIN_BASES = (tuple, list, dict, set, frozenset, str, bytes, bytearray, int, float, complex)


def type_of(value: VariableTracker) -> type[Any] | None:
    """The value's Python type, or None if it is not known."""
    try:
        return value.python_type()
    except NotImplementedError:
        return None


def raise_type_error(
    ctx: TraceContext, function: Callable[..., Any], /, *operands: VariableTracker, kind: str, **facts: object
) -> NoReturn:
    """Raise in the program what `function` raises on sample values of the operands; break the graph if it raises no TypeError."""
    try:
        values = [sample_value(operand) for operand in operands]
    except NoSampleValue:
        ctx.break_graph(kind, **facts)
    try:
        function(*values)
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    except Exception:  # an error about the content of the sample value, which does not apply to the real value
        pass
    ctx.break_graph(kind, **facts)


def compare_different_types(
    ctx: TraceContext, symbol: str, function: Callable[[Any, Any], Any], lhs: VariableTracker, rhs: VariableTracker
) -> VariableTracker:
    """A comparison without a rule: compare identity if the types define nothing else; TypeError if they define no order."""
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
    """Whether two values are equal, if types and identity determine that; otherwise None."""
    if None in types:
        return None
    methods = ("__eq__",) if symbol == "==" else ("__ne__", "__eq__")
    plain = [all(_is_plain(value_type, name) for name in methods) or value_type in _C_CALLABLES for value_type in types]
    if all(plain):
        same = _same_c_method(lhs, rhs) or lhs.same_object(rhs)
        if same is False:
            ctx.journal.observe_identity(lhs.read(ctx), rhs.read(ctx))
        return same
    builtin = [value_type in SAMPLE_VALUES for value_type in types]
    if types[0] is not types[1] and all(a or b for a, b in zip(plain, builtin, strict=True)) and _neither_answers(types):
        return False
    return None


def _same_c_method(lhs: VariableTracker, rhs: VariableTracker) -> bool:
    """Whether two live C functions are the same method of the same object; each access creates a new bound object."""
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
    lhs, rhs = (SAMPLE_VALUES.get(value_type, object)() for value_type in types)  # type: ignore[arg-type]
    return lhs.__eq__(rhs) is rhs.__eq__(lhs) is NotImplemented


def _is_plain(value_type: type[Any] | None, dunder: str) -> bool:
    """Whether a type inherits this special method from `object`."""
    return getattr(value_type, dunder) is getattr(object, dunder)


def _name(value_type: type[Any] | None) -> str:
    return repr(value_type.__name__) if value_type is not None else "?"
