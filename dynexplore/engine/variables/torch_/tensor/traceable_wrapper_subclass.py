"""Traceable wrapper subclasses (`__tensor_flatten__`): DTensor, quantized weights.

The idea: such a class implements operators on its inner tensors in `__torch_dispatch__`, and `__tensor_flatten__` exposes them. A
fake tensor of it wraps fake inner tensors, and AOTAutograd desugars it. So it is a graph input like any other, and the fake result
of an operator has the resulting class. Guards check each inner tensor, and the metadata of `__tensor_flatten__` (compared as the
class defines it).

An in-place write to one breaks the graph, because aliasing between its inner tensors and other inputs is not tracked.

In: live tensors of such classes, results of operators. Out: graph inputs, guards. PyTorch's counterpart: `wrap_tensor` in
torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import has_python_getattribute, instance_dict, is_a
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import find, guard_on_names, guard_on_plain_access, peek
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_constant_value
from dynexplore.engine.variables.torch_.tensor.tensor import (
    DISABLED_TORCH_FUNCTION,
    TORCH_TENSOR_CLASSES,
    TensorMethodVariable,
    TensorVariable,
    build_input,
)
from dynexplore.engine.variables.torch_.tensor.tensor_subclass import DEFAULT, SubclassTensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_PLAIN_CLASSES = (*TORCH_TENSOR_CLASSES, FakeTensor)
_PROTOCOL = ("__torch_function__", "__torch_dispatch__", "__tensor_flatten__", "__tensor_unflatten__", "__metadata_guard__")


def is_traceable_wrapper(value: object) -> bool:
    """Whether a tensor, live or fake, is a traceable wrapper whose class has torch's default `__torch_function__`."""
    cls = type(value)
    if cls in _PLAIN_CLASSES or not issubclass(cls, torch.Tensor) or has_python_getattribute(cls):
        return False
    if any(inspect.getattr_static(cls, name, None) is None for name in ("__tensor_flatten__", "__tensor_unflatten__")):
        return False
    torch_function = inspect.getattr_static(cls, "__torch_function__")
    return torch_function is DISABLED_TORCH_FUNCTION or getattr(torch_function, "__func__", None) is DEFAULT


def inner_tensor_names(tensor: Any) -> list[str]:
    """The attributes that hold the inner tensors."""
    names: list[str] = tensor.__tensor_flatten__()[0]
    return names


class TraceableWrapperVariable(SubclassTensorVariable):
    """A traceable wrapper: an input (`real`), or the result of an operator."""

    def python_type(self) -> type[Any]:
        return type(self.fake) if self.real is None else type(self.real)

    def torch_function_class(self) -> type[Any] | None:
        return None  # the fake result reflects torch's own `__torch_function__`

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if self.real is None and name in inner_tensor_names(self.fake):
            return ctx.operation("call_function", getattr, [self, ConstantVariable(name)], {})
        if self.real is None and (own := instance_dict(self.fake)).get(name) is not None and is_constant_value(own[name]):
            return ctx.build(own[name], None)
        return TensorMethodVariable(self, name) if self._is_method_of_torch(name) else super().get_attribute(ctx, name)

    def _is_method_of_torch(self, name: str) -> bool:
        """Whether it is a method that a torch class adds to those of Tensor."""
        raw = peek(self.python_type(), name)
        is_method = isinstance(raw, types.FunctionType) and not hasattr(torch.Tensor, name)
        return is_method and str(raw.__module__).startswith("torch.")

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """A method of a torch subclass (`DTensor.to_local`) is an operation, like those of Tensor."""
        if self._is_method_of_torch(name):
            guard_on_plain_access(ctx, self.python_type(), name)
            find(ctx, self.python_type(), name)
            return ctx.operation("call_method", name, [self, *args], kwargs)
        return super().call_method(ctx, name, args, kwargs)


def result(ctx: TraceContext, node: torch.fx.Node, fake: torch.Tensor) -> TraceableWrapperVariable:
    """The tracker of an operator's result."""
    ctx.function_modes.has_wrappers = True
    return TraceableWrapperVariable(node, fake)


def break_on_wrapper_writes(ctx: TraceContext, *tensors: VariableTracker) -> None:
    """Break the graph if an operator mutated one of these, or an inner tensor of an
    input, since AOTAutograd does not know the alias.
    """
    wrappers = [tensor for tensor in tensors if isinstance(tensor, TraceableWrapperVariable)]
    mutates_inner_tensors = not ctx.function_modes.wrapped.isdisjoint(ctx.graph.fake_mode.written)
    if mutates_inner_tensors or (wrappers and ctx.graph.fake_mode.written_last):
        name = wrappers[0].type_name() if wrappers else "torch.Tensor"
        ctx.break_graph("DX402", type=name, because="an operator mutates it, a tensor inside it, or a tensor passed along with it")


def _guard_on_inner(ctx: TraceContext, part: Any, source: Source) -> None:
    """Guard an inner tensor by its properties, or another part (the DeviceMesh of a DTensor) by identity."""
    if not is_a(part, torch.Tensor):
        guard_identity(ctx, part, source)
        return
    inner = ctx.build(part, source).read(ctx)
    if not isinstance(inner, TensorVariable):
        ctx.break_graph("DX402", type=type(part).__qualname__, because="it is nested in another one")
    ctx.function_modes.wrapped.add(storage_of(inner.fake))


@builds_when(is_traceable_wrapper, rank=9)
def build_traceable_wrapper(ctx: TraceContext, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A live traceable wrapper: a graph input, guarded with all its inner tensors."""
    if source is None:
        return ctx.values.constant_tensor(value)
    names, metadata = value.__tensor_flatten__()  # type: ignore[attr-defined]
    ctx.guard(source, "TYPE_MATCH", type(value))
    ctx.guard(source, "SUBCLASS_METADATA", copy.deepcopy(metadata))
    for name in _PROTOCOL:
        find(ctx, type(value), name)
    guard_on_names(ctx, type(value), *_PROTOCOL)
    ctx.function_modes.has_wrappers = True
    tensor = build_input(ctx, value, source, TraceableWrapperVariable)
    if not all(type(size) is int for size in tensor.fake.shape):  # the inner tensor is an input of its own, with a dynamic size
        ctx.break_graph("DX402", type=type(value).__qualname__, because="its sizes vary")
    for name in names:
        how = "dict" if name in instance_dict(value) else "getattr"
        _guard_on_inner(ctx, getattr(value, name), source.attribute(name, how))
    break_on_wrapper_writes(ctx)
    return tensor
