"""Unspecialized numbers and strings: Python values that change from call to call, such as a running total or a counter.

The idea: a value that is only passed on (put into a list, printed, passed to a resume function) needs no guard. A value that is
computed with need not be known either, if the computation can be repeated: `total + loss` is a source (`ComputedSource`), which the
modified code and the guards evaluate again. So a loop that accumulates numbers between graph breaks is compiled once, not for each
total. For control flow (`if loss < best`) the guard is on the result of the comparison.

Only where the value itself is needed (a size, an index, a key) is it specialized, or becomes a graph input: an
`UnspecializedVariable` is a constant whose guard is installed when its `value` is read.

In: numbers and strings passed to resume functions, floats that have changed before, numpy scalar arguments. Out: computed sources,
constants, graph inputs. PyTorch's counterpart: `LazyConstantVariable` in torch/_dynamo/variables/lazy.py, and `wrap_symfloat` and
`wrap_unspecialized_primitive` in builder.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch.fx

from dynexplore.engine.provenance.guards import is_float_or_int64
from dynexplore.engine.provenance.sources import CallSource, ComputedSource, LiteralSource, Source
from dynexplore.engine.specialization.shape_env import unbacked_number
from dynexplore.engine.specialization.tables import DRAWN
from dynexplore.engine.variables import builtin_rules
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary, binary_rule, compare, unary_rule
from dynexplore.engine.variables.rules import rule, rule_for
from dynexplore.engine.variables.scalars import number_rules, text_rules
from dynexplore.engine.variables.scalars.constant import (
    ConstantMethodVariable,
    ConstantVariable,
    computed,
    is_numpy_number,
    plain_number,
    run_now,
)
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable, is_short, symbolic_input

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_ROWS = (builtin_rules, number_rules, text_rules)  # their rules for constants take precedence over the ones below
_DEEPEST = 15  # maximum nesting of computed sources: a product of 16 ints of 64 bits still fits a float
_NUMBERS = (int, float)
_COMPUTABLE = (str, bool)
_ALWAYS_WORKS = frozenset({"+", "-", "*"})
_WORKS_UNLESS_ZERO = frozenset({"/", "//", "%"})


class UnspecializedVariable(ConstantVariable):
    """A number or string that may differ in a later call. `current` is its value in this call; reading it installs no guard."""

    kind = "changing value"
    source: Source

    def __init__(self, ctx: TraceContext, current: Any, source: Source) -> None:
        self.ctx, self.current, self.source = ctx, current, source
        self.relied_on = False
        self._proxy: Any = None

    @property
    def value(self) -> Any:
        """The value, guarded from now on."""
        if not self.relied_on:
            self.ctx.specializer.note_value_needed(self.source, self.current)  # if it changes, it becomes dynamic
            self._guard_value()
        return self.current

    def is_unguarded(self) -> bool:
        return not self.relied_on

    def _guard_value(self) -> None:
        self.relied_on = True
        self.ctx.guard(self.source, "EQUALS", self.current)

    def symbol(self, ctx: TraceContext) -> SymbolicNumberVariable | None:
        """The symbol of the number as a graph input; None if the graph specializes on it, with a guard."""
        if self.relied_on or type(self.current) not in _NUMBERS:
            return None
        decision = ctx.specializer.decide_number(self.source, self.current, in_graph=True)
        if decision.is_symbol and is_short(self.current):
            return symbolic_input(ctx, self.current, self.source)
        ctx.specializer.profile.note_constant(self.source.text(), self.current)
        self._guard_value()
        return None

    def python_type(self) -> type[Any]:
        self.ctx.guard(self.source, "TYPE_MATCH", type(self.current))
        return type(self.current)

    def varying_key(self) -> tuple[object, Source] | None:
        source = self.source
        changes = source.guardable and not self.relied_on and self.ctx.specializer.is_dynamic_index(source)
        return (self.current, source) if changes else None

    def type_name(self) -> str:
        return type(self.current).__name__

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return decided(ctx, bool, [self], "bool({})")

    def same_object(self, other: VariableTracker) -> bool | None:
        if not isinstance(other, ConstantVariable) or (
            type(other) is ConstantVariable and type(other.value) not in (int, float, str)
        ):
            self.python_type()  # a later call may pass any object, including that one
            return False
        return True if other is self else super().same_object(other)

    def as_proxy(self) -> Any:
        if self._proxy is None:
            symbol = self.symbol(self.ctx)
            self._proxy = self.value if symbol is None else symbol.as_proxy()
        return self._proxy

    def text(self) -> str:
        text = repr(self.current)
        return text if len(text) <= 60 else text[:57] + "..."

    # -- for those who watch

    def unguarded_value(self, depth: int = 8) -> Any:
        return self._proxy if isinstance(self._proxy, torch.fx.Node) else self.current

    def may_vary(self) -> bool:
        return not self.relied_on and not isinstance(self._proxy, torch.fx.Node)

    def contents(self, most: int | None = None) -> Contents | None:
        return None


_OF_ITS_TYPE = frozenset({"dtype", "itemsize", "nbytes", "ndim", "shape", "size"})


class NumpyNumberVariable(UnspecializedVariable):
    """A numpy scalar that the caller passes. With tensors, torch uses the equal Python number: that is the graph input."""

    kind = "number of numpy"

    def plain(self) -> UnspecializedVariable:
        """The Python number of the same value, which changes with this one."""
        self.python_type()
        source = CallSource(self.source, plain_number, "item")
        self.ctx.specializer.note_change(source, "numpy")
        return UnspecializedVariable(self.ctx, plain_number(self.current), source)

    def symbol(self, ctx: TraceContext) -> SymbolicNumberVariable | None:
        """None: a numpy scalar combined with a number of the graph yields a numpy scalar again."""
        return None

    def same_object(self, other: VariableTracker) -> bool | None:
        return True if other is self else ConstantVariable.same_object(self, other)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _OF_ITS_TYPE:
            return ctx.build(getattr(self.python_type()(), name), None)
        return ConstantMethodVariable(self, name) if name == "item" else super().get_attribute(ctx, name)

    def as_proxy(self) -> Any:
        if self._proxy is None:
            self._proxy = ConstantVariable.as_proxy(self) if self.relied_on else self.plain().as_proxy()
        return self._proxy

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "item" and not args and not kwargs and not self.relied_on:
            return self.plain()
        return super().call_method(ctx, name, args, kwargs)


class DrawnVariable(UnspecializedVariable):
    """A number that is not known before the frame runs (a random number, or computed from one), so it cannot be guarded."""

    kind = "drawn number"

    @property
    def value(self) -> Any:
        """Break the graph: its value is needed, and it has none at trace time."""
        self.ctx.break_graph("DX219", value=self.source.text())

    def python_type(self) -> type[Any]:
        return type(self.current)

    def is_constant(self) -> bool:
        return False

    def as_proxy(self) -> Any:
        if self._proxy is None:
            if not self.ctx.specializer.takes_symbols:
                self.ctx.break_graph("DX219", value=self.source.text())
            graph, where = self.ctx.graph, self.source.text()
            self._proxy = graph.placeholder(where, self.source, self.current, unbacked_number(graph, self.current))
            self.ctx.specializer.emit_specialized(where, DRAWN)
        return self._proxy

    def text(self) -> str:
        return self.source.text()

    def unguarded_value(self, depth: int = 8) -> Any:
        if self._proxy is None:
            raise Unknown
        return self._proxy


def may_vary_as_numpy(value: Any) -> bool:
    """Whether a value is a numpy scalar that torch treats as a Python number: an integer or a float."""
    return is_numpy_number(value) and value.dtype.kind in "iuf" and type(value.item()) in _NUMBERS


# -- computing --------------------------------------------------------------------------------------------------------


def _current_value(value: VariableTracker) -> Any:
    return value.current if isinstance(value, UnspecializedVariable) else value.as_constant()


def _source(value: VariableTracker) -> Source:
    return value.source if isinstance(value, UnspecializedVariable) else LiteralSource(value.as_constant())


def _depth(value: VariableTracker) -> int:
    source = value.source
    return source.depth if isinstance(source, ComputedSource) else 0


def _computable(operands: Sequence[VariableTracker]) -> bool:
    """Whether the operands are numbers and strings, not nested too deep, at least one of them unspecialized."""
    return (
        any(isinstance(operand, UnspecializedVariable) and not operand.relied_on for operand in operands)
        and all(isinstance(operand, ConstantVariable) and _is_computable(_current_value(operand)) for operand in operands)
        and max(map(_depth, operands)) < _DEEPEST
    )


def _is_computable(value: Any) -> bool:
    return is_float_or_int64(value) or type(value) in _COMPUTABLE or may_vary_as_numpy(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool) or may_vary_as_numpy(value)


def _guard_on_kinds(ctx: TraceContext, operands: Sequence[VariableTracker]) -> None:
    """Guard that a number stays a number, and a string a string."""
    for operand in operands:
        if isinstance(operand, UnspecializedVariable) and not isinstance(operand, DrawnVariable):
            if type(operand.current) in _NUMBERS:
                ctx.guard(operand.source, "NUMBER", None)
            else:
                ctx.guard(operand.source, "TYPE_MATCH", type(operand.current))


def deferred(
    ctx: TraceContext, function: Callable[..., Any], operands: Sequence[VariableTracker], text: str
) -> UnspecializedVariable:
    """The result of a C function that depends on nothing but its operands, to be computed again in each call."""
    _guard_on_kinds(ctx, operands)
    result = run_now(ctx, function, *map(_current_value, operands))
    first, *others = map(_source, operands)
    kind = NumpyNumberVariable if may_vary_as_numpy(result) else UnspecializedVariable
    if any(isinstance(operand, DrawnVariable) for operand in operands):
        kind = DrawnVariable
    return kind(ctx, result, ComputedSource(first, function, tuple(others), text))


def decided(ctx: TraceContext, function: Callable[..., Any], operands: Sequence[VariableTracker], text: str) -> bool:
    """The result of a condition on the operands in this call; the result is guarded, not the operands."""
    return bool(_comparison(ctx, function, operands, text))


def _comparison(ctx: TraceContext, function: Callable[..., Any], operands: Sequence[VariableTracker], text: str) -> Any:
    """The result itself, for which numpy has its own bool type."""
    return deferred(ctx, function, operands, text).value


def _operate(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    plain = symbol[:-1] if symbol in BINARY and symbol.endswith("=") else symbol
    if _computable([left, right]) and not _may_overflow(plain, left, right):
        kinds = {_is_number(_current_value(left)), _is_number(_current_value(right))}
        if plain in COMPARE and (len(kinds) == 1 or plain in ("==", "!=")):
            return ConstantVariable(_comparison(ctx, COMPARE[plain], [left, right], f"({{}} {plain} {{}})"))
        if kinds == {True} and _cannot_raise(ctx, plain, right):
            return deferred(ctx, BINARY[plain], [left, right], f"({{}} {plain} {{}})")
        if kinds == {False} and plain == "+":
            return deferred(ctx, operator.add, [left, right], "({} + {})")
    return computed(ctx, BINARY.get(symbol) or COMPARE[symbol], left.as_constant(), right.as_constant())


def _may_overflow(symbol: str, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether numpy may raise or warn: a Python number outside of its type's range, or a guard that computes with it."""
    operands = [operand for operand in (left, right) if is_numpy_number(_current_value(operand))]
    if not operands:
        return False
    others = [operand for operand in (left, right) if operand not in operands]
    if any(isinstance(operand, UnspecializedVariable) for operand in others) or any(map(_is_drawn, (left, right))):
        return True
    return symbol in COMPARE and any(map(_depth, operands))


