"""Rules for builtins and `math` functions of numbers.

The idea: on constants these C functions are constant-folded, since they depend on nothing but their arguments. For other values
they call the special method that CPython would call (`abs` calls `__abs__`). A tensor that must become a Python number calls
`item()`, which breaks the graph unless `config.capture_scalar_outputs` is set; a symbolic number is specialized if torch has no
symbolic form of the function.

In: calls of these functions. Out: constants, symbolic numbers, tensors. PyTorch's counterpart: torch/_dynamo/variables/builtin.py.
"""

from __future__ import annotations

import cmath
import math
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.containers.sequence import SequenceVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.operators import binary
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, run_now
from dynexplore.engine.variables.scalars.special_results import checked_result
from dynexplore.engine.variables.scalars.specialize import is_specializable, is_tensor, specialize
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.type_errors import raise_type_error, type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# Functions of math for which torch has a symbolic form.
_SYMBOLIC: dict[Any, Any] = {math.sqrt: torch.sym_sqrt} if hasattr(torch, "sym_sqrt") else {}


def plain(ctx: TraceContext, value: VariableTracker, function: str) -> Any:
    """The Python value of an argument to a C function: a constant, or a sequence of constants."""
    if isinstance(value, SequenceVariable) and not is_specializable(value):
        items = [plain(ctx, item, function) for item in value.unpack(ctx)]
        return tuple(items) if isinstance(value, TupleVariable) else items
    if is_specializable(value):
        return specialize(value)
    if is_tensor(value):
        return plain(ctx, value.call_method(ctx, "item", [], {}), function)
    if value.kind in ("iterator", "generator", "range"):
        return [plain(ctx, item, function) for item in value.unpack(ctx)]
    ctx.break_graph("DX205", function=function, arguments=value.type_name())


def runs_on_constants(function: Any) -> None:
    """Declare that a C function depends on nothing but its arguments and can be constant-folded."""

    def row(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        symbolic = _SYMBOLIC.get(function)
        if symbolic is not None and len(args) == 1 and isinstance(args[0], SymbolicNumberVariable):
            return ctx.operation("call_function", symbolic, args, kwargs)
        values = [plain(ctx, arg, function.__name__) for arg in args]
        named = {name: plain(ctx, arg, function.__name__) for name, arg in kwargs.items()}
        return computed(ctx, function, *values, **named)

    rule(function)(row)


_SPECIAL_MATH = (math.floor, math.ceil, math.trunc)
for _module in (math, cmath):
    for _function in vars(_module).values():
        if callable(_function) and _function not in _SPECIAL_MATH:
            runs_on_constants(_function)
for _function in (bin, oct, hex, chr, ord, bytes, complex, sys.intern, struct.pack, struct.unpack, struct.calcsize):
    runs_on_constants(_function)


def _special(function: Any, name: str) -> None:
    """Declare a function of one number that calls a special method of any non-constant."""

    def row(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
        if value.is_constant():
            return computed(ctx, function, value.as_constant())
        value_type = type_of(value)
        if value_type is not None and not defines(value_type, name):
            raise_type_error(ctx, function, value, kind="DX205", function=function.__name__, arguments=value_type.__name__)
        if isinstance(value, SymbolicNumberVariable):
            is_whole = function in _SPECIAL_MATH and value.python_type() is int  # torch would convert it to a float, and round it
            return value if is_whole else ctx.operation("call_function", function, [value], {})
        return value.call_method(ctx, name, [], {})

    builtin(function)(row)


_special(abs, "__abs__")
_special(math.floor, "__floor__")
_special(math.ceil, "__ceil__")
_special(math.trunc, "__trunc__")


def _conversion(python_type: type[Any], name: str, symbolic: Callable[[Any], Any]) -> None:
    """`int(value)` and `float(value)`."""

    def row(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) == 1 and not kwargs:
            value = args[0]
            if is_tensor(value):
                value = value.call_method(ctx, "item", [], {})
            if isinstance(value, SymbolicNumberVariable):
                if value.python_type() is python_type:
                    return value
                return ctx.operation("call_function", symbolic, [value], {})
            if not value.is_constant():
                return _by_method(ctx, python_type, name, value)
            return computed(ctx, python_type, value.as_constant())
        values = [plain(ctx, arg, python_type.__name__) for arg in args]
        named = {key: plain(ctx, arg, python_type.__name__) for key, arg in kwargs.items()}
        return computed(ctx, python_type, *values, **named)

    rule(python_type)(row)


def _by_method(ctx: TraceContext, python_type: type[Any], name: str, value: VariableTracker) -> VariableTracker:
    """Convert a value that is neither number nor string by its special method; TypeError if it has none."""
    value_type = type_of(value)
    for method in (name, "__index__"):
        if value_type is not None and defines(value_type, method):
            return checked_result(ctx, python_type, value_type, method, value.call_method(ctx, method, [], {}))
    raise_type_error(ctx, python_type, value, kind="DX205", function=python_type.__name__, arguments=value.type_name())


_conversion(int, "__int__", torch.sym_int)
_conversion(float, "__float__", torch.sym_float)


@builtin(round)
def _round(ctx: TraceContext, number: VariableTracker, ndigits: VariableTracker | None = None) -> VariableTracker:
    digits = [] if ndigits is None else [ndigits]
    if number.is_constant() and all(digit.is_constant() for digit in digits):
        return computed(ctx, round, number.as_constant(), *(digit.as_constant() for digit in digits))
    if isinstance(number, SymbolicNumberVariable):
        if number.python_type() is int and not digits:
            return number
        plain_digits = [ConstantVariable(plain(ctx, digit, "round")) for digit in digits]
        return ctx.operation("call_function", round, [number, *plain_digits], {})
    number_type = type_of(number)
    if number_type is not None and not defines(number_type, "__round__"):
        raise_type_error(ctx, round, number, kind="DX205", function="round", arguments=number_type.__name__)
    return number.call_method(ctx, "__round__", digits, {})


@builtin(pow)
def _pow(ctx: TraceContext, base: VariableTracker, exp: VariableTracker, mod: VariableTracker | None = None) -> VariableTracker:
    if mod is None:
        return binary(ctx, "**", base, exp)
    return computed(ctx, pow, *(plain(ctx, part, "pow") for part in (base, exp, mod)))


@builtin(divmod)
def _divmod(ctx: TraceContext, left: VariableTracker, right: VariableTracker, /) -> VariableTracker:
    if left.is_constant() and right.is_constant():
        return computed(ctx, divmod, left.as_constant(), right.as_constant())
    if not (is_specializable(left) and is_specializable(right)):  # torch.Tensor has no __divmod__; a user-defined object may have
        ctx.break_graph("DX205", function="divmod", arguments=f"{left.type_name()} and {right.type_name()}")
    return TupleVariable([binary(ctx, "//", left, right), binary(ctx, "%", left, right)])


def _declare_prod() -> None:
    """Rule for math.prod on values that are not constant: a product of multiplications."""

    @builtin(math.prod)
    def prod(ctx: TraceContext, iterable: VariableTracker, /, *, start: VariableTracker | None = None) -> VariableTracker:
        total: VariableTracker = ConstantVariable(1) if start is None else start
        items = iterable.unpack(ctx)
        if total.is_constant() and all(item.is_constant() for item in items):
            constants = [item.as_constant() for item in items]
            return ctx.build(run_now(ctx, math.prod, constants, start=total.as_constant()), None)
        for item in items:
            total = binary(ctx, "*", total, item)
        return total


_declare_prod()
