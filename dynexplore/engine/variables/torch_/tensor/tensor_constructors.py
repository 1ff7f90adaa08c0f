"""Tensor constructors: `torch.Tensor(2, 3)`, `torch.FloatTensor([1, 2])`, `x.new(sizes)`, `torch.tensor([...])`.

The idea: the legacy constructors take sizes or data, and distinguish them by type: a torch.Size is sizes, a tuple is data. FX
cannot generate code for a torch.Size argument, so sizes are passed one by one, which is equivalent.

`torch.tensor([x.sum(), 1.0])` calls `item()` on each tensor, which a fake tensor cannot do; torch._refs expresses the same in
operators. The reference also stacks tensors that torch.tensor rejects, so these are checked first.

In: calls of torch.Tensor, of the legacy tensor types, of `Tensor.new` and torch.tensor. Out: one node each. PyTorch's counterpart:
the torch.tensor branch in torch/_dynamo/variables/torch.py. legacy_tensor_generic_ctor_new in torch/csrc/utils/tensor_new.cpp
defines the legacy constructors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch._refs

from dynexplore.engine.variables.containers.ranges import RangeVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, SequenceVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.numpy_.array_rules import tensor_of_array, with_numpys_dtype
from dynexplore.engine.variables.numpy_.concrete_array import ConcreteArrayVariable, tensor_of
from dynexplore.engine.variables.rules import Handler, method, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.symint_constructors import lower_constructor_of_symints
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_LEGACY_CPU_TYPES: tuple[Any, ...] = tuple(
    getattr(torch, f"{name}Tensor")
    for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
)


def _unpacked_sizes(ctx: TraceContext, args: Sequence[VariableTracker]) -> list[VariableTracker]:
    if len(args) == 1 and isinstance(args[0], SizeVariable):
        return args[0].unpack(ctx)
    return _ranges_as_lists(ctx, args)


def _is_data(args: Sequence[VariableTracker]) -> bool:
    """Whether a legacy constructor treats its only argument as data."""
    return len(args) == 1 and isinstance(args[0], ListVariable | TupleVariable) and not isinstance(args[0], SizeVariable)


def _ranges_as_lists(ctx: TraceContext, args: Sequence[VariableTracker]) -> list[VariableTracker]:
    """Convert ranges to lists, which a node can take: both are data."""
    return [ListVariable(arg.unpack(ctx)) if isinstance(arg, RangeVariable) else arg for arg in args]


def _dtype_and_device(tensor: TensorVariable) -> dict[str, VariableTracker]:
    return {"dtype": ConstantVariable(tensor.fake.dtype), "device": ConstantVariable(tensor.fake.device)}


@method(torch.Tensor, "new")
def _new(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
         kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`x.new(...)`: a tensor of the same type."""
    if _is_data(args) and not kwargs:
        if (result := lower_constructor_of_symints(ctx, args[0], _dtype_and_device(tensor))) is not None:
            return result
    return ctx.operation("call_method", "new", [tensor, *_unpacked_sizes(ctx, args)], kwargs)


@method(torch.Tensor, "new_tensor")
def _new_tensor(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
                kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`x.new_tensor(data)`: with the dtype and device of x, unless others are passed."""
    if len(args) == 1:
        if (result := lower_constructor_of_symints(ctx, args[0], {**_dtype_and_device(tensor), **kwargs})) is not None:
            return result
    return ctx.operation("call_method", "new_tensor", [tensor, *args], kwargs)


def _legacy_constructor(cls: Any) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        if kwargs or any(isinstance(arg, TensorVariable) for arg in args):  # a tensor is aliased, not copied
            ctx.break_graph("DX209", type=cls.__name__)
        if _is_data(args):
            dtype = torch.get_default_dtype() if cls is torch.Tensor else cls.dtype
            if (tensor := lower_constructor_of_symints(ctx, args[0], {"dtype": ConstantVariable(dtype)})) is not None:
                return tensor
        return ctx.operation("call_function", cls, _unpacked_sizes(ctx, args), {})

    return handler


for _cls in (torch.Tensor, *_LEGACY_CPU_TYPES):
    rule(_cls)(_legacy_constructor(_cls))


def _nested_tensors(value: VariableTracker) -> Iterator[TensorVariable]:
    """The tensors in nested lists."""
    if isinstance(value, TensorVariable):
        yield value
    elif isinstance(value, SequenceVariable):
        for item in value.items:
            yield from _nested_tensors(item)


def _item_error(tensor: torch.Tensor, dtype: torch.dtype | None) -> str | None:
    """torch.tensor's error for an element that it cannot read as one number of this dtype; None if it can."""
    if tensor.numel() != 1:
        return "only one element tensors can be converted to Python scalars"
    if dtype is None or dtype.is_complex:
        return None
    if dtype.is_floating_point:
        return "a complex number is no real one" if tensor.is_complex() else None
    if tensor.is_floating_point() or tensor.is_complex():
        return "only integer tensors of a single element can be converted to an index"
    return None


@rule(torch.tensor)
def _tensor(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`torch.tensor(data)`; a tensor inside a list is read with `item()`, a concrete numpy array is a constant."""
    if len(args) == 1 and isinstance(array := args[0].read(ctx), ConcreteArrayVariable):
        return tensor_of(ctx, array, kwargs)
    if (tensor := tensor_of_array(ctx, args, kwargs)) is not None:
        return tensor
    for arg in args:
        arg.read_items(ctx)
    if len(args) == 1 and (
        tensor := lower_constructor_of_symints(ctx, args[0], with_numpys_dtype(ctx, args, kwargs))
    ) is not None:
        return tensor
    nested = list(_nested_tensors(args[0])) if args and isinstance(args[0], SequenceVariable) else []
    kwargs = with_numpys_dtype(ctx, args, kwargs)
    dtype = kwargs["dtype"].as_constant() if "dtype" in kwargs and kwargs["dtype"].is_constant() else None
    for element in nested:
        if (error := _item_error(element.fake, dtype)) is not None:
            ctx.break_graph("DX401", operator="tensor", error=error)
    return ctx.operation("call_function", torch._refs.tensor if nested else torch.tensor, _ranges_as_lists(ctx, args), kwargs)