def _is_drawn(operand: VariableTracker) -> bool:
    return isinstance(operand, DrawnVariable)


def _cannot_raise(ctx: TraceContext, symbol: str, right: VariableTracker) -> bool:
    """Whether an operation on numbers cannot raise: a divisor must not be zero."""
    if symbol in _WORKS_UNLESS_ZERO:
        return right.truth(ctx) is True
    return symbol in _ALWAYS_WORKS


def _with_symbol(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """Combined with a symbolic number: it becomes symbolic or a constant; a drawn number cannot be a constant."""
    operands: list[VariableTracker] = []
    for operand in (left, right):
        if isinstance(operand, DrawnVariable):
            node = operand.as_proxy()
            operands.append(SymbolicNumberVariable(node, node.meta["example_value"]))
        elif isinstance(operand, UnspecializedVariable):
            number = operand.symbol(ctx)
            operands.append(ConstantVariable(operand.value) if number is None else number)
        else:
            operands.append(operand)
    return (compare if symbol in COMPARE else binary)(ctx, symbol, *operands)


binary_rule(UnspecializedVariable, ConstantVariable, rank=5)(_operate)
binary_rule(ConstantVariable, UnspecializedVariable, rank=5)(_operate)
binary_rule(UnspecializedVariable, SymbolicNumberVariable, rank=5)(_with_symbol)
binary_rule(SymbolicNumberVariable, UnspecializedVariable, rank=5)(_with_symbol)


@unary_rule(UnspecializedVariable, rank=5)
def _unary(ctx: TraceContext, symbol: str, operand: UnspecializedVariable) -> VariableTracker:
    has_sign = symbol in ("neg", "pos") and type(operand.current) in _NUMBERS
    if (has_sign or (symbol == "invert" and type(operand.current) is int)) and _computable([operand]):
        if symbol == "invert":
            operand.python_type()  # a float has no `~`, so an integer has to stay one
        return deferred(ctx, UNARY[symbol], [operand], {"neg": "-{}", "pos": "+{}", "invert": "~{}"}[symbol])
    return computed(ctx, UNARY[symbol], operand.value)


# -- functions --------------------------------------------------------------------------------------------------------


def _is_deferrable(function: Any, operands: Sequence[VariableTracker]) -> bool:
    """Whether a function of `_DEFERRED` cannot raise for operands of these types."""
    values = [_current_value(operand) for operand in operands]
    if function in (min, max):
        return len(values) > 1 and all(type(value) in _NUMBERS for value in values)
    if function is format:
        return len(values) == 1 or not isinstance(operands[1], UnspecializedVariable)  # a valid format stays valid
    if function in (str, repr):
        return len(values) == 1
    return len(values) == 1 and (type(values[0]) in _NUMBERS or may_vary_as_numpy(values[0]))  # abs, float


def _defer(function: Any) -> None:
    """Let a builtin be computed again in each call if an argument is unspecialized; other calls use its rule for constants."""
    row = rule_for(function)
    assert row is not None, function
    handle_constants = row.handler

    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if args and not kwargs and _computable(args) and _is_deferrable(function, args):
            for arg in args:
                if function in (format, str, repr) and isinstance(arg, UnspecializedVariable):
                    arg.python_type()
            return deferred(ctx, function, args, f"{function.__name__}({', '.join(['{}'] * len(args))})")
        return handle_constants(ctx, args, kwargs)

    rule(function)(handler)


def _int_of_numpy() -> None:
    """`int(n)` of a numpy integer is the Python number of the same value."""
    row = rule_for(int)
    assert row is not None
    handle_constants = row.handler

    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        number = args[0] if len(args) == 1 and not kwargs else None
        if isinstance(number, NumpyNumberVariable) and not number.relied_on and type(plain_number(number.current)) is int:
            return number.plain()
        return handle_constants(ctx, args, kwargs)

    rule(int)(handler)


_int_of_numpy()
for _function in (abs, float, format, max, min, repr, str):
    _defer(_function)


def joined(ctx: TraceContext, pieces: Sequence[VariableTracker]) -> VariableTracker:
    """Join the pieces of an f-string to one string."""
    if not _computable(pieces):
        return ConstantVariable("".join(piece.as_constant() for piece in pieces))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = binary(ctx, "+", whole, piece)
    return whole
