"""`p.data = t` (`Tensor.set_data`): a tensor gets new data, as weight averaging and weight clipping do it.

The idea: for the rest of the frame the TensorVariable stands for another node, which reads the new data and passes gradients to
the original tensor (graph/set_data.py). The assignment itself is replayed after the graph has run, like any other attribute
mutation, so that other aliases of the old storage keep their values and aliases of the new storage are shared. An in-place write
to either tensor after that, and a view of either, break the graph (`operations.add`): `.data` has a version counter of its own,
which a backend cannot reproduce.

`p.data += d` assigns the data that the tensor already has, so nothing is replayed.

In: assignments to `.data` of graph inputs. Out: a node, and a mutation to replay.
PyTorch's counterpart: method_setattr in torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.set_data import take_data
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import setter
from dynexplore.engine.variables.torch_.tensor.tensor import DataAliasVariable, TensorVariable
from dynexplore.engine.variables.torch_.tensor.tensor_metadata_guards import guard_on_metadata

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@setter(torch.Tensor, "data")
def _set_data(ctx: TraceContext, tensor: TensorVariable, value: VariableTracker) -> None:
    value = value.read(ctx)
    if _is_same_data(tensor, value) and not ctx.function_modes.may_dispatch:
        return
    because = _why_not_traced(ctx, tensor, value)
    if because is not None or not isinstance(value, TensorVariable):
        ctx.break_graph("DX408", attribute="data", because=because)
    before = tensor.before_set_data or TensorVariable(tensor.node, tensor.fake, tensor.source, tensor.real)
    if tensor.before_set_data is None:
        ctx.graph.note_data_replaced(tensor.node)
    result = ctx.operation("call_function", take_data, [before, value], {})
    assert isinstance(result, TensorVariable)
    ctx.journal.must_replay(tensor, f"{tensor.describe()}.data")
    tensor.before_set_data, tensor.assigned_data = before, value
    tensor.node, tensor.fake = result.node, result.fake
    ctx.graph.fake_mode.assigned += [(fake, fake._version) for fake in (result.fake, value.fake)]


def _is_same_data(tensor: TensorVariable, value: VariableTracker) -> bool:
    """Whether the tensor already has this data: `p.data += d` mutates it in place, then assigns it."""
    if tensor.assigned_data is not None or not isinstance(value, TensorVariable) or value.python_type() is not torch.Tensor:
        return False
    current, new = tensor.fake, value.fake
    if current.layout is not torch.strided or new.layout is not torch.strided or storage_of(current) != storage_of(new):
        return False
    return _layout(current) == _layout(new)


def _layout(fake: torch.Tensor) -> tuple[object, ...]:
    """How a tensor is laid out on its storage; symbolic sizes and strides by name."""
    sizes = tuple(size if type(size) is int else str(size) for size in (*fake.shape, *fake.stride()))
    return fake.is_conj(), fake.is_neg(), fake.storage_offset(), fake.dtype, fake.is_inference(), sizes


def _why_not_traced(ctx: TraceContext, tensor: TensorVariable, value: VariableTracker) -> str | None:
    """Why the assignment breaks the graph; None if it is traced."""
    if type(tensor) is not TensorVariable or tensor.real is None or tensor.source is None or not tensor.source.guardable:
        return "the tensor was created in this frame, or its class is a subclass"
    if type(value) not in (TensorVariable, DataAliasVariable) or not isinstance(value, TensorVariable):
        return f"the assigned value is a {value.type_name()}"
    if ctx.function_modes.may_dispatch or torch._C._functorch.peek_interpreter_stack() is not None:
        return "a mode or a transform of torch is active"
    first = (tensor if tensor.before_set_data is None else tensor.before_set_data).fake
    if tensor.before_set_data is None:
        guard_on_metadata(ctx, tensor, "is_leaf")
    if not first.is_leaf or first.is_inference() or value.fake.is_inference():
        return "the tensor is not a leaf, or is an inference tensor"
    return None if _metadata(first) == _metadata(value.fake) else "the new data is of another shape, dtype or device"


def _metadata(fake: torch.Tensor) -> tuple[object, ...]:
    """The metadata that must be equal; a symbolic size equals no other."""
    sizes = (*fake.shape, *fake.stride())
    fixed = sizes if all(type(size) is int for size in sizes) else object()
    return fixed, fake.dtype, fake.device, fake.layout
