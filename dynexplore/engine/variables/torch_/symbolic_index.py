"""Subscripts of tensors with a number that varies: `mask[i]`, `x[:, i]`; or that a tensor holds (`chosen_by_data.py`).

The idea: torch's `__getitem__` asks an index for its number (`__index__`), and a symbol that is asked for it stands for one number
from then on. `torch.select` takes symbols. So `x[:, i]` is `torch.select(x, 1, i)[:]`: where torch subscripts a tensor with numbers
and slices, it selects as well (`applySelect`, torch/csrc/autograd/python_variable_indexing.cpp).

In: a tensor's tracker and a subscript. Out: what the symbols select, and what is left of the subscript.
torch/_dynamo/variables/tensor.py (method___getitem__) does the same job for `x[i]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.chosen_by_data import (
    PLAIN,
    TensorTracker,
    copied_row,
    copy_is_as_good,
    holds_one_integer,
    is_asked_for_by_data,
    put_row,
)

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def selected(
    ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, to_write: bool = False
) -> tuple[Any, VariableTracker | None]:
    """What the numbers in a subscript that are no constants select of a tensor, and the rest of the subscript (None: nothing).

    Where there are none, or torch asks something of what is subscripted, that is the tensor and the subscript.
    """
    items = key.items if type(key) is TupleVariable else [key]
    if ctx.function_modes.may_be_asked or tensor.python_type() not in PLAIN:
        return tensor, key
    held = [place for place, item in enumerate(items) if holds_one_integer(item)]
    known = [place for place, item in enumerate(items) if _is_symbol(item) or (held and _is_number(item))]
    dims = dimensions(items, tensor.fake.dim()) if held or known else None
    if dims is None:
        return tensor, key
    if held:
        is_for_copies = not to_write and is_asked_for_by_data(ctx, tensor, key)
        selected_dims = [dims[place] for place in (*held, *known)]
        if not is_for_copies or not copy_is_as_good(tensor, [items[place] for place in held], selected_dims):
            return tensor, key
    part: Any = tensor
    for place in reversed(known):
        part = ctx.operation("call_function", torch.select, [part, ConstantVariable(dims[place]), items[place]], {})
    for place in reversed(held):
        part = copied_row(ctx, part, dims[place] - sum(before < place for before in known), items[place])
    rest = [item for place, item in enumerate(items) if place not in held and place not in known]
    return part, TupleVariable(rest) if rest else None


def is_put(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker) -> bool:
    """Whether `tensor[key] = value` was put into the graph for a compiler: where one item is a tensor's integer, the others `:`."""
    items = key.items if type(key) is TupleVariable else [key]
    dims = dimensions(items, tensor.fake.dim()) if is_asked_for_by_data(ctx, tensor, key) else None
    held = [place for place, item in enumerate(items) if holds_one_integer(item)]
    if dims is None or len(held) != 1 or not all(place in held or _is_whole(item) for place, item in enumerate(items)):
        return False
    return put_row(ctx, tensor, dims[held[0]], items[held[0]], value)


def _is_number(item: VariableTracker) -> bool:
    return isinstance(item, ConstantVariable) and type(item.as_constant()) is int


def _is_whole(item: VariableTracker) -> bool:
    """Whether it is `:` or `...`."""
    if isinstance(item, SliceVariable):
        return all(part.is_constant() and part.as_constant() is None for part in item.parts)
    return isinstance(item, ConstantVariable) and item.as_constant() is Ellipsis


def dimensions(items: Sequence[VariableTracker], ndim: int) -> list[int] | None:
    """The dimension that each item is about; None where not all are numbers, slices, None and one `...` at most."""
    takes = [_takes(item) for item in items]
    taken = sum(take for take in takes if take is not None and take > 0)
    if None in takes or takes.count(-1) > 1 or taken > ndim:
        return None
    dims, dim = [], 0
    for take in takes:
        dims.append(dim)
        dim += ndim - taken if take == -1 else take or 0
    return dims


def _takes(item: VariableTracker) -> int | None:
    """How many dimensions an item takes: -1 for `...`, None for what is no plain index."""
    if isinstance(item, SliceVariable) or _is_symbol(item) or holds_one_integer(item) or _holds_integers(item):
        return 1
    if not isinstance(item, ConstantVariable):
        return None
    known = item.as_constant()
    return 1 if type(known) is int else 0 if known is None else -1 if known is Ellipsis else None


def _holds_integers(item: VariableTracker) -> bool:
    """Whether it is a tensor of integers, each of which takes a row."""
    fake = getattr(item, "fake", None)
    return isinstance(fake, torch.Tensor) and fake.dim() > 0 and fake.dtype in (torch.int32, torch.int64)


def _is_symbol(item: VariableTracker) -> bool:
    """Whether it is an int that is a symbol in the graph."""
    if item.kind not in ("symbolic number", "changing value"):
        return False
    varying = item.varying_key()
    if varying is not None:
        varying[1].varies = True  # so it is an input of the graph from the start
    node = item.as_proxy()
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("example_value"), torch.SymInt)
