"""Subscripts of tensors with a tensor that holds one integer: `weights[t]`, `mask[:, t] = 1`; `select` and `narrow`.

The idea: eager reads the integer (`item`) and selects, so that what comes out is a view (`applySelect`,
torch/csrc/autograd/python_variable_indexing.cpp). Shape and dtype are those of any row, so a graph can do without the integer.

- Where graphs run as they are, the node is the program's own subscript; the fake values take row 0 for any row.
- A compiler would have to read the integer, too. It is given `aten.index`, which copies. A copy serves inside the graph as long as
  nobody can tell: it does not leave the frame (the graph ends before the subscript then), nothing is written from then on to it or
  to what it was taken of, and nobody asks how it lies in memory. On the CPU alone: elsewhere an integer out of range is not raised
  as an IndexError.

`x.select(1, t)` is `x[:, t]`. `x.narrow(1, t, 3)` takes as many rows wherever it begins. A compiler is not given it: with
`aten.index` rows that begin at a negative integer would go on at the first row, where `narrow` raises.

In: a tensor's tracker and a subscript. Out: the node of the subscript, or what a compiler gets for it.
torch/_dynamo puts the subscript into the graph; AOTAutograd then fails, and the frame is left to Python.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.utils.checkpoint import CheckpointPolicy

from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
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


def holds_one_integer(item: VariableTracker) -> bool:
    """Whether an item of a subscript is a tensor whose integer torch reads."""
    fake = getattr(item, "fake", None)
    is_plain = isinstance(fake, torch.Tensor) and item.python_type() in PLAIN
    return is_plain and fake is not None and fake.dim() == 0 and fake.dtype in _INTEGERS


def is_asked_for_by_data(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker) -> bool:
    """Whether a subscript has such an item; under transforms of torch.func, which refuse to read it, it is none."""
    items = key.items if type(key) is TupleVariable else [key]
    return any(map(holds_one_integer, items)) and is_read_by_torch(ctx, tensor)


def is_read_by_torch(ctx: TraceContext, tensor: TensorTracker) -> bool:
    """Whether torch reads what the tensors in a subscript hold, and nobody else is asked."""
    is_asked_alone = tensor.python_type() in PLAIN and not ctx.function_modes.may_be_asked
    return is_asked_alone and torch._C._functorch.peek_interpreter_stack() is None


def subscript_as_it_is(ctx: TraceContext, tensor: TensorTracker, key: VariableTracker) -> VariableTracker:
    """`tensor[key]` in a graph that runs as it is."""
    with ctx.graph.any_row_is_the_first(tensor.fake):
        return ctx.operation("call_function", operator.getitem, [tensor, key], {})


def assign_as_it_is(
    ctx: TraceContext, tensor: TensorTracker, key: VariableTracker, value: VariableTracker, slices_are_whole: bool = False
) -> None:
    """`tensor[key] = value` in a graph that runs as it is. `slices_are_whole`: the value fits into a slice of any length."""
    with ctx.graph.any_row_is_the_first(tensor.fake, slices_are_whole=slices_are_whole):
        ctx.operation("call_function", operator.setitem, [tensor, key, value], {})


@method(torch.Tensor, "select")
def _select(
    ctx: TraceContext, tensor: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """With a tensor for the index it is a subscript."""
    dim, index = _named(args, kwargs, "dim", "index")
    place = _place(tensor, dim)
    if place is None or index is None or not is_asked_for_by_data(ctx, tensor, index):
        return ctx.operation("call_method", "select", [tensor, *args], kwargs)
    if not ctx.graphs_run_as_they_are and not copy_is_as_good(tensor, [index], [place]):
        return ctx.operation("call_method", "select", [tensor, *args], kwargs)
    nothing = ConstantVariable(None)
    whole = [SliceVariable(nothing, nothing, nothing) for _ in range(place)]
    selected: VariableTracker = tensor.get_item(ctx, TupleVariable([*whole, index]))
    return selected


@method(torch.Tensor, "narrow")
def _narrow(
    ctx: TraceContext, tensor: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """With a tensor for the start, in a graph that runs as it is, the rows are among fake values the first ones."""
    dim, start, length = _named(args, kwargs, "dim", "start", "length")
    if start is None or length is None or not ctx.graphs_run_as_they_are or not is_asked_for_by_data(ctx, tensor, start):
        return ctx.operation("call_method", "narrow", [tensor, *args], kwargs)
    with ctx.graph.any_row_is_the_first(tensor.fake, place=2):
        return ctx.operation("call_method", "narrow", [tensor, dim, start, length], {})


def _named(
    args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker], *names: str
) -> list[VariableTracker | None]:
    """The arguments of a method by their names, None for one that is not there; none of them where there are others."""
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    fits = len(args) + len(kwargs) == len(given) and given.keys() <= set(names)
    return [given.get(name) if fits else None for name in names]


def _place(tensor: TensorTracker, dim: VariableTracker | None) -> int | None:
    """The dimension, from 0 on; None where it is no constant or not there."""
    if not isinstance(dim, ConstantVariable) or type(dim.as_constant()) is not int:
        return None
    known, ndim = dim.as_constant(), tensor.fake.dim()
    return known % ndim if -ndim <= known < ndim else None


# -- for a compiler


def copy_is_as_good(tensor: TensorTracker, items: Iterable[VariableTracker], dims: Container[int]) -> bool:
    """Whether a copy of what is selected in these dimensions lies in memory as the view does, or has no more than one dimension."""
    fake = tensor.fake
    if fake.layout is not torch.strided or fake.is_conj() or fake.is_neg() or not _are_on_cpu(tensor, items):
        return False
    kept = [(size, step) for dim, (size, step) in enumerate(zip(fake.shape, fake.stride(), strict=True)) if dim not in dims]
    if len(kept) <= 1:
        return True
    if not all(type(number) is int for pair in kept for number in pair):
        return False
    contiguous = torch.empty([size for size, _ in kept], device="meta").stride()
    return contiguous == tuple(step for _, step in kept)


def copied_row(ctx: TraceContext, tensor: TensorTracker, dim: int, item: VariableTracker) -> VariableTracker:
    """A copy of what one item selects."""
    made = ctx.operation("call_function", torch.ops.aten.index.Tensor, [tensor, _indices(ctx, dim, item, tensor)], {})
    node, fake = made.as_proxy(), made.fake  # type: ignore[attr-defined]
    ctx.graph.fake_mode.rows_copied_of.update((storage_of(tensor.fake), storage_of(fake)))
    ctx.graph.fake_mode.copied_rows.add(storage_of(fake))
    return ctx.wrap(node, fake)


def put_row(ctx: TraceContext, tensor: TensorTracker, dim: int, item: VariableTracker, value: VariableTracker) -> bool:
    """`tensor[:, item] = value`, if a compiler may be given `index_put_` for it."""
    if not _are_on_cpu(tensor, [item]) or tensor.fake.layout is not torch.strided:
        return False
    given = as_values(ctx, tensor, value)
    if given is None:
        return False
    ctx.operation("call_function", torch.ops.aten.index_put_.default, [tensor, _indices(ctx, dim, item, tensor, given), given], {})
    return True


def _are_on_cpu(tensor: TensorTracker, items: Iterable[VariableTracker]) -> bool:
    return all(one.fake.device.type == "cpu" for one in (tensor, *items))  # type: ignore[attr-defined]


def _indices(ctx: TraceContext, dim: int, item: VariableTracker, *operands: Any) -> VariableTracker:
    """What `aten.index` takes for one item at a dimension.

    Its backward needs the integer again, where that of the view knows it: the program may count the tensor on in the meantime.
    """
    if item.fake.dtype is not torch.int64:  # type: ignore[attr-defined]
        item = ctx.operation("call_method", "to", [item, ConstantVariable(torch.int64)], {})
    if torch.is_grad_enabled() and any(operand.fake.requires_grad for operand in operands):
        item = ctx.operation("call_method", "clone", [item], {})
        item.as_proxy().meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return ListVariable([*(ConstantVariable(None) for _ in range(dim)), item])


def as_values(ctx: TraceContext, tensor: TensorTracker, value: VariableTracker) -> VariableTracker | None:
    """What is assigned, as a tensor of the dtype of what it is put into."""
    dtype = ConstantVariable(tensor.fake.dtype)
    if isinstance(value, ConstantVariable) and value.python_type() in NUMBERS:
        named = {"dtype": dtype, "device": ConstantVariable(tensor.fake.device)}
        return ctx.operation("call_function", torch.full, [TupleVariable([]), value], named)
    fake = getattr(value, "fake", None)
    if not isinstance(fake, torch.Tensor) or value.python_type() not in PLAIN or fake.device.type != "cpu":
        return None
    if fake.layout is not torch.strided or fake.dim() >= tensor.fake.dim() or storage_of(fake) == storage_of(tensor.fake):
        return None
    if fake.requires_grad and not (tensor.fake.is_floating_point() or tensor.fake.is_complex()):
        return None  # torch refuses it
    return value if fake.dtype is tensor.fake.dtype else ctx.operation("call_method", "to", [value, dtype], {})
