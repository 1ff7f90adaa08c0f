"""torch.vmap: a function of one example, called with a batch.

The idea: torch implements vmap in Python around four C functions: push a level, add a batch dimension at that level, remove it, pop
the level. The Python part is inlined with the user's function, and the four become nodes (functorch_level.py pushes and pops). A
graph break inside is moved before the whole call, because no frame is captured while a level is active (runtime/foreign_modes.py).

In: calls of torch._functorch's inner functions. Out: nodes, tensors. PyTorch's counterpart:
`VmapIncrementNestingCtxManagerVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import predispatch

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.functorch_level import FunctorchLevel
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_LEVEL = FunctorchLevel("vmap", predispatch._vmap_increment_nesting, predispatch._vmap_decrement_nesting)


@rule(predispatch._vmap_increment_nesting)
def _begin(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    size, randomness = args
    live_size = size.value if isinstance(size, SymbolicNumberVariable) else size.as_constant()
    way = randomness.as_constant()
    return _LEVEL.begin(ctx, size.as_proxy(), way, live_args=(live_size, way))


@rule(predispatch._vmap_decrement_nesting)
def _end(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return _LEVEL.end(ctx)


def _lower(function: Any) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        return ctx.operation("call_function", function, args, kwargs)

    return handler


for _function in (predispatch._add_batch_dim, predispatch._remove_batch_dim):
    rule(_function)(_lower(_function))


@builtin(torch._C._functorch.is_batchedtensor)
def _is_batched(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    tensor = value.read(ctx)
    return ConstantVariable(isinstance(tensor, TensorVariable) and torch._C._functorch.is_batchedtensor(tensor.fake))


@rule(predispatch.lazy_load_decompositions)
def _load(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Run at trace time: the operators inside need the decompositions, and loading twice has no effect."""
    predispatch.lazy_load_decompositions()
    return NONE
