"""Subscripts of tensors, `x[i, :, t]` and `x[i] = v`: a table that defines how each kind of item is captured.

The idea: torch's `__getitem__` calls `__index__` of each index. A constant has one. For a symbolic number it would specialize, so
`x[:, i]` is captured as `torch.select(x, 1, i)[:]`, which is what torch does for a tensor with integer and slice indices
(`applySelect`, torch/csrc/autograd/python_variable_indexing.cpp). An integer in a tensor is known only at run time
(data_dependent_indexing.py).

Subscripts of tensor subclasses, and under a TorchFunctionMode, are captured as written, because user code may receive them.

In: a tensor's tracker, a subscript, the value assigned. Out: nodes of the graph. PyTorch's counterpart: `method___getitem__` in
torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.aliasing.lower_indexing import dimension_of_each
from dynexplore.engine.records import record
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.data_dependent_indexing import (
    PLAIN,
    TensorTracker,
    data_dependent_getitem,
    data_dependent_setitem,
    fits_any_slice,
    is_data_dependent_int,
    is_data_dependent_slice,
    items_of,
)

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class Capture(enum.IntEnum):
    """How a subscript is captured; the greatest of its items' captures applies."""

    AS_WRITTEN = 0
    SELECT = 1
    """One `torch.select` for each symbol, then the rest of the subscript."""
    DATA_DEPENDENT = 2
    """As written; fake tensors use row 0 for any row."""
    DATA_DEPENDENT_SLICE = 3
    """The same, and fake tensors use the whole dimension for the slice."""


@record()
class ItemKind:
    """A kind of subscript item: how many dimensions it consumes (-1: `...`; None: only torch knows), and how it is captured."""

    name: str
    matches: Callable[[TraceContext, VariableTracker], bool]
    takes: int | None = 1
    read: Capture = Capture.AS_WRITTEN
    write: Capture = Capture.AS_WRITTEN


def _holds(item: VariableTracker, kind: type[Any] | None) -> bool:
    """Whether it is a constant of exactly this class; None: the constant None."""
    is_constant = isinstance(item, ConstantVariable) and item.is_constant()  # a drawn number is no constant
    return is_constant and type(item.as_constant()) is (type(None) if kind is None else kind)


def _holds_integers(item: VariableTracker) -> bool:
    """Whether it is a tensor of integer indices, each of which selects a row."""
    fake = getattr(item, "fake", None)
    return isinstance(fake, torch.Tensor) and fake.dim() > 0 and fake.dtype in (torch.int32, torch.int64)


def _is_symbolic_int(ctx: TraceContext, item: VariableTracker) -> bool:
    """Whether it is an int that is symbolic in the graph; a dynamic number becomes one."""
    if item.kind not in ("symbolic number", "changing value"):
        return False
    varying = item.varying_key()
    if varying is not None:
        ctx.specializer.note_change(varying[1], "index")  # so it is a graph input from the first compilation on
    node = item.as_proxy()
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("example_value"), torch.SymInt)


_DATA, _SLICE, _SELECT = Capture.DATA_DEPENDENT, Capture.DATA_DEPENDENT_SLICE, Capture.SELECT

ITEM_KINDS = (
    ItemKind("data-dependent int", lambda ctx, item: is_data_dependent_int(item), 1, _DATA, _DATA),
    ItemKind("data-dependent slice", lambda ctx, item: is_data_dependent_slice(item), 1, write=_SLICE),
    ItemKind("slice", lambda ctx, item: isinstance(item, SliceVariable), 1),
    ItemKind("symbolic int", _is_symbolic_int, 1, _SELECT, _SELECT),
    ItemKind("tensor of integers", lambda ctx, item: _holds_integers(item), 1),
    ItemKind("int", lambda ctx, item: _holds(item, int), 1),
    ItemKind("None", lambda ctx, item: _holds(item, None), 0),
    ItemKind("...", lambda ctx, item: _holds(item, type(Ellipsis)), -1),
    ItemKind("other", lambda ctx, item: True, None),
)
"""The kinds of items; the first match applies."""


def kinds_of(ctx: TraceContext, items: Sequence[VariableTracker]) -> list[ItemKind]:
    """The kind of each item in a subscript."""
    return [next(kind for kind in ITEM_KINDS if kind.matches(ctx, item)) for item in items]


def lower_getitem(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker) -> VariableTracker:
    """Lower `tensor[key]` to nodes."""
    items = items_of(key)
    kinds = _kinds_by_item(ctx, tensor, items)
    capture = _capture([kind.read for kind in kinds])
    if capture is Capture.DATA_DEPENDENT:
        return data_dependent_getitem(ctx, tensor, key)
    part: Any = tensor
    rest: VariableTracker | None = key
    if capture is Capture.SELECT:
        part, rest = _select_symbols(ctx, tensor, key, items, kinds)
    return part if rest is None else ctx.operation("call_function", operator.getitem, [part, rest], {})


def lower_setitem(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker) -> None:
    """Lower `tensor[key] = value` to nodes."""
    items = items_of(key)
    kinds = _kinds_by_item(ctx, tensor, items)
    captures = [kind.write for kind in kinds]
    if not fits_any_slice(items, value):
        captures = [capture for capture in captures if capture is not Capture.DATA_DEPENDENT_SLICE]
    capture = _capture(captures)
    if capture >= Capture.DATA_DEPENDENT:
        is_slice = capture is Capture.DATA_DEPENDENT_SLICE
        data_dependent_setitem(ctx, tensor, key, value, slices_are_whole=is_slice)
        return
    part, rest = _select_symbols(ctx, tensor, key, items, kinds) if capture is Capture.SELECT else (tensor, key)
    ctx.operation("call_function", operator.setitem, [part, rest or ConstantVariable(Ellipsis), value], {})


def _kinds_by_item(ctx: TraceContext, tensor: TensorTracker, items: Sequence[VariableTracker]) -> list[ItemKind]:
    """The kinds of the items; none if the subscript dispatches to user code, which receives it as written."""
    is_plain = tensor.python_type() in PLAIN and not ctx.function_modes.may_dispatch
    return kinds_of(ctx, items) if is_plain else []


def _capture(captures: Sequence[Capture]) -> Capture:
    """How a subscript with these items is captured; torch.func transforms forbid reading a tensor."""
    capture = max(captures, default=Capture.AS_WRITTEN)
    reads_data = capture >= Capture.DATA_DEPENDENT
    is_transformed = reads_data and torch._C._functorch.peek_interpreter_stack() is not None
    return Capture.AS_WRITTEN if is_transformed else capture


def _select_symbols(
    ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, items: Sequence[VariableTracker], kinds: Sequence[ItemKind]
) -> tuple[Any, VariableTracker | None]:
    """The tensor after selecting the symbolic indices, and the rest of the subscript (None: nothing is left). Tensor and
    subscript are returned unchanged if the dimensions are not known: an item is no number, slice, None or (at most one)
    `...`.
    """
    dims = dimension_of_each([kind.takes for kind in kinds], tensor.fake.dim())
    if dims is None:
        return tensor, key
    symbolic = [position for position, kind in enumerate(kinds) if kind.read is Capture.SELECT]
    part: Any = tensor
    for position in reversed(symbolic):
        arguments = [part, ConstantVariable(dims[position]), items[position]]
        part = ctx.operation("call_function", torch.select, arguments, {})
    rest = [item for position, item in enumerate(items) if position not in symbolic]
    return part, TupleVariable(rest) if rest else None
