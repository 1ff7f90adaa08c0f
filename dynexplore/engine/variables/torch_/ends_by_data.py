"""Writes to slices whose ends tensors hold: `mask[i, lengths[i]:] = 0`, as masks of padded sequences are made.

The idea: eager reads the ends (`__index__`), and how many elements it writes depends on data. But what comes of it is the tensor
that was there, and one number fits into a slice of any length. So a graph can do without the ends.

- Where graphs run as they are, the node is the program's own assignment; fake values take the whole dimension for the slice.
- A compiler would have to read the ends, too. It is given `where`, with a mask that compares each place with the ends. An end may
  be negative, or lie outside: a slice never raises.

In: a tensor's tracker, a subscript and what is assigned. Out: whether it was put into the graph.
torch/_dynamo breaks the graph there (`Tensor.item()`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.chosen_by_data import (
    NUMBERS,
    PLAIN,
    TensorTracker,
    as_values,
    assign_as_it_is,
    holds_one_integer,
    is_read_by_torch,
)
from dynexplore.engine.variables.torch_.symbolic_index import dimensions

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_NOTHING = ConstantVariable(None)
_WHOLE = SliceVariable(_NOTHING, _NOTHING, _NOTHING)
_INT64 = ConstantVariable(torch.int64)


def fills_slice(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker) -> bool:
    """Whether `tensor[key] = value` was put into the graph: one value for slices that begin or end where tensors say.

    Under transforms of torch.func, which refuse to read a tensor, it was not.
    """
    items = key.items if type(key) is TupleVariable else [key]
    ends = [end for item in items if isinstance(item, SliceVariable) for end in item.parts[:2] if holds_one_integer(end)]
    if not ends or not _is_one_value(value) or not is_read_by_torch(ctx, tensor):
        return False
    if not all(_is_step_of_one(item.parts[2]) for item in items if isinstance(item, SliceVariable)):
        return False
    if not ctx.graphs_run_as_they_are:
        return _fill_by_mask(ctx, tensor, items, ends, value)
    assign_as_it_is(ctx, tensor, key, value, slices_are_whole=True)
    return True


def _is_one_value(value: VariableTracker) -> bool:
    if isinstance(value, ConstantVariable):
        return value.python_type() in NUMBERS
    fake = getattr(value, "fake", None)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and value.python_type() in PLAIN


def _is_step_of_one(step: VariableTracker) -> bool:
    return isinstance(step, ConstantVariable) and step.as_constant() in (None, 1)


# -- for a compiler


def _fill_by_mask(
    ctx: TraceContext, tensor: TensorTracker, items: Sequence[VariableTracker], ends: Sequence[VariableTracker],
    value: VariableTracker,
) -> bool:
    fake = tensor.fake
    if fake.layout is not torch.strided or torch._debug_has_internal_overlap(fake) != 0 or _lie_elsewhere(fake, [*ends, value]):
        return False
    dims = _dimensions_left(items, fake)
    given = None if dims is None else as_values(ctx, tensor, value)
    if dims is None or given is None:
        return False
    part = tensor.get_item(ctx, TupleVariable([_WHOLE if _has_end(item) else item for item in items]))
    filled: VariableTracker | None = None
    for item, dim in zip(items, dims, strict=True):
        for end, compare in _ends(item):
            reached = _compared(ctx, part, dim, end, compare)
            filled = reached if filled is None else ctx.operation("call_function", operator.and_, [filled, reached], {})
    assert filled is not None
    new = ctx.operation("call_function", torch.where, [filled, given, part], {})
    ctx.operation("call_method", "copy_", [part, new], {})  # `masked_fill_` may lay out otherwise what it is a view of
    return True


def _lie_elsewhere(fake: torch.Tensor, others: Sequence[VariableTracker]) -> bool:
    """Whether one is on another device than the tensor: the number of a tensor on the CPU can be used anywhere."""
    devices = [other.fake.device for other in others if not isinstance(other, ConstantVariable)]  # type: ignore[attr-defined]
    return any(device not in (fake.device, torch.device("cpu")) for device in devices)


def _dimensions_left(items: Sequence[VariableTracker], fake: torch.Tensor) -> list[int] | None:
    """Where each item's dimension is in what the subscript gives; None where not all are numbers, slices and one `...`."""
    dims = dimensions(items, fake.dim())
    if dims is None:
        return None
    left, numbers = [], 0
    for item, dim in zip(items, dims, strict=True):
        left.append(dim - numbers)
        if isinstance(item, SliceVariable):
            is_known = _is_plain(item, fake.shape[dim])
        else:
            is_known = isinstance(item, ConstantVariable) and item.as_constant() is not None
            numbers += is_known and item.as_constant() is not Ellipsis
        if not is_known:
            return None
    return left


def _has_end(item: VariableTracker) -> bool:
    """Whether a tensor says where the slice begins or ends."""
    return isinstance(item, SliceVariable) and any(map(holds_one_integer, item.parts))


def _ends(item: VariableTracker) -> list[tuple[VariableTracker, Any]]:
    """The ends of a slice of which a tensor says one, each with what a place inside is compared by."""
    if not isinstance(item, SliceVariable) or not _has_end(item):
        return []
    both = zip(item.parts[:2], (operator.ge, operator.lt), strict=True)
    return [(end, compare) for end, compare in both if not end.is_constant() or end.as_constant() is not None]


def _is_plain(item: SliceVariable, size: int | torch.SymInt) -> bool:
    """Whether its ends are tensors and constants; beside a tensor a negative one asks for a size that is known."""
    constants = [end.as_constant() for end in item.parts[:2] if end.is_constant()]
    others = [end for end in item.parts[:2] if not end.is_constant()]
    is_counted = all(end is None or (type(end) is int and (end >= 0 or type(size) is int)) for end in constants)
    return all(map(holds_one_integer, others)) and is_counted


def _compared(ctx: TraceContext, part: Any, dim: int, end: VariableTracker, compare: Any) -> VariableTracker:
    """Each place of a dimension compared with an end of the slice, in a shape that fits what is written to."""
    size: int | torch.SymInt = part.fake.shape[dim]
    length = ctx.operation("call_method", "size", [part, ConstantVariable(dim)], {})
    places = ctx.operation("call_function", torch.arange, [length], {"device": ConstantVariable(part.fake.device)})
    if isinstance(end, ConstantVariable):
        counted: VariableTracker = ConstantVariable(end.as_constant() + (size if end.as_constant() < 0 else 0))
    else:
        wide = ctx.operation("call_method", "to", [end, _INT64], {})
        is_negative = ctx.operation("call_function", operator.lt, [wide, ConstantVariable(0)], {})
        from_behind = ctx.operation("call_function", operator.add, [wide, length], {})
        counted = ctx.operation("call_function", torch.where, [is_negative, from_behind, wide], {})
    reached = ctx.operation("call_function", compare, [places, counted], {})
    shape = TupleVariable([ConstantVariable(-1), *[ConstantVariable(1)] * (part.fake.dim() - dim - 1)])
    return ctx.operation("call_method", "view", [reached, shape], {})
