"""Specialization: the Python value that a tracker has in this call (a number, a truth value, an equality), or a graph break.

The idea: containers and builtins need concrete values to proceed: which index, is it true, are these two equal. A constant has one;
a symbolic number is specialized to its value in this call, which adds a guard; a tensor has none before the graph runs.

In: trackers. Out: int, bool, or another Python constant. PyTorch's counterpart: `evaluate_expr` of `SymNodeVariable`
(torch/_dynamo/variables/tensor.py) and `specialize_symnode` (utils.py).
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.scalars.constant import run_now
from dynexplore.engine.variables.scalars.identity import identical
from dynexplore.engine.variables.scalars.special_results import checked_result
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def is_tensor(value: VariableTracker) -> bool:
    """Whether the value is a tensor, subclasses included."""
    python_type = type_of(value)
    return python_type is not None and issubclass(python_type, torch.Tensor)


def specialize(value: VariableTracker) -> Any:
    """The constant of a tracker; a symbolic number is specialized. Raises NotConstant."""
    return value.specialize() if isinstance(value, SymbolicNumberVariable) else value.as_constant()


def is_specializable(value: VariableTracker) -> bool:
    """Whether `specialize` succeeds."""
    return isinstance(value, SymbolicNumberVariable) or value.is_constant()


def live_nest(value: VariableTracker) -> Any:
    """The live object of a tracker, or the tuple or list of its items' live objects (`Callable[[int], str]`).

    Raises NotConstant.
    """
    if value.is_constant():
        return value.as_constant()
    if (kind := type_of(value)) in (tuple, list):
        return kind(live_nest(item) for item in getattr(value, "items", ()))
    return value.live_value()


def fixed_nest(ctx: TraceContext, value: VariableTracker) -> Any:
    """`live_nest` of what the next call has to have as well: an object that is no class is guarded by identity.

    Raises NotConstant for an argument of the frame, too: a TypeVar that was made before a graph break is another one in each call.
    """
    if not value.is_constant() and (kind := type_of(value)) in (tuple, list):
        return kind(fixed_nest(ctx, item) for item in getattr(value, "items", ()))
    live = live_nest(value)
    if value.source is not None and not value.is_constant() and not isinstance(live, type):
        if isinstance(value.source.root(), LocalSource):
            raise NotConstant(value)
        ctx.guard(value.source, "ID_MATCH", Identity(live, keep=False))
    return live


def specialize_bool(ctx: TraceContext, value: VariableTracker, kind: str = "DX105", **facts: object) -> bool:
    """bool(value), or a graph break if it depends on graph data."""
    truth = value.truth(ctx)
    if isinstance(truth, bool):
        return truth
    ctx.break_graph(kind, **facts)


def specialize_index(ctx: TraceContext, value: VariableTracker, question: str) -> int:
    """operator.index(value), as Python evaluates an index, a length or a count."""
    try:
        return run_now(ctx, operator.index, specialize(value))  # type: ignore[no-any-return]
    except NotConstant:
        pass
    if is_tensor(value):
        ctx.break_graph("DX108", question=question)
    python_type = type_of(value)
    if python_type is None:
        ctx.break_graph("DX302", question=question, type=value.type_name())
    if not defines(python_type, "__index__"):
        ctx.raise_exception(TypeError, f"{name_in_messages(python_type)!r} object cannot be interpreted as an integer")
    if issubclass(python_type, int):  # it is an index itself (Objects/abstract.c, _PyNumber_Index)
        number = value.method_of(ctx, int, "__index__").call(ctx, (), {})
    else:
        number = checked_result(ctx, int, python_type, "__index__", value.call_method(ctx, "__index__", (), {}))
    return run_now(ctx, operator.index, specialize(number))  # type: ignore[no-any-return]


def fitting_index(ctx: TraceContext, value: VariableTracker, question: str, error: type[Exception]) -> int:
    """The same for a C integer; one that is too large raises `error`, whose message names the value."""
    index = specialize_index(ctx, value, question)
    if not -sys.maxsize - 1 <= index <= sys.maxsize:
        ctx.raise_exception(error, f"cannot fit {value.python_type().__name__!r} into an index-sized integer")
    return index


def equal(ctx: TraceContext, left: VariableTracker, right: VariableTracker) -> bool:
    """`left is right or left == right`: how containers compare items."""
    if _is_same_object(ctx, left, right):
        return True
    if (is_tensor(left) and _never_equals_a_tensor(right)) or (is_tensor(right) and _never_equals_a_tensor(left)):
        return False
    if is_tensor(left) or is_tensor(right):
        ctx.break_graph("DX111", left=left.type_name(), right=right.type_name())
    return specialize_bool(ctx, compare(ctx, "==", left, right), "DX111", left=left.type_name(), right=right.type_name())


def _is_same_object(ctx: TraceContext, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Whether two values are the same object; for equal constants that matters only if one is not equal to itself (nan)."""
    if left.is_constant() and right.is_constant() and left.same_object(right) and left.as_constant() == right.as_constant():
        return True
    return identical(ctx, left, right)


def _never_equals_a_tensor(value: VariableTracker) -> bool:
    """Whether `tensor == value` is False because torch cannot compare with values of this type."""
    if value.is_constant():
        return not isinstance(value.as_constant(), (int, float, complex))
    return type_of(value) in (list, tuple, dict, set, frozenset)
