"""Parameters that the program makes while it runs: `nn.Parameter(t)`, the layers of a module made in the frame, copies of modules.

The idea: a parameter is a leaf, to which `backward()` gives a gradient later. What a compiler makes of a graph gives gradients to
the graph's inputs alone, so a new parameter is one: the modified code makes it before it calls the graph, anew in each call,
without data. The data it is made of is computed in the graph and copied into it there; what `torch.empty` gave is not even copied.

In eager PyTorch the parameter and the tensor it was made of are one memory. Nobody can tell as long as the tensor is made in the
frame and not used again; where it is, the graph ends before the parameter, which is then made for real.

In:  `torch.Tensor._make_subclass(nn.Parameter, data)`, which `nn.Parameter(data)` comes to. Out: an input of the graph without
guards. torch/_dynamo/create_parameter_op.py does the same job.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.graph.bodies import last_node
from dynexplore.engine.graph.builder import example_value
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.written_nodes import memories_from_outside, memories_of
from dynexplore.engine.provenance.sources import OwnLocalSource
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_WITHOUT_DATA = (torch.empty, torch.empty_like, torch.empty_strided)


class NewParameterVariable(TensorVariable):
    """A parameter that was made in this frame."""

    def __init__(self, node: torch.fx.Node, fake: torch.Tensor, source: OwnLocalSource, made_of: TensorVariable | None) -> None:
        super().__init__(node, fake, source)
        self.memory = None if made_of is None else storage_of(made_of.fake)
        self.made_after = node  # the graph's last node when it had its data

    def python_type(self) -> type[Any]:
        return torch.nn.Parameter

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return ConstantVariable(None) if name == "grad" else super().get_attribute(ctx, name)


def first_used_again(
    parameters: Sequence[NewParameterVariable], graph: torch.fx.Graph, outputs: Sequence[torch.fx.Node]
) -> NewParameterVariable | None:
    """The first parameter whose memory, that of a tensor of the program, is used once more or leaves the graph."""
    shared = [parameter for parameter in parameters if parameter.memory is not None]
    if not shared:
        return None
    places = {node: place for place, node in enumerate(graph.nodes)}
    last = {memory: place for node, place in places.items() for used in node.all_input_nodes for memory in memories_of(used)}
    last |= {memory: len(places) for node in outputs for memory in memories_of(node)}
    return next((one for one in shared if one.memory in last and last[one.memory] > places[one.made_after]), None)


def new_parameter(
    ctx: TraceContext, like: torch.Tensor, data: TensorVariable, *, requires_grad: bool, is_own: bool
) -> NewParameterVariable:
    """A parameter of the sizes and strides of a fake tensor with this data; `is_own`: in eager it is the data's memory."""
    sizes, strides = tuple(like.shape), tuple(like.stride())
    make = functools.partial(_without_data, sizes, strides, like.dtype, like.device, requires_grad)
    number = len(ctx.new_parameters)
    source = OwnLocalSource(f"___parameter_{number}", f"new_parameter_{number}")
    node = ctx.new_input(make(), source)
    made = NewParameterVariable(node, example_value(node), source, data if is_own else None)
    ctx.new_parameters.append((made, make))
    if data.node.op != "call_function" or data.node.target not in _WITHOUT_DATA or data.node.users:
        with ctx.function_modes.without_subclasses():
            memory, values = (ctx.operation("call_method", "detach", [tensor], {}) for tensor in (made, data))
            ctx.operation("call_method", "copy_", [memory, values], {})
    made.made_after = last_node(ctx.graph.graph) or node
    return made


def _without_data(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: torch.device, requires_grad: bool
) -> torch.Tensor:
    """What the modified code calls."""
    made: torch.Tensor = _make_subclass(
        torch.nn.Parameter, torch.empty_strided(sizes, strides, dtype=dtype, device=device), requires_grad
    )
    return made


_make_subclass: Any = torch.Tensor._make_subclass


@rule(_make_subclass)
def _make(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`torch.Tensor._make_subclass(nn.Parameter, data, requires_grad)`, where the data is a tensor of this frame."""
    given = [arg.read(ctx) for arg in args]
    wants_grad = given[2] if len(given) > 2 else ConstantVariable(False)
    known = len(given) in (2, 3) and not kwargs and wants_grad.is_constant()
    if not known or not isinstance(given[0], ClassVariable) or given[0].value is not torch.nn.Parameter:
        ctx.break_graph("DX201", function="Tensor._make_subclass")
    data, requires_grad = given[1], bool(wants_grad.as_constant())
    because = why_not_made(ctx, data, requires_grad)
    if because is not None or not isinstance(data, TensorVariable):
        ctx.break_graph("DX201", function="Tensor._make_subclass", because=because)
    if not _is_made_here(ctx, data):
        ctx.break_graph("DX201", function="Tensor._make_subclass", because="its data is on the memory of a tensor from outside")
    ctx.graph.asked_about_gradients = True
    return new_parameter(ctx, data.fake, data, requires_grad=requires_grad, is_own=True)


def why_not_made(ctx: TraceContext, data: VariableTracker, requires_grad: bool) -> str | None:
    """Why a parameter with this data is made by Python; None: it is made here."""
    if type(data) not in (TensorVariable, NewParameterVariable) or not isinstance(data, TensorVariable):
        return f"the parameter is made of a {data.type_name()}"
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
    """Whether each element stands in a place of its own, and no place is left out."""
    whole = fake.numel() * fake.element_size() == fake.untyped_storage().nbytes()
    return whole and bool(torch.ops.aten.is_non_overlapping_and_dense(fake))


def _is_made_here(ctx: TraceContext, data: TensorVariable) -> bool:
    """Whether a tensor lies in memory that the graph itself asked for."""
    return storage_of(data.fake) not in memories_from_outside(ctx.graph.graph)
