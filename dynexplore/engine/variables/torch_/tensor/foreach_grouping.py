"""Grouping tensors by device and dtype, which `clip_grad_norm_` and optimizers do before they call foreach operators.

The idea: device and dtype of each tensor are known at trace time. The C function runs on the fake tensors, so the groups have its
order, and the indices that it returns map each tensor to its group.

In:  `torch._C._group_tensors_by_device_and_dtype(lists, with_indices)`. Out: a dict of lists.
PyTorch's counterpart: torch/_dynamo/polyfills/__init__.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_group = torch._C._group_tensors_by_device_and_dtype


@rule(_group)
def _group_tensors(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    if kwargs or len(args) != 2 or not args[1].is_constant():
        ctx.break_graph("DX201", function="_group_tensors_by_device_and_dtype")
    rows = [row.unpack(ctx) for row in args[0].unpack(ctx)]
    fakes = [[_fake(ctx, tensor) for tensor in row] for row in rows]
    groups = DictVariable()
    for key, (_, indices) in _group(fakes, True).items():
        members = [ListVariable([row[index] for index in indices]) for row in rows]
        numbers = [ConstantVariable(index) for index in indices] if args[1].as_constant() else []
        groups.store(ctx, ctx.build(key, None), TupleVariable([ListVariable(members), ListVariable(numbers)]))
    return groups


def _fake(ctx: TraceContext, tensor: VariableTracker) -> torch.Tensor | None:
    """The fake tensor; None represents a missing tensor, as in an optimizer's state."""
    if type(tensor) is TensorVariable:
        return tensor.fake
    if not tensor.is_constant() or tensor.as_constant() is not None:
        ctx.break_graph("DX201", function="_group_tensors_by_device_and_dtype", type=tensor.type_name())
    return None
