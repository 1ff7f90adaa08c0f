"""`p.data = t`: a tensor gets other data, as averages of weights and clipped weights do it.

The idea: for the rest of the frame the tensor's tracker stands for another node, which has the new data and gives gradients to the
tensor (graph/taken_data.py). The tensor itself is assigned to when the graph has run, like an attribute of any object, so that what
else lies in its old memory stays what it was, and what lies in the new memory is shared.
A write to either of them from then on, and a view of the tensor, break the graph (`operations.add`): autograd hears of changes of
one of the two, and a compiler does not tell them apart.

`p.data += d` assigns to a tensor the data that it has: nothing is left to do.

In: assignments to `.data` of tensors that were there before the frame. Out: a node; an assignment in the modified code.
torch/_dynamo/variables/tensor.py (method_setattr) does the same job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.taken_data import take_data
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import setter
from dynexplore.engine.variables.torch_.input_state import rely_on_state
from dynexplore.engine.variables.torch_.tensor import DataVariable, TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@setter(torch.Tensor, "data")
def _assign(ctx: TraceContext, tensor: TensorVariable, value: VariableTracker) -> None:
    value = value.read(ctx)
    if _is_its_own(tensor, value) and not ctx.function_modes.may_be_asked:
        return
    because = _why_not(ctx, tensor, value)
    if because is not None or not isinstance(value, TensorVariable):
        ctx.break_graph("DX408", attribute="data", because=because)
    before = tensor.before or TensorVariable(tensor.node, tensor.fake, tensor.source, tensor.real)
    if tensor.before is None:
        ctx.graph.note_replaced(tensor.node)
    made = ctx.operation("call_function", take_data, [before, value], {})
    assert isinstance(made, TensorVariable)
    ctx.journal.must_replay(tensor, f"{tensor.describe()}.data")
    tensor.before, tensor.assigned_data = before, value
    tensor.node, tensor.fake = made.node, made.fake
    ctx.graph.fake_mode.assigned += [(fake, fake._version) for fake in (made.fake, value.fake)]


def _is_its_own(tensor: TensorVariable, value: VariableTracker) -> bool:
    """Whether a tensor is given the data that it has: `p.data += d` writes there, and then assigns what it wrote to."""
    if tensor.assigned_data is not None or not isinstance(value, TensorVariable) or value.python_type() is not torch.Tensor:
        return False
    mine, given = tensor.fake, value.fake
    if mine.layout is not torch.strided or given.layout is not torch.strided or storage_of(mine) != storage_of(given):
        return False
    return (mine.is_conj(), mine.is_neg(), mine.storage_offset()) == (given.is_conj(), given.is_neg(), given.storage_offset()) and (
        mine.dtype is given.dtype and mine.is_inference() == given.is_inference() and _sizes(mine) == _sizes(given)
    )


def _sizes(fake: torch.Tensor) -> tuple[object, ...]:
    """Sizes and strides; those that vary by their symbols' names."""
    return tuple(size if type(size) is int else str(size) for size in (*fake.shape, *fake.stride()))


def _why_not(ctx: TraceContext, tensor: TensorVariable, value: VariableTracker) -> str | None:
    """Why the assignment is made by Python; None: it is traced."""
    if type(tensor) is not TensorVariable or tensor.real is None or tensor.source is None or not tensor.source.guardable:
        return "the tensor was made in this frame, or is of a class of its own"
    if type(value) not in (TensorVariable, DataVariable) or not isinstance(value, TensorVariable):
        return f"what is assigned is a {value.type_name()}"
    if ctx.function_modes.may_be_asked or torch._C._functorch.peek_interpreter_stack() is not None:
        return "a mode or a transform of torch is active"
    first = (tensor if tensor.before is None else tensor.before).fake
    if tensor.before is None:
        rely_on_state(ctx, tensor, "is_leaf")
    if not first.is_leaf or first.is_inference() or value.fake.is_inference():
        return "the tensor has a history, or is one of inference mode"
    return None if _what_it_is(first) == _what_it_is(value.fake) else "the new data is of another shape, dtype or device"


def _what_it_is(fake: torch.Tensor) -> tuple[object, ...]:
    """What must be the same; a size that varies is unlike any other."""
    sizes = (*fake.shape, *fake.stride())
    fixed = sizes if all(type(size) is int for size in sizes) else object()
    return fixed, fake.dtype, fake.device, fake.layout
