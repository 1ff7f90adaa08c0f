"""Operators on user-defined objects: `obj + 1`, `2 * obj`, `obj == other`, `-obj`, inlined from their classes.

The idea: Python calls the left operand's `__add__`, then the right one's `__radd__`; the right one goes first if its class extends
the left one's and overrides the method. After NotImplemented the next method is called. Comparisons do the same with the reflected
method (the right operand goes first whenever its class extends the left one's), and `==` falls back to identity. For objects that
extend list, dict or a number without defining the method in Python, the operator is applied to their storages.

In: an operator and two trackers, at least one of them a user-defined object. Out: the result of the inlined method. PyTorch's
counterpart: `generic_richcompare` and similar functions in torch/_dynamo/variables/object_protocol.py. Mirrors CPython's
Objects/abstract.c (binary_op1) and Objects/object.c (do_richcompare).
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_mro, name_in_messages
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.type_lookup import defines, find, raw_lookup
from dynexplore.engine.variables.objects.user_object import CMethodVariable, UserObjectVariable
from dynexplore.engine.variables.operators import (
    BINARY,
    COMPARE,
    COMPARE_DUNDER,
    DUNDER,
    binary,
    binary_rule,
    compare,
    dunders,
    unary,
    unary_rule,
)
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, returns_receiver
from dynexplore.engine.variables.scalars.identity import identical
from dynexplore.engine.variables.scalars.specialize import fitting_index, specialize_bool
from dynexplore.engine.variables.scalars.text_rules import percent
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable
from dynexplore.engine.variables.type_errors import SAMPLE_VALUES

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_BEFORE_TENSORS, _BEFORE_CONTAINERS = 15, 22
Pair = tuple[VariableTracker, VariableTracker]
MethodCall = tuple[VariableTracker, str, VariableTracker]  # receiver, method name, argument

_UNARY_DUNDER = {"neg": "__neg__", "pos": "__pos__", "invert": "__invert__"}


# functools.Placeholder: from Python 3.14 on
@builds(type(NotImplemented), *[type(value) for name, value in vars(functools).items() if name == "Placeholder"])
def build_singleton(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """The only object of its type."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", type(value))
    return ConstantVariable(value, source)


def is_not_implemented(value: VariableTracker) -> bool:
    """Whether a method returned NotImplemented."""
    return value.is_constant() and value.as_constant() is NotImplemented


def _result_of(ctx: TraceContext, receiver: VariableTracker, method: str, other: VariableTracker) -> VariableTracker | None:
    """The result of the receiver's own Python method; None if it has none or returns NotImplemented."""
    if not isinstance(receiver, UserObjectVariable):
        return None
    bound = receiver.special(ctx, method)
    if bound is not None:
        returned = bound.call(ctx, [other], {})
        return None if is_not_implemented(returned) else returned
    if method != "__ne__" or raw_lookup(ctx, receiver.cls, "__ne__") is not object.__ne__:
        return None
    equal = _result_of(ctx, receiver, "__eq__", other)  # object.__ne__ negates the result of __eq__
    return ConstantVariable(not specialize_bool(ctx, equal)) if equal is not None else None


def _first_result(ctx: TraceContext, calls: Iterable[MethodCall]) -> VariableTracker | None:
    """The result of the first method that does not return NotImplemented; None if all of them do."""
    for receiver, method, other in calls:
        result = _result_of(ctx, receiver, method, other)
        if result is not None:
            return result
    return None


def _calls(lhs: VariableTracker, rhs: VariableTracker, methods: tuple[str, str], *, if_overridden: bool) -> list[MethodCall]:
    """The methods of both operands, in the order in which Python calls them.

    The right operand comes first if its class extends the left one's; in arithmetic only if it also overrides the method.
    """
    forward, reflected = methods
    calls = [(lhs, forward, rhs), (rhs, reflected, lhs)]
    first, second = lhs.python_type(), rhs.python_type()
    right_first = first is not second and any(base is first for base in class_mro(second))  # `issubclass` would call an ABC's hook
    if right_first and if_overridden:
        right_first = getattr(second, reflected, _ABSENT) is not getattr(first, reflected, _ABSENT)
    return calls[::-1] if right_first else calls


