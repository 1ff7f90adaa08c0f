"""Data-dependent indexing: an integer in a tensor as index, `weights[t]`, `mask[:, t] = 1`; `select` and `narrow`; slice bounds.

Eager reads the integer (`item`) and selects, so that the result is a view (`applySelect`,
torch/csrc/autograd/python_variable_indexing.cpp). Shape and dtype are those of any row, so a graph can do without the integer: the
node is the program's own subscript, whatever the backend, and the fake values take row 0 for any row. Backends built on AOTAutograd
get another form from a pass after capture (engine/aliasing/lowerings.py).

`x.select(1, t)` is `x[:, t]`. `x.narrow(1, t, 3)` takes as many rows wherever it begins.

A write to a slice whose bounds are in tensors, `mask[i, lengths[i]:] = 0`, as masks of padded sequences are made, writes a number
of elements that depends on data. But one number fits a slice of any length, so the graph can do without the bounds: fake values
take the whole dimension for the slice.

In: a tensor's tracker and a subscript. Out: the node of the subscript.
torch/_dynamo captures the subscript, and AOTAutograd fails, so that the frame is skipped; at a slice it breaks the graph.
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
    """What is asked of a tensor's tracker."""

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
    """Whether an item of a subscript is a tensor whose integer torch reads."""
    fake = getattr(item, "fake", None)
    is_plain = isinstance(fake, torch.Tensor) and item.python_type() in PLAIN
    return is_plain and fake is not None and fake.dim() == 0 and fake.dtype in _INTEGERS


def is_data_dependent_slice(item: VariableTracker) -> bool:
    """Whether an item of a subscript is a slice that begins or ends where a tensor says."""
    return isinstance(item, SliceVariable) and any(map(is_data_dependent_int, item.parts[:2]))


def fits_any_slice(items: Sequence[VariableTracker], value: VariableTracker) -> bool:
    """Whether a value can be assigned to slices of any length: it is one number, and all slices have a step of one."""
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
    """Whether torch reads an index from a tensor, and nobody else is asked; transforms of torch.func refuse to read it."""
    is_plain = tensor.python_type() in PLAIN and not ctx.function_modes.may_dispatch
    return is_plain and any(map(is_data_dependent_int, items_of(index))) and torch._C._functorch.peek_interpreter_stack() is None


def data_dependent_getitem(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker) -> VariableTracker:
    """`tensor[key]` with an integer in a tensor."""
    with ctx.graph.any_row_is_the_first(tensor.fake):
        return ctx.operation("call_function", operator.getitem, [tensor, key], {})


def data_dependent_setitem(
    ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker, slices_are_whole: bool = False
) -> None:
    """`tensor[key] = value` with an integer in a tensor. `slices_are_whole`: the value fits a slice of any length."""
    with ctx.graph.any_row_is_the_first(tensor.fake, slices_are_whole=slices_are_whole):
        ctx.operation("call_function", operator.setitem, [tensor, key, value], {})


@method(torch.Tensor, "select")
def _select(
    ctx: TraceContext, tensor: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """With a tensor as the index it is a subscript."""
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
    """With a tensor as the start, fake values take the first rows for any rows."""
    dim, start, length = _named(args, kwargs, "dim", "start", "length")
    if start is None or length is None or not _reads_integer(ctx, tensor, start):
        return ctx.operation("call_method", "narrow", [tensor, *args], kwargs)
    with ctx.graph.any_row_is_the_first(tensor.fake, place=2):
        return ctx.operation("call_method", "narrow", [tensor, dim, start, length], {})


def _named(
    args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker], *names: str
) -> list[VariableTracker | None]:
    """The arguments of a method by their names, None for one that is not there; all None where there are others."""
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    fits = len(args) + len(kwargs) == len(bound) and bound.keys() <= set(names)
    return [bound.get(name) if fits else None for name in names]


def _dimension(tensor: TensorTracker, dim: VariableTracker | None) -> int | None:
    """The dimension, from 0 on; None where it is no constant or not there."""
    if not isinstance(dim, ConstantVariable) or type(dim.as_constant()) is not int:
        return None
    number, ndim = dim.as_constant(), tensor.fake.dim()
    return number % ndim if -ndim <= number < ndim else None
