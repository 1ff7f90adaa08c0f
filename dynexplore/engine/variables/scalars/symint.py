"""Symbolic numbers: sizes that vary from call to call, and what is computed from them.

The idea: with dynamic shapes a size is a `torch.SymInt` in a ShapeEnv. Arithmetic adds a node to the graph and builds a symbolic
expression. When the program branches on one, ShapeEnv evaluates it with the hint and adds a guard. A branch on an unbacked symbol
(`x.item()` under `config.capture_scalar_outputs`) breaks the graph.

In: symbolic results of operators, dynamic inputs. Out: nodes, symbolic numbers, guards. PyTorch's counterpart: `SymNodeVariable` in
torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy
import torch
import torch.fx
from torch.utils._sympy.functions import ToFloat

from dynexplore.engine.graph.concrete_value import specialize_float
from dynexplore.engine.graph.unbacked_symints import evaluate_bool
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.specialization.shape_env import dynamic_number, is_computed_from_sizes, specialized_size
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary, binary_rule, unary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_EXACT_AS_FLOAT = 2**53
"""Up to this bound, each int is exactly representable as a float."""

_BITS = 63
"""torch's powers of integers are infinite from 2**63 on (torch/utils/_sympy/functions.py, safe_pow)."""

_LONGEST_SHIFT = 1024

_PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class SymbolicNumberVariable(VariableTracker):
    """A number that the graph computes: `value` is a SymInt, SymFloat or SymBool."""

    kind = "symbolic number"

    def __init__(self, node: torch.fx.Node, value: Any, source: Source | None = None) -> None:
        self.node = node
        self.value = value
        self.source = source

    def python_type(self) -> type[Any]:
        return _PYTHON_TYPES[type(self.value)]

    def varying_key(self) -> tuple[object, Source] | None:
        varies = self.source is not None and self.source.guardable and isinstance(self.value, torch.SymInt) and _have_hints(self)
        return (self.value.node.hint, self.source) if varies and self.source is not None else None

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        truth = evaluate_bool(self.value)
        return self if truth is None else truth

    def hash_key(self, ctx: TraceContext) -> object:
        return self.specialize()

    def specialize(self) -> Any:
        """The number in this call, guarded from now on. A float expression is specialized by specializing its inputs."""
        if isinstance(self.value, torch.SymFloat) and _have_hints(self):
            specialize_float(self.value)
            return self.value.node.hint
        return self.python_type()(self.value)

    def same_object(self, other: VariableTracker) -> bool | None:
        if self is other:
            return True
        return False if other.python_type() not in (int, float, bool) else None

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return ConstantVariable(self.specialize()).get_attribute(ctx, name)

    def as_proxy(self) -> Any:
        return self.node

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_output(self.node)

    def text(self) -> str:
        return str(self.value)

    # -- for those who watch

    def unguarded_value(self, depth: int = 8) -> Any:
        return self.node

    def identity(self) -> object | None:
        return self.node


def is_short(number: float) -> bool:
    """Whether torch's expressions may contain the number: not one that has more digits than Python converts to text."""
    return not isinstance(number, int) or number.bit_length() <= _LONGEST


_LONGEST = 4096


def symbolic_input(ctx: TraceContext, value: float, source: Source) -> SymbolicNumberVariable:
    """The symbol of a number that is a graph input: an int or a float."""
    symbolic = ctx.values.symbolic_inputs.get(source)
    if symbolic is None:
        ctx.guard(source, "TYPE_MATCH", type(value))
        symbol = dynamic_number(ctx.graph, value, source)
        node = ctx.graph.placeholder(source.text(), source, value, symbol)
        symbolic = ctx.values.symbolic_inputs[source] = SymbolicNumberVariable(node, symbol, source)
        ctx.specializer.note_symbol(source.text(), symbol)
    assert isinstance(symbolic, SymbolicNumberVariable)
    return symbolic