_ABSENT = object()  # None is a value, too: a disabled method


def _arithmetic(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    _refuse_torch_functions(ctx, lhs, rhs)
    if any(_handles_other_types(lhs, method) for method in dunders(symbol)[:-1]):
        _leave_to_python(ctx, symbol, lhs, rhs)
    if symbol in COMPARE:
        return _comparison(ctx, symbol, lhs, rhs)
    plain = symbol
    if symbol.endswith("="):
        plain = symbol[:-1]
        changed = _result_of(ctx, lhs, f"__i{DUNDER[plain]}__", rhs)
        if changed is not None:
            return changed
        if _content(lhs) is not lhs and lhs.special(ctx, f"__i{DUNDER[plain]}__") is not None:  # type: ignore[attr-defined]
            _leave_to_python(ctx, symbol, lhs, rhs)
        if _changes_in_c(ctx, f"__i{DUNDER[plain]}__", lhs, rhs):
            return _apply_to_storages(ctx, symbol, lhs, rhs)
        if symbol == "|=" and (fill := _TAKING_ANY_ITERABLE.get((lhs.python_type(), symbol))) is not None:
            lhs.call_method(ctx, fill, [rhs], {})  # a number slot comes before `__ror__`, unlike a list's `+=`
            return lhs
    calls = _calls(lhs, rhs, (f"__{DUNDER[plain]}__", f"__r{DUNDER[plain]}__"), if_overridden=True)
    if lhs.python_type() is rhs.python_type():
        calls = calls[:1]
    if calls[0][0] is lhs and _c_type_goes_first(ctx, plain, lhs, rhs):
        return _apply_to_storages(ctx, symbol, lhs, rhs)
    result = _first_result(ctx, calls)
    return result if result is not None else _fall_back_to_c_types(ctx, symbol, lhs, rhs, calls)


def _fall_back_to_c_types(
    ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker, calls: Iterable[MethodCall]
) -> VariableTracker:
    """No Python method handled it: apply the C types' operator.

    A Python method that returned NotImplemented replaces that of its C type, so only the remaining ones are tried.
    """
    was_inlined = any(isinstance(receiver, UserObjectVariable) and receiver.special(ctx, method) is not None
                for receiver, method, _ in calls)
    if was_inlined and (_content(lhs) is not lhs or _content(rhs) is not rhs):
        _leave_to_python(ctx, symbol, lhs, rhs)
    return _apply_to_storages(ctx, symbol, lhs, rhs)


def _changes_in_c(ctx: TraceContext, method: str, lhs: VariableTracker, rhs: VariableTracker) -> bool:
    """Whether the C base type implements the operator in place, so that `__add__` of the object's class is not called."""
    if not isinstance(lhs, UserObjectVariable) or lhs.storage is None or not lhs.storage.mutable:
        return False
    in_c = raw_lookup(ctx, lhs.cls, method)
    if in_c is None or isinstance(in_c, FunctionType):
        return False
    return not issubclass(lhs.python_type(), set) or issubclass(rhs.python_type(), (set, frozenset))


def _refuse_torch_functions(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker) -> None:
    """Break the graph if the operand of a tensor has `__torch_function__`, which the tensor calls before any other method."""
    for tensor, other in ((lhs, rhs), (rhs, lhs)):
        is_mixed = isinstance(tensor, TensorVariable) and isinstance(other, UserObjectVariable)
        if is_mixed and raw_lookup(ctx, other.python_type(), "__torch_function__") is not None:
            ctx.break_graph("DX419", what="an operand that is not a tensor has a `__torch_function__`")


def _c_type_goes_first(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> bool:
    """Whether the C type of the left operand handles the right object as a number, or formats it into a text.

    The methods of that object are then not called, unless its class extends the left one's.
    """
    if symbol == "%" and issubclass(lhs.python_type(), (str, bytes)):
        return not isinstance(lhs, UserObjectVariable) or lhs.special(ctx, "__mod__") is None
    number = _content(rhs)
    if number is rhs or not issubclass(number.python_type(), complex | float | int):
        return False
    if isinstance(lhs, TensorVariable):
        return True
    accepted = next((types for cls, types in _NUMBERS_TAKEN if issubclass(lhs.python_type(), cls)), ())
    return not isinstance(lhs, UserObjectVariable) and issubclass(number.python_type(), accepted)


# A C number type, and the types that its arithmetic and comparisons accept (Objects/longobject.c and others).
_NUMBERS_TAKEN = ((int, (int,)), (float, (float, int)), (complex, (complex, float, int)))


def _apply_to_storages(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """Each Python method returned NotImplemented, or there is none: the C types' result, or TypeError."""
    if symbol in ("%", "%=") and lhs.is_constant() and isinstance(lhs.as_constant(), (str, bytes)):
        return percent(ctx, symbol, lhs, rhs)  # text of any object
    fill = _TAKING_ANY_ITERABLE.get((lhs.python_type(), symbol))
    if fill is not None:
        lhs.call_method(ctx, fill, [rhs], {})
        return lhs
    first, second = _content(lhs), _content(rhs)
    if first is not lhs or second is not rhs:
        return _of_content(ctx, symbol, (lhs, rhs), (first, second))
    for sequence, count in ((lhs, rhs), (rhs, lhs))[: 1 if symbol == "*=" else 2]:
        if symbol in ("*", "*=") and _is_sequence(sequence) and defines(count.python_type(), "__index__"):
            number = ConstantVariable(fitting_index(ctx, count, "repetition", OverflowError))
            return binary(ctx, symbol, *((lhs, number) if sequence is lhs else (number, rhs)))
    if _handles_other_types(rhs, dunders(symbol)[-1]):
        _leave_to_python(ctx, symbol, lhs, rhs)
    return computed(ctx, BINARY.get(symbol) or COMPARE[symbol], _example(lhs), _example(rhs))  # raises C's own TypeError


_TAKING_ANY_ITERABLE: dict[tuple[type[Any], str], str] = {
    (list, "+="): "extend", (deque, "+="): "extend",
    (dict, "|="): "update", (defaultdict, "|="): "update", (OrderedDict, "|="): "update",
}  # fmt: skip


def _handles_other_types(value: VariableTracker, method: str) -> bool:
    """Whether a builtin or library operand has a method that may handle a user-defined object. Those of builtin types leave the
    operation to the object, but a Decimal accepts a Fraction, and numpy anything that it can convert to an array.
    """
    if isinstance(value, UserObjectVariable | TensorVariable):
        return False
    cls = value.python_type()
    raw = getattr(cls, method, None)
    return raw is not None and cls not in SAMPLE_VALUES and getattr(raw, "__objclass__", cls).__module__ != "builtins"


def _leave_to_python(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> NoReturn:
    ctx.break_graph("DX305" if symbol in COMPARE else "DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())


def _is_sequence(value: VariableTracker) -> bool:
    return issubclass(value.python_type(), (list, tuple, str, bytes))


def _example(value: VariableTracker) -> Any:
    """An object of the same type, or of a type with the same name that supports no operator, for error messages."""
    if value.is_constant():
        return value.as_constant()
    cls = value.python_type()
    if cls in _EMPTY:
        return cls()
    below = next((base for base in _EMPTY if issubclass(cls, base)), object)
    return type(name_in_messages(cls), (below,), {})()


_EMPTY = (torch.Size, list, tuple, dict, set, frozenset)


def _of_content(ctx: TraceContext, symbol: str, objects: Pair, contents: Pair) -> VariableTracker:
    """The C types' result; if they reject the operands, the TypeError names the classes of the objects."""
    union = _union(ctx, symbol, *objects) if symbol in ("|", "|=") else None
    if union is not None:
        return union
    try:
        result = (compare if symbol in COMPARE else binary)(ctx, symbol, *contents)
        return objects[0] if symbol in BINARY and returns_receiver(symbol, result, contents[0]) else result
    except ObservedException as raised:
        if raised.exception.python_type() is not TypeError:
            raise
        computed(ctx, BINARY.get(symbol) or COMPARE[symbol], *map(_example, objects))
        raise


def _union(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker | None:
    """`|` of one operand's C base type; None if it returns a value of the C type itself, or mutates the operand."""
    if symbol == "|=" and not isinstance(lhs, UserObjectVariable):
        return None
    for value, other, name in ((lhs, rhs, "__or__"), (rhs, lhs, "__ror__")):
        if not isinstance(value, UserObjectVariable):
            continue
        for dunder in (f"__i{name[2:]}", name) if symbol == "|=" and value is lhs else (name,):
            method = find(ctx, value.cls, dunder)
            bound = value.c_method(ctx, method) if method is not None else None  # breaks the graph if it is not traced
            if isinstance(bound, CMethodVariable):
                returned = bound.call(ctx, [other], {})
                return None if is_not_implemented(returned) else returned
            if dunder.startswith("__i") and method is not None:
                return None
    return None


def _content(value: VariableTracker) -> VariableTracker:
    return value.storage if isinstance(value, UserObjectVariable) and value.storage is not None else value


def _comparison(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    calls = _calls(lhs, rhs, COMPARE_DUNDER[symbol], if_overridden=False)
    asks_first = calls[0][0] is rhs or not _c_type_goes_first(ctx, symbol, lhs, rhs)
    result = _first_result(ctx, calls) if asks_first else None
    if result is not None:
        return result
    if symbol in ("==", "!=") and _content(lhs) is lhs and _content(rhs) is rhs:
        return _by_identity(ctx, symbol, lhs, rhs)
    return _fall_back_to_c_types(ctx, symbol, lhs, rhs, calls)


def _by_identity(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    same = identical(ctx, lhs, rhs)
    if _handles_other_types(rhs, "__eq__"):
        same = None
    own = [value for value in (lhs, rhs) if isinstance(value, UserObjectVariable)]
    if same is None or any(raw_lookup(ctx, value.cls, "__eq__") is not object.__eq__ and not value.special(ctx, "__eq__") for value in own):  # noqa: E501
        ctx.break_graph("DX305", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    return ConstantVariable(same == (symbol == "=="))


for _operator_rank, _other in ((_BEFORE_TENSORS, TensorVariable), (_BEFORE_CONTAINERS, VariableTracker)):
    binary_rule(UserObjectVariable, _other, *BINARY, *COMPARE, rank=_operator_rank)(_arithmetic)
    binary_rule(_other, UserObjectVariable, *BINARY, *COMPARE, rank=_operator_rank)(_arithmetic)


@unary_rule(UserObjectVariable, *_UNARY_DUNDER, rank=_BEFORE_CONTAINERS)
def _unary(ctx: TraceContext, symbol: str, operand: UserObjectVariable) -> VariableTracker:
    method = operand.special(ctx, _UNARY_DUNDER[symbol])
    if method is not None:
        return method.call(ctx, [], {})
    if operand.storage is not None and raw_lookup(ctx, operand.cls, _UNARY_DUNDER[symbol]) is not None:
        return unary(ctx, symbol, operand.storage)
    words = {"neg": "-", "pos": "+", "invert": "~"}[symbol]
    ctx.raise_exception(TypeError, f"bad operand type for unary {words}: {operand.cls.__name__!r}")


@unary_rule(UserObjectVariable, "not", rank=_BEFORE_CONTAINERS)
def _not(ctx: TraceContext, symbol: str, operand: UserObjectVariable) -> VariableTracker:
    return ConstantVariable(not specialize_bool(ctx, operand))
