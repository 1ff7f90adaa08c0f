"""torch.vmap: a function of one example, called with a batch.

The idea: torch writes vmap in Python around four functions in C: one begins a level, one wraps a tensor so that a dimension of
it is hidden at that level, one unwraps it, one ends the level. So the Python part is interpreted like any code, the function of
the user in its middle too, and the four become nodes (functorch_level.py: the first and the last). A break inside is a break before
the whole call, because no frame is translated while a level is active (runtime/other_tracers.py).

In: calls of torch._functorch's inner functions. Out: nodes, tensors.

torch/_dynamo/variables/ctx_manager.py (VmapIncrementNestingCtxManagerVariable) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import predispatch

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import NONE
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.functorch_level import FunctorchLevel
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_LEVEL = FunctorchLevel("vmap", predispatch._vmap_increment_nesting, predispatch._vmap_decrement_nesting)


@rule(predispatch._vmap_increment_nesting)
def _begin(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    size, randomness = args
    known = size.value if isinstance(size, SymbolicNumberVariable) else size.as_constant()
    way = randomness.as_constant()
    return _LEVEL.begin(ctx, size.as_proxy(), way, known=(known, way))


@rule(predispatch._vmap_decrement_nesting)
def _end(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return _LEVEL.end(ctx)


def _node(function: Any) -> Answer:
    def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        return ctx.operation("call_function", function, args, kwargs)

    return answer


for _function in (predispatch._add_batch_dim, predispatch._remove_batch_dim):
    rule(_function)(_node(_function))


@rule(torch._C._functorch.is_batchedtensor)
def _is_batched(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    tensor = args[0].read(ctx)
    return ConstantVariable(isinstance(tensor, TensorVariable) and torch._C._functorch.is_batchedtensor(tensor.fake))


@rule(predispatch.lazy_load_decompositions)
def _load(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Done now: the operators below need them, and loading twice does nothing."""
    predispatch.lazy_load_decompositions()
    return NONE