def wrap_number(ctx: TraceContext, node: torch.fx.Node, value: Any) -> VariableTracker:
    """The tracker of a symbolic result; a constant if its expression is one."""
    constant = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
    return ConstantVariable(constant) if constant is not None else SymbolicNumberVariable(node, value)


def _operate(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    written = symbol  # which a TypeError names
    if symbol in BINARY and symbol.endswith("="):
        symbol = symbol[:-1]
    if symbol in _OF_INTEGERS and float in (left.python_type(), right.python_type()):
        return _node(ctx, written, left, right)  # raises, whatever the number
    if symbol in ("&", "|", "^") and left.python_type() is bool and right.python_type() is bool and not _have_hints(left, right):
        return _node(ctx, symbol, left, right)  # which yields a truth value again
    left, right = _bool_as_int(ctx, left), _bool_as_int(ctx, right)
    if not (isinstance(left, SymbolicNumberVariable) or isinstance(right, SymbolicNumberVariable)):
        return _with_constants(ctx, written, left, right)
    if not (_is_reasoned_about(symbol, left) and _is_reasoned_about(symbol, right)):
        return _with_constants(ctx, written, left, right)
    if _is_whole_constant(left) and _is_whole_constant(right):
        return _with_constants(ctx, written, left, right)
    if _have_hints(left, right) and not _agrees_with_python(ctx, symbol, left, right):
        return _with_constants(ctx, written, left, right)
    left, right = _as_number(left, right), _as_number(right, left)
    if symbol in ("<<", ">>"):
        return _shift(ctx, symbol, left, right)
    return _power(ctx, left, right) if symbol == "**" else _node(ctx, symbol, left, right)


_OF_INTEGERS = frozenset({"<<", ">>", "&", "|", "^"})


def _bool_as_int(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """A symbolic truth value as the number that arithmetic expects: sympy's false is not equal to 0 and cannot be a summand."""
    if not isinstance(value, SymbolicNumberVariable) or not isinstance(value.value, torch.SymBool):
        return value
    if _have_hints(value):
        return ConstantVariable(value.specialize())
    return ctx.operation("call_function", torch.sym_ite, [value, ConstantVariable(1), ConstantVariable(0)], {})


def _is_whole_constant(value: VariableTracker) -> bool:
    """Whether its expression can only be one integer. Python computes with two of these: sympy treats large results as infinite."""
    if isinstance(value, SymbolicNumberVariable):
        return isinstance(value.value, torch.SymInt) and specialized_size(value.value) is not None
    return isinstance(value, ConstantVariable) and isinstance(value.value, int)


def _have_hints(*operands: VariableTracker) -> bool:
    """Whether all numbers have a hint in this call; unbacked symbols have none."""
    return all(not isinstance(operand, SymbolicNumberVariable) or operand.value.node.has_hint() for operand in operands)


def _agrees_with_python(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether ShapeEnv computes the same as Python: its numbers are exact, without signed zero, infinity or nan.

    Its range of `a & b` is wrong if both may be negative (torch/utils/_sympy/value_ranges.py, bitwise_and).
    """
    if float not in (left.python_type(), right.python_type()):
        return symbol != "&" or not (_compared_to_zero(ctx, left, "<") or _compared_to_zero(ctx, right, "<"))
    if symbol in ("%", "//") or not (_is_exact_as_float(left) and _is_exact_as_float(right)) or _is_combined(symbol, left, right):
        return False
    return symbol in COMPARE or _is_plain_float(BINARY[symbol], _number(left), _number(right))


def _is_combined(symbol: str, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether sympy would combine terms of both numbers. Floats are rounded after each step: `(s + 1e18) - 1e18` is not `s`."""
    first, second = _float_expression(left), _float_expression(right)
    if symbol == "*":
        return _parts(sympy.Mul, first, second) != _parts(sympy.Mul, first * second)
    if symbol in ("+", "-") or (symbol in COMPARE and first != second):
        return _parts(sympy.Add, first, second) != _parts(sympy.Add, first + second if symbol == "+" else first - second)
    return False  # sympy keeps a division as one symbol


def _float_expression(operand: VariableTracker) -> Any:
    """The expression that sympy simplifies, as a float; bools and infinities are atoms that it leaves alone."""
    if isinstance(operand, SymbolicNumberVariable):
        expression, kind = operand.value.node.expr, operand.python_type()
        return expression if kind is float else ToFloat(expression) if kind is int else sympy.Dummy()
    constant = float(operand.as_constant())
    return sympy.Float(constant) if math.isfinite(constant) else sympy.Dummy()


def _parts(operator: Any, *numbers: Any) -> int:
    """The number of terms or factors of an expression; 0 and 1 have none."""
    parts = [part for number in numbers for part in operator.make_args(number)]
    return sum(not (part.is_number and float(part) == float(operator.identity)) for part in parts)


def _is_exact_as_float(operand: VariableTracker) -> bool:
    """Whether a number is exactly representable as a float; guarded for a dynamic one."""
    if operand.python_type() is not int or (isinstance(operand, SymbolicNumberVariable) and is_computed_from_sizes(operand.value)):
        return True
    number = operand.value if isinstance(operand, SymbolicNumberVariable) else operand.as_constant()
    return bool(number <= _EXACT_AS_FLOAT) and bool(number >= -_EXACT_AS_FLOAT)


def _number(operand: VariableTracker) -> Any:
    """The number in this call, without a guard."""
    return operand.value.node.hint if isinstance(operand, SymbolicNumberVariable) else operand.as_constant()


def _is_plain_float(operator: Callable[..., Any], left: Any, right: Any) -> bool:
    try:
        result = operator(left, right)
    except (ArithmeticError, TypeError):
        return False
    return not isinstance(result, float) or (math.isfinite(result) and result != 0)


def _node(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    return ctx.operation("call_function", BINARY.get(symbol) or COMPARE[symbol], [left, right], {})


def _is_reasoned_about(symbol: str, value: VariableTracker) -> bool:
    """Whether ShapeEnv reasons correctly with this operand: never with nan, with infinities only in comparisons.

    It supports remainders of integers only (torch/utils/_sympy/value_ranges.py, mod): the range of `s0 % 0.5` is empty.
    """
    if not isinstance(value, ConstantVariable):
        return True
    constant = value.value
    if not isinstance(constant, (int, float)):
        return False  # `n == None`, `"%d" % n`, `"ab" * n`
    if not is_short(constant):
        return False
    return not isinstance(constant, float) or math.isfinite(constant) or (symbol in COMPARE and not math.isnan(constant))


def _as_number(value: VariableTracker, other: VariableTracker) -> VariableTracker:
    """Convert a constant True next to a number to 1: sympy's true is not a number."""
    is_bool = isinstance(value, ConstantVariable) and value.python_type() is bool
    return ConstantVariable(int(value.as_constant())) if is_bool and other.python_type() is not bool else value


def _power(ctx: TraceContext, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """`left ** right`: ShapeEnv has no power of a negative constant and no complex power, and evaluates `0 ** n` to 0."""
    if isinstance(left, ConstantVariable) and left.value == 0:
        return _power_of_zero(ctx, left, right)
    if _have_hints(left, right) and _is_infinite_power(_number(left), _number(right)):
        return _with_constants(ctx, "**", left, right)
    negative = _compared_to_zero(ctx, left, "<")
    if isinstance(left, ConstantVariable) and negative and right.python_type() is int:
        downwards = _compared_to_zero(ctx, right, "<")
        if downwards is False:
            return _alternating(ctx, left, right)
        return _with_constants(ctx, "**", left, right) if downwards else _node(ctx, "**", left, right)
    whole = right.python_type() is not float or (isinstance(right, ConstantVariable) and right.value.is_integer())
    return _node(ctx, "**", left, right) if whole or negative is not True else _with_constants(ctx, "**", left, right)


def _is_infinite_power(base: Any, exponent: Any) -> bool:
    """Whether sympy takes this power of integers for infinite as soon as both are known (the program compares `n` for equality)."""
    are_whole = isinstance(base, int) and isinstance(exponent, int)
    return are_whole and exponent > 0 and abs(base) > 1 and (exponent >= _BITS or abs(base) ** exponent > sys.maxsize)


def _power_of_zero(ctx: TraceContext, zero: ConstantVariable, exponent: VariableTracker) -> VariableTracker:
    """`0 ** n`: 1 if n is 0, and 0 for any other natural number."""
    is_natural = type(zero.value) is int and exponent.python_type() is int and _compared_to_zero(ctx, exponent, "<") is False
    is_zero = _compared_to_zero(ctx, exponent, "==") if is_natural else None
    return _with_constants(ctx, "**", zero, exponent) if is_zero is None else ConstantVariable(int(is_zero))


def _alternating(ctx: TraceContext, base: ConstantVariable, exponent: VariableTracker) -> VariableTracker:
    """`(-2) ** n` for a natural n, as `2 ** n * (1 - n % 2 * 2)`."""
    parity = binary(ctx, "%", exponent, ConstantVariable(2))
    sign = binary(ctx, "-", ConstantVariable(1), binary(ctx, "*", parity, ConstantVariable(2)))
    size = -base.value
    return sign if size == 1 and type(size) is int else binary(ctx, "*", binary(ctx, "**", ConstantVariable(size), exponent), sign)


def _compared_to_zero(ctx: TraceContext, value: VariableTracker, symbol: str) -> bool | None:
    """How a number compares to 0; None if that depends on graph data."""
    live = value.value  # type: ignore[attr-defined]
    return evaluate_bool(COMPARE[symbol](live, 0))


def _shift(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """`left << right`. A shift by a symbol becomes a product with a power of 2, because torch 2.11 has no symbolic shift; so does
    one by 63 bits or more, because sympy's own power of 2 is then infinite.
    """
    negative = _compared_to_zero(ctx, right, "<")
    if negative:
        return _with_constants(ctx, symbol, left, right)  # raises
    if isinstance(right, ConstantVariable):
        if right.as_constant() > _LONGEST_SHIFT:
            return _with_constants(ctx, symbol, left, right)
        if right.as_constant() < _BITS:
            return _node(ctx, symbol, left, right)
    elif negative is None:
        return _node(ctx, symbol, left, right)
    return binary(ctx, "*" if symbol == "<<" else "//", left, binary(ctx, "**", ConstantVariable(2), right))


@binary_rule(SymbolicNumberVariable, SymbolicNumberVariable, rank=30)
def _symbol_with_symbol(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    return _operate(ctx, symbol, left, right)


@binary_rule(SymbolicNumberVariable, ConstantVariable, rank=30)
def _symbol_with_constant(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    return _operate(ctx, symbol, left, right)


@binary_rule(ConstantVariable, SymbolicNumberVariable, rank=30)
def _constant_with_symbol(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    return _operate(ctx, symbol, left, right)


def _with_constants(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """Operations without a symbolic form: the numbers are specialized."""
    constants = [v.specialize() if isinstance(v, SymbolicNumberVariable) else v.as_constant() for v in (left, right)]
    return computed(ctx, BINARY.get(symbol) or COMPARE[symbol], *constants)


@unary_rule(SymbolicNumberVariable, rank=30)
def _unary(ctx: TraceContext, symbol: str, operand: SymbolicNumberVariable) -> VariableTracker:
    if symbol == "not":
        truth = operand.truth(ctx)
        if isinstance(truth, bool):
            return ConstantVariable(not truth)
        return ctx.operation("call_function", torch.sym_not, [operand], {})
    number = _bool_as_int(ctx, operand)
    if not isinstance(number, SymbolicNumberVariable):
        return computed(ctx, UNARY[symbol], number.as_constant())
    if symbol == "invert" and number.python_type() is int:
        return binary(ctx, "-", ConstantVariable(-1), number)  # a SymInt has no `~`
    return ctx.operation("call_function", UNARY[symbol], [number], {})
