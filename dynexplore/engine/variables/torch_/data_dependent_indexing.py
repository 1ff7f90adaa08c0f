"""Data-dependent indexing: a tensor as an integer index or slice bound: `weights[t]`, `mask[:, t] = 1`, `select`, `narrow`.

The idea: eager reads the integer (`item`) and selects, so the result is a view (`applySelect`,
torch/csrc/autograd/python_variable_indexing.cpp). Shape and dtype are the same for any row, so a graph needs no integer: the node
is the program's own subscript, whatever the backend, and its fake tensor is computed with row 0. For backends on AOTAutograd, a
pass after capture lowers it (engine/aliasing/lower_indexing.py). `x.select(1, t)` is `x[:, t]`; `x.narrow(1, t, 3)` has the same
size for any start.

A write to a slice with tensor bounds, `mask[i, lengths[i]:] = 0`, as in masks of padded sequences, writes a data-dependent number
of elements. But a scalar can be assigned to a slice of any length, so the graph needs no bounds: fake tensors use the whole
dimension.

In: a tensor's tracker and a subscript. Out: the node of the subscript. PyTorch's counterpart: `method___getitem__` in
torch/_dynamo/variables/tensor.py captures the subscript, on which AOTAutograd then fails; a slice breaks the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class TensorTracker(Protocol):
    """The part of a tensor's tracker that this file uses."""

    fake: torch.Tensor

    def python_type(self) -> type[Any]:
        """The tensor's class."""

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """A subscript of it."""


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
PLAIN = (torch.Tensor, torch.nn.Parameter)
NUMBERS = (bool, int, float, complex)


def items_of(key: VariableTracker) -> Sequence[VariableTracker]:
    """The items of a subscript."""
    return key.items if type(key) is TupleVariable else [key]


def is_data_dependent_int(item: VariableTracker) -> bool:
    """Whether an item of a subscript is a tensor from which torch reads an integer."""
    fake = getattr(item, "fake", None)
    is_plain = isinstance(fake, torch.Tensor) and item.python_type() in PLAIN
    return is_plain and fake is not None and fake.dim() == 0 and fake.dtype in _INTEGERS


def is_data_dependent_slice(item: VariableTracker) -> bool:
    """Whether an item of a subscript is a slice with a tensor as its start or stop."""
    return isinstance(item, SliceVariable) and any(map(is_data_dependent_int, item.parts[:2]))


def fits_any_slice(items: Sequence[VariableTracker], value: VariableTracker) -> bool:
    """Whether a value can be assigned to slices of any length: it is a scalar, and all slices have step one."""
    steps = [item.parts[2] for item in items if isinstance(item, SliceVariable)]
    return _is_one_value(value) and all(map(_is_step_of_one, steps))


def _is_one_value(value: VariableTracker) -> bool:
    if isinstance(value, ConstantVariable):
        return value.python_type() in NUMBERS
    fake = getattr(value, "fake", None)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and value.python_type() in PLAIN


def _is_step_of_one(step: VariableTracker) -> bool:
    return isinstance(step, ConstantVariable) and step.as_constant() in (None, 1)


def _reads_integer(ctx: TraceContext, tensor: TensorTracker, index: VariableTracker) -> bool:
    """Whether torch itself reads an index from a tensor, without `__torch_function__` dispatch
    or a torch.func transform (which forbids it).
    """
    is_plain = tensor.python_type() in PLAIN and not ctx.function_modes.may_dispatch
    return is_plain and any(map(is_data_dependent_int, items_of(index))) and torch._C._functorch.peek_interpreter_stack() is None


def data_dependent_getitem(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker) -> VariableTracker:
    """`tensor[key]` with a tensor as an integer index."""
    with ctx.graph.integer_tensors_index_row_zero(tensor.fake):
        return ctx.operation("call_function", operator.getitem, [tensor, key], {})


def data_dependent_setitem(
    ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker, slices_are_whole: bool = False
) -> None:
    """`tensor[key] = value` with a tensor as an integer index. `slices_are_whole`: the value fits a slice of any length."""
    with ctx.graph.integer_tensors_index_row_zero(tensor.fake, slices_are_whole=slices_are_whole):
        ctx.operation("call_function", operator.setitem, [tensor, key, value], {})


@method(torch.Tensor, "select")
def _select(
    ctx: TraceContext, tensor: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`select` with a tensor as the index is lowered to a subscript."""
    dim, index = _named(args, kwargs, "dim", "index")
    position = _dimension(tensor, dim)
    if position is None or index is None or not _reads_integer(ctx, tensor, index):
        return ctx.operation("call_method", "select", [tensor, *args], kwargs)
    nothing = ConstantVariable(None)
    whole = [SliceVariable(nothing, nothing, nothing) for _ in range(position)]
    row: VariableTracker = tensor.get_item(ctx, TupleVariable([*whole, index]))
    return row


@method(torch.Tensor, "narrow")
def _narrow(
    ctx: TraceContext, tensor: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`narrow` with a tensor as the start: fake tensors use start 0."""
    dim, start, length = _named(args, kwargs, "dim", "start", "length")
    if start is None or length is None or not _reads_integer(ctx, tensor, start):
        return ctx.operation("call_method", "narrow", [tensor, *args], kwargs)
    with ctx.graph.integer_tensors_index_row_zero(tensor.fake, argument_index=2):
        return ctx.operation("call_method", "narrow", [tensor, dim, start, length], {})


def _named(
    args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker], *names: str
) -> list[VariableTracker | None]:
    """The arguments of a method by name, None for one that is missing; all None if there are unexpected arguments."""
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    fits = len(args) + len(kwargs) == len(bound) and bound.keys() <= set(names)
    return [bound.get(name) if fits else None for name in names]


def _dimension(tensor: TensorTracker, dim: VariableTracker | None) -> int | None:
    """The dimension as a non-negative integer; None if it is not constant or missing."""
    if not isinstance(dim, ConstantVariable) or type(dim.as_constant()) is not int:
        return None
    number, ndim = dim.as_constant(), tensor.fake.dim()
    return number % ndim if -ndim <= number < ndim else None
