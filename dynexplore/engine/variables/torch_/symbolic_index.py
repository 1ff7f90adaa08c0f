"""Subscripts of tensors with a number that varies: `mask[i]`, `x[:, i]`.

The idea: torch's `__getitem__` asks an index for its number (`__index__`), and a symbol that is asked for it stands for one number
from then on. `torch.select` takes symbols. So `x[:, i]` is `torch.select(x, 1, i)[:]`: where torch subscripts a tensor with numbers
and slices, it selects as well (`applySelect`, torch/csrc/autograd/python_variable_indexing.cpp).

In: a tensor's tracker and a subscript. Out: what the symbols select, and what is left of the subscript.
torch/_dynamo/variables/tensor.py (method___getitem__) does the same job for `x[i]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.fx

from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def selected(
    ctx: TraceContext, tensor: VariableTracker, ndim: int, key: VariableTracker
) -> tuple[VariableTracker, VariableTracker | None]:
    """What the symbols in a subscript select of a tensor, and the rest of the subscript (None: nothing is left of it).

    Where there are none, or torch asks something of what is subscripted, that is the tensor and the subscript.
    """
    items = key.items if type(key) is TupleVariable else [key]
    symbols = [place for place, item in enumerate(items) if _is_symbol(item)]
    if not symbols or ctx.function_modes.may_be_asked or tensor.python_type() not in _PLAIN:
        return tensor, key
    dims = _dimensions(items, ndim)
    if dims is None:
        return tensor, key
    part: VariableTracker = tensor
    for place in reversed(symbols):
        part = ctx.operation("call_function", torch.select, [part, ConstantVariable(dims[place]), items[place]], {})
    rest = [item for place, item in enumerate(items) if place not in symbols]
    return part, TupleVariable(rest) if rest else None


def _dimensions(items: Sequence[VariableTracker], ndim: int) -> list[int] | None:
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
    if isinstance(item, SliceVariable) or _is_symbol(item):
        return 1
    if not isinstance(item, ConstantVariable):
        return None
    known = item.as_constant()
    return 1 if type(known) is int else 0 if known is None else -1 if known is Ellipsis else None


def _is_symbol(item: VariableTracker) -> bool:
    """Whether it is an int that is a symbol in the graph."""
    if item.kind not in ("symbolic number", "changing value"):
        return False
    varying = item.varying_key()
    if varying is not None:
        varying[1].varies = True  # so it is an input of the graph from the start
    node = item.as_proxy()
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("example_value"), torch.SymInt)
