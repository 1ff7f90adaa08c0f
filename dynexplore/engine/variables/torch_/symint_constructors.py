"""Tensors made of integers that vary: `torch.tensor(n)`, `torch.tensor([n, 1])`.

The idea: torch's constructors read the data out in C++, and of an integer that a compiler traces they keep 32 bits. torch's
reference in Python says the same in operators, which take such an integer whole.

In: the data of a call that makes a tensor. Out: the tensor, or None where the constructor itself does.

torch/_dynamo/variables/torch.py does the same for torch.tensor alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch._refs
import torch.fx

from dynexplore.engine.graph.builder import example_value
from dynexplore.engine.variables.containers.sequence import SequenceVariable
from dynexplore.engine.variables.contract.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def lower_constructor_of_symints(
    ctx: TraceContext, data: VariableTracker, kwargs: Mapping[str, VariableTracker]
) -> VariableTracker | None:
    """A new tensor of data in which an integer varies; None of other data.

    The reference knows no default device, and makes nothing on `meta`.
    """
    if not _is_on_a_device(kwargs.get("device", ConstantVariable(None))):
        return None
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
        return False  # one that may vary is a kind of constant until it enters a graph
    try:
        number = value.as_proxy()
    except NotProxyable:  # the call will say so
        return False
    return isinstance(number, torch.fx.Node) and isinstance(example_value(number), torch.SymInt)
