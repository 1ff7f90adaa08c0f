"""`assume_constant_result`: the function is called once, at trace time, with the arguments' values in this call.

The idea: the program promises that the result is the same in every call, so it may depend on anything, including tensor data.
Arguments are constants, objects that existed before the frame, and tensors, whose real values are computed by running the graph's
nodes so far (graph/concrete_value.py). Tensors in the result become attributes of the graph module (`get_attr`).

In: the function, trackers of its arguments. Out: the tracker of its result. PyTorch's counterpart: `invoke_and_store_as_constant`
in torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.concrete_value import concrete_value
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def call_once(ctx: TraceContext, function: FunctionType, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call the function now; its result is a constant."""
    try:
        result = function(
            *(_value_now(ctx, arg) for arg in args), **{name: _value_now(ctx, arg) for name, arg in kwargs.items()}
        )
    except NotConstant:
        ctx.break_graph("DX202", function=function.__qualname__, because="an argument does not exist yet during capture")
    return _constant(ctx, result)


def _value_now(ctx: TraceContext, value: VariableTracker) -> Any:
    """The value of an argument in this call. Raises NotConstant."""
    if value.kind != "tensor":
        return value.as_constant() if value.is_constant() else value.live_value()
    if ctx.graph.sets_modes:
        raise NotConstant(value)  # under a mode, re-running the nodes would give other values
    return concrete_value(ctx.graph, value.as_proxy())


def _constant(ctx: TraceContext, value: Any) -> VariableTracker:
    if is_a(value, torch.Tensor):
        return ctx.values.constant_tensor(value)
    if type(value) is list:
        return ListVariable([_constant(ctx, item) for item in value])
    if type(value) is tuple:
        return TupleVariable([_constant(ctx, item) for item in value])
    if type(value) is dict:
        constant = DictVariable()
        for key, item in value.items():
            constant.store(ctx, ctx.build(key, None), _constant(ctx, item))
        return constant
    return ctx.build(value, None)
