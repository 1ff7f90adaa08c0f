"""Symbolic numbers: sizes that may vary from call to call, and what is computed from them.

The idea: with dynamic shapes a size is a `torch.SymInt` that ShapeEnv reasons about. Arithmetic on it becomes nodes
of the graph and symbolic expressions at once; when the program branches on one, ShapeEnv decides with the value at
hand and notes a guard. What only the data can tell (`x.item()` under `config.capture_scalar_outputs`) decides nothing: there
the graph breaks.

torch/_dynamo/variables/tensor.py (SymNodeVariable) does the same job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.graph.data_symbols import known_bool
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary_rule, unary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class SymbolicNumberVariable(VariableTracker):
    """A number that the graph computes: `value` is torch's SymInt, SymFloat or SymBool."""

    kind = "symbolic number"

    def __init__(self, node: torch.fx.Node, value: Any, source: Source | None = None) -> None:
        self.node = node
        self.value = value
        self.source = source

    def python_type(self) -> type[Any]:
        return _PYTHON_TYPES[type(self.value)]

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        known = known_bool(self.value)
        return self if known is None else known

    def hash_key(self, ctx: TraceContext) -> object:
        return self.specialize()

    def specialize(self) -> Any:
        """The number of this call; from now on guarded to be this one."""
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


def wrap_number(ctx: TraceContext, node: torch.fx.Node, value: Any) -> VariableTracker:
    """The tracker of a symbolic result; one that turns out to be a constant is a constant."""
    constant = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
    return ConstantVariable(constant) if constant is not None else SymbolicNumberVariable(node, value)


def _operate(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if symbol in BINARY and symbol.endswith("="):
        symbol = symbol[:-1]
    return ctx.operation("call_function", BINARY.get(symbol) or COMPARE[symbol], [left, right], {})


@binary_rule(SymbolicNumberVariable, SymbolicNumberVariable, rank=30)
def _both(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    return _operate(ctx, symbol, left, right)


@binary_rule(SymbolicNumberVariable, ConstantVariable, rank=30)
def _left(ctx: TraceContext, symbol: str, left: VariableTracker, right: ConstantVariable) -> VariableTracker:
    if not isinstance(right.value, (int, float, bool)):
        return _with_other(ctx, symbol, left, right)
    return _operate(ctx, symbol, left, right)


@binary_rule(ConstantVariable, SymbolicNumberVariable, rank=30)
def _right(ctx: TraceContext, symbol: str, left: ConstantVariable, right: VariableTracker) -> VariableTracker:
    if not isinstance(left.value, (int, float, bool)):
        return _with_other(ctx, symbol, left, right)
    return _operate(ctx, symbol, left, right)


def _with_other(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """`n == None`, `"%d" % n`, `"ab" * n`: the number is specialized."""
    constants = [ConstantVariable(v.specialize()) if isinstance(v, SymbolicNumberVariable) else v for v in (left, right)]
    from_row = BINARY.get(symbol) or COMPARE[symbol]
    try:
        return ctx.build(from_row(constants[0].as_constant(), constants[1].as_constant()), None)
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)


@unary_rule(SymbolicNumberVariable, rank=30)
def _unary(ctx: TraceContext, symbol: str, operand: SymbolicNumberVariable) -> VariableTracker:
    if symbol == "not":
        truth = operand.truth(ctx)
        if isinstance(truth, bool):
            return ConstantVariable(not truth)
        return ctx.operation("call_function", torch.sym_not, [operand], {})
    return ctx.operation("call_function", UNARY[symbol], [operand], {})
