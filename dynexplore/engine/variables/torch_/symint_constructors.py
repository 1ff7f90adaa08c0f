"""Tensor constructors with dynamic integers: `torch.tensor(n)`, `torch.tensor([n, 1])`.

The idea: torch's constructors read the data in C++, and truncate a SymInt to 32 bits. torch's Python reference (torch._refs)
expresses the same in operators, which accept SymInts.

In: the data of a constructor call. Out: the tensor, or None if the constructor itself can be captured. PyTorch's counterpart: the
torch.tensor branch in torch/_dynamo/variables/torch.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch._refs
import torch.fx

from dynexplore.engine.graph.finished_graph import example_value
from dynexplore.engine.variables.containers.sequence import SequenceVariable
from dynexplore.engine.variables.contract.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def lower_constructor_of_symints(
    ctx: TraceContext, data: VariableTracker, kwargs: Mapping[str, VariableTracker]
) -> VariableTracker | None:
    """A new tensor from data with a dynamic integer; None for other data.

    The reference ignores the default device, and cannot construct on `meta`.
    """
    if not _is_on_a_device(kwargs.get("device", ConstantVariable(None))):
        return None
    data.read_items(ctx)
    if not _holds_varying_integer(data):
        return None
    return ctx.operation("call_function", torch._refs.tensor, [data], kwargs)


def _is_on_a_device(named: VariableTracker) -> bool:
    if not named.is_constant():
        return False
    device = named.as_constant()
    return torch.get_default_device().type == "cpu" if device is None else str(device) != "meta"


def _holds_varying_integer(value: VariableTracker) -> bool:
    if isinstance(value, SequenceVariable):
        return any(map(_holds_varying_integer, value.items))
    if type(value) is ConstantVariable or not isinstance(value, SymbolicNumberVariable | ConstantVariable):
        return False  # an unspecialized number is a constant until it enters a graph
    try:
        number = value.as_proxy()
    except NotProxyable:  # the call itself reports it
        return False
    return isinstance(number, torch.fx.Node) and isinstance(example_value(number), torch.SymInt)
