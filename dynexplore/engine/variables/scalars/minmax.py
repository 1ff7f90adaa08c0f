"""`max` and `min` in the graph: of single-element tensors, and of symbolic numbers.

The idea: Python compares and returns one of its arguments, and which one depends on graph data. Computations with the result do not
depend on which argument it was, so the graph uses torch.clamp or torch.maximum instead, as Dynamo does. But the result *is* one of
the arguments: if that is observable (it leaves the traced code, or is mutated in place) the graph breaks.

For sizes (`min(x.shape[0], 512)`) the graph uses torch.sym_min, so that one graph serves both sides of the limit.

In: trackers of floating-point tensors with one element, or of symbolic numbers; some may be constants. Out: a tensor that may only
be computed with, or a symbolic number. PyTorch's counterpart: `_call_min_max_binary` in torch/_dynamo/variables/builtin.py, without
the check for observable identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.operators import BINARY, binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_FUNCTIONS: dict[Any, tuple[Any, str]] = {max: (torch.maximum, "min"), min: (torch.minimum, "max")}
_OF_NUMBERS: dict[Any, Any] = {max: torch.sym_max, min: torch.sym_min}


class ExtremeVariable(TensorVariable):
    """One of several tensors with one element: usable in computations, but must not leave the traced code."""

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name.endswith("_") and not name.endswith("__"):
            ctx.break_graph("DX105", operation=f"Tensor.{name}() of the result of max() or min()")
        return super().call_method(ctx, name, args, kwargs)

    def same_object(self, other: VariableTracker) -> bool | None:
        return None if isinstance(other, TensorVariable) and other is not self else super().same_object(other)

    def unguarded_value(self, depth: int = 8) -> Any:
        raise Unknown  # which of the arguments it is depends on graph data

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("one of the arguments of max() or min()")


@binary_rule(ExtremeVariable, VariableTracker, *(symbol for symbol in BINARY if symbol.endswith("=")), rank=5)
def _in_place(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    ctx.break_graph("DX105", operation=f"{symbol} on the result of max() or min()")


def is_tensor_number(value: VariableTracker) -> bool:
    """Whether a value is a floating-point tensor with one element."""
    return isinstance(value, TensorVariable) and value.fake.numel() == 1 and value.fake.is_floating_point()


def extreme_of_tensors(ctx: TraceContext, function: Any, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """`max(left, right)` or `min(left, right)` in the graph; None if that is not possible."""
    among_tensors, bound = _FUNCTIONS[function]
    if isinstance(left, TensorVariable) and isinstance(right, TensorVariable):
        alike = left.fake.dtype is right.fake.dtype and left.fake.shape == right.fake.shape
        if not alike or not is_tensor_number(left) or not is_tensor_number(right):
            return None
        extreme = ctx.operation("call_function", among_tensors, [left, right], {})
    else:
        tensor, number = (left, right) if isinstance(left, TensorVariable) else (right, left)
        plain = isinstance(number, ConstantVariable) and type(number.value) in (int, float)
        if not plain or not is_tensor_number(tensor):
            return None
        extreme = ctx.operation("call_function", torch.clamp, [tensor], {bound: number})
    assert isinstance(extreme, TensorVariable)
    return ExtremeVariable(extreme.node, extreme.fake)


def are_symbolic_numbers(items: Sequence[VariableTracker]) -> bool:
    """Whether all are symbolic numbers or constants of one type, so that the choice between two equal ones is not observable."""
    types = {type(item.value) if isinstance(item, ConstantVariable) else item.python_type() for item in items}
    return all(isinstance(item, SymbolicNumberVariable | ConstantVariable) for item in items) and types in ({int}, {float})


def extreme_of_numbers(ctx: TraceContext, function: Any, items: Sequence[VariableTracker]) -> VariableTracker:
    """`max(*items)` or `min(*items)` of symbolic numbers, as nodes of the graph."""
    best = items[0]
    for item in items[1:]:
        best = ctx.operation("call_function", _OF_NUMBERS[function], [best, item], {})
    return best
