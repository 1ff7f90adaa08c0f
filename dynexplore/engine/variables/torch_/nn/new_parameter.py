"""Parameters created in the frame: `nn.Parameter(t)`, layers of a module created in the frame, deep copies of modules.

The idea: a parameter is a leaf that accumulates a gradient in `backward()`. A compiled graph returns gradients for graph inputs
only, so a new parameter is lifted to an input: before each call of the graph the modified code allocates it uninitialized, and the
graph computes the initial data and copies it in. The copy is skipped if the data came from `torch.empty`.

In eager PyTorch the parameter aliases the tensor it was made from. This cannot be observed if that tensor was made in the frame and
is not used again; otherwise the graph ends before the parameter, which is then created for real.

In: `torch.Tensor._make_subclass(nn.Parameter, data)`, which `nn.Parameter(data)` calls. Out: a graph input without guards.
PyTorch's counterpart: torch/_dynamo/create_parameter_op.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.aliasing.mutation import outside_storages, storages_of
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import example_value
from dynexplore.engine.graph.subgraphs import last_node
from dynexplore.engine.provenance.sources import OwnLocalSource
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_UNINITIALIZED = (torch.empty, torch.empty_like, torch.empty_strided)


class NewParameterVariable(TensorVariable):
    """A parameter that was created in this frame."""

    def __init__(self, node: torch.fx.Node, fake: torch.Tensor, source: OwnLocalSource, data: TensorVariable | None) -> None:
        super().__init__(node, fake, source)
        self.storage = None if data is None else storage_of(data.fake)
        self.initialized_at = node  # the graph's last node at the time it was initialized

    def python_type(self) -> type[Any]:
        return torch.nn.Parameter

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return ConstantVariable(None) if name == "grad" else super().get_attribute(ctx, name)


def first_reused_storage(
    parameters: Sequence[NewParameterVariable], graph: torch.fx.Graph, outputs: Sequence[torch.fx.Node]
) -> NewParameterVariable | None:
    """The first parameter whose storage, which belongs to a tensor of the program, is used again or leaves the graph."""
    shared = [parameter for parameter in parameters if parameter.storage is not None]
    if not shared:
        return None
    index_of = {node: index for index, node in enumerate(graph.nodes)}
    last = {storage: index for node, index in index_of.items() for used in node.all_input_nodes for storage in storages_of(used)}
    last |= {storage: len(index_of) for node in outputs for storage in storages_of(node)}
    return next((p for p in shared if p.storage in last and last[p.storage] > index_of[p.initialized_at]), None)


def new_parameter(
    ctx: TraceContext, like: torch.Tensor, data: TensorVariable, *, requires_grad: bool, aliases_data: bool
) -> NewParameterVariable:
    """A parameter with the sizes and strides of a fake tensor and this data; `aliases_data`:
    in eager it shares the data's storage.
    """
    sizes, strides = tuple(like.shape), tuple(like.stride())
    make = functools.partial(_uninitialized_parameter, sizes, strides, like.dtype, like.device, requires_grad)
    number = len(ctx.effects.new_parameters)
    source = OwnLocalSource(f"___parameter_{number}", f"new_parameter_{number}")
    node = ctx.values.new_input(make(), source)
    parameter = NewParameterVariable(node, example_value(node), source, data if aliases_data else None)
    ctx.effects.new_parameters.append((parameter, make))
    if data.node.op != "call_function" or data.node.target not in _UNINITIALIZED or data.node.users:
        with ctx.function_modes.without_subclasses():
            destination, values = (ctx.operation("call_method", "detach", [tensor], {}) for tensor in (parameter, data))
            ctx.operation("call_method", "copy_", [destination, values], {})
    parameter.initialized_at = last_node(ctx.graph.graph) or node
    return parameter


def _uninitialized_parameter(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: torch.device, requires_grad: bool
) -> torch.Tensor:
    """The allocation that the modified code calls."""
    parameter: torch.Tensor = _make_subclass(
        torch.nn.Parameter, torch.empty_strided(sizes, strides, dtype=dtype, device=device), requires_grad
    )
    return parameter


_make_subclass: Any = torch.Tensor._make_subclass


@rule(_make_subclass)
def _create_parameter(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`torch.Tensor._make_subclass(nn.Parameter, data, requires_grad)` with a tensor of this frame as data."""
    values = [arg.read(ctx) for arg in args]
    wants_grad = values[2] if len(values) > 2 else ConstantVariable(False)
    is_supported = len(values) in (2, 3) and not kwargs and wants_grad.is_constant()
    if not is_supported or not isinstance(values[0], ClassVariable) or values[0].value is not torch.nn.Parameter:
        ctx.break_graph("DX201", function="Tensor._make_subclass")
    data, requires_grad = values[1], bool(wants_grad.as_constant())
    because = why_not_created(ctx, data, requires_grad)
    if because is not None or not isinstance(data, TensorVariable):
        ctx.break_graph("DX201", function="Tensor._make_subclass", because=because)
    if not _owns_local_storage(ctx, data):
        ctx.break_graph("DX201", function="Tensor._make_subclass", because="its data is on the storage of a tensor from outside")
    ctx.graph.asked_about_gradients = True
    return new_parameter(ctx, data.fake, data, requires_grad=requires_grad, aliases_data=True)


def why_not_created(ctx: TraceContext, data: VariableTracker, requires_grad: bool) -> str | None:
    """Why a parameter with this data breaks the graph; None if it is supported."""
    if type(data) not in (TensorVariable, NewParameterVariable) or not isinstance(data, TensorVariable):
        return f"the parameter wraps a {data.type_name()}"
    fake = data.fake
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    if ctx.function_modes.entered or transformed or torch.is_inference_mode_enabled():
        return "a mode or a transform of torch is active"
    if not all(type(size) is int for size in (*fake.shape, *fake.stride())):
        return "its sizes vary"
    if fake.is_inference() or fake.layout is not torch.strided or not is_dense(fake):
        return "its data has no plain sizes and strides"
    if requires_grad and not (fake.is_floating_point() or fake.is_complex()):
        return "only floating-point tensors have gradients"
    return None


def is_dense(fake: torch.Tensor) -> bool:
    """Whether the storage is non-overlapping and dense, and no larger than the tensor."""
    whole = fake.numel() * fake.element_size() == fake.untyped_storage().nbytes()
    return whole and bool(torch.ops.aten.is_non_overlapping_and_dense(fake))


def _owns_local_storage(ctx: TraceContext, data: TensorVariable) -> bool:
    """Whether the graph itself allocated the tensor's storage."""
    return storage_of(data.fake) not in outside_storages(ctx.graph.graph)
