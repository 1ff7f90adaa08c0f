"""Functions marked with `assume_constant_result`: called once, while tracing, with what the arguments are in this call.

The idea: the program promises that the result is the same at every call, so it may depend on anything, the content of tensors
too. Arguments are constants, objects that existed before the frame, and tensors, whose value in this call the nodes so far of the
graph give (graph/values_now.py). Tensors in the result become attributes of the graph.

In: the function, trackers of its arguments. Out: the tracker of its result.
torch/_dynamo/variables/functions.py (invoke_and_store_as_constant) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.values_now import value_now
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def call_once(
    ctx: TraceContext, function: FunctionType, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """Call it now; its result is a constant."""
    try:
        result = function(
            *(_value_now(ctx, arg) for arg in args), **{name: _value_now(ctx, arg) for name, arg in kwargs.items()}
        )
    except NotConstant:
        ctx.break_graph("DX202", function=function.__qualname__, because="assume_constant_result wants arguments that exist now")
    return _constant(ctx, result)


def _value_now(ctx: TraceContext, value: VariableTracker) -> Any:
    """What an argument is in this call. Raises NotConstant."""
    if value.kind != "tensor":
        return value.as_constant() if value.is_constant() else value.live_value()
    if ctx.graph.sets_modes:
        raise NotConstant(value)  # the nodes so far mean something else when a mode is on
    return value_now(ctx.graph, value.as_proxy())


def _constant(ctx: TraceContext, value: Any) -> VariableTracker:
    if is_a(value, torch.Tensor):
        return ctx.constant_tensor(value)
    if type(value) is list:
        return ListVariable([_constant(ctx, item) for item in value])
    if type(value) is tuple:
        return TupleVariable([_constant(ctx, item) for item in value])
    if type(value) is dict:
        made = DictVariable()
        for key, item in value.items():
            made.store(ctx, ctx.build(key, None), _constant(ctx, item))
        return made
    return ctx.build(value, None)
