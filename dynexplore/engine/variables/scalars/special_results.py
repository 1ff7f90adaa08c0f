"""Validation of special-method results: `__bool__` must return a bool, `__len__` a non-negative integer.

The idea: CPython's slot functions between a builtin and a special method written in Python check its result, and raise if it has
the wrong type or value. The messages are CPython's own: the same builtin is called on an object of a class with the same name whose
special method returns the same value, or, if the value is not known, an object whose type has the same name.

In: the result of a user-defined special method. Out: the builtin's result, or the exception that it raises. PyTorch's counterpart:
`generic_bool`, `generic_len` and similar functions in torch/_dynamo/variables/object_protocol.py. Mirrors CPython's
Objects/typeobject.c (slot_nb_bool, slot_sq_length, slot_tp_iter ...) and Objects/abstract.c.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def checked_result(
    ctx: TraceContext, function: Callable[..., Any], cls: type[Any], method: str, result: VariableTracker, *more: Any
) -> VariableTracker:
    """The result of `function(obj)` if `obj` is of this class and its special method returned `result`."""
    if type_of(result) is _GIVES[function] and (function not in _LENGTHS or _is_length(ctx, result)):
        return result
    returned, required = type_of(result), _GIVES[function]
    is_exact = returned is bool or returned is required
    if isinstance(returned, type) and not is_exact and issubclass(returned, required):
        ctx.break_graph("DX205", function=method, arguments=result.type_name())  # it warns, or is the result as it is
    value: Any
    if isinstance(result, SymbolicNumberVariable):
        value = result.specialize()
    else:
        value = result.as_constant() if result.is_constant() else _inert_object(ctx, result, method)
    if type(value) is not int and issubclass(type(value), int) and method in ("__int__", "__index__"):
        ctx.break_graph("DX205", function=method, arguments=result.type_name())  # it warns
    sample = type(cls.__name__, (), {method: lambda self, *args: value})()
    return ConstantVariable(run_now(ctx, function, sample, *more))


def call_length_hint(ctx: TraceContext, cls: type[Any], special: Callable[[str], VariableTracker | None]) -> None:
    """operator.length_hint(obj), as list(obj) asks for it: `__len__`, then `__length_hint__`. A TypeError of a method, and the
    answer NotImplemented, are passed over.
    """
    for name, function in (("__len__", len), ("__length_hint__", operator.length_hint)):
        method = special(name)
        if method is None:
            continue
        try:
            hint = method.call(ctx, [], {})
            if name == "__len__":
                hint = checked_result(ctx, len, cls, name, hint)
        except ObservedException as raised:
            if not issubclass(raised.exception.python_type(), TypeError):
                raise
            continue
        if not (hint.is_constant() and hint.as_constant() is NotImplemented):
            _reserve(ctx, name, checked_result(ctx, function, cls, name, hint))
            return


def _reserve(ctx: TraceContext, name: str, hint: VariableTracker) -> None:
    """Room for so many items: one that memory might not hold is left to Python."""
    if hint.is_constant() and hint.as_constant() > _RESERVED:
        ctx.break_graph("DX205", function=name, arguments=hint.text())


_RESERVED = 1 << 24


def checked_truth(ctx: TraceContext, cls: type[Any], result: VariableTracker) -> bool | VariableTracker:
    """bool(obj), if `__bool__` returned `result`."""
    return checked_result(ctx, bool, cls, "__bool__", result).truth(ctx)


def checked_iterator(ctx: TraceContext, result: VariableTracker) -> VariableTracker:
    """iter(obj), if `__iter__` returned `result`."""
    returned = type_of(result)
    if returned is not None and not hasattr(returned, "__next__"):
        ctx.raise_exception(TypeError, f"iter() returned non-iterator of type {returned.__name__!r}")
    return result


def _is_length(ctx: TraceContext, number: VariableTracker) -> bool:
    """Whether an int is non-negative and fits into an index; guarded for a dynamic one."""
    limits = (("<", 0), (">", sys.maxsize))
    return not any(compare(ctx, symbol, number, ConstantVariable(limit)).truth(ctx) for symbol, limit in limits)


_GIVES: dict[Any, type[Any]] = {bool: bool, len: int, float: float, int: int, str: str, repr: str, format: str, hash: int}
_GIVES[operator.length_hint] = int
_LENGTHS = (len, operator.length_hint)


_NUMBERS = frozenset({"__len__", "__length_hint__", "__index__", "__int__", "__hash__", "__float__"})


def _inert_object(ctx: TraceContext, result: VariableTracker, method: str) -> Any:
    """An object that no builtin accepts, of a type with this name."""
    returned = type_of(result)
    if returned is None or (method in _NUMBERS and hasattr(returned, "__index__")):
        ctx.break_graph("DX205", function=method, arguments=result.type_name())
    return type(returned.__name__, (), {})()
