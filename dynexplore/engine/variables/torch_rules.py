"""Rules for torch callables that are no operators: questions about the process, types and settings.

The idea: the default for a torch callable is one node of the graph (function.py); the rows here are the exceptions. What they
answer while tracing is guarded by GLOBAL_STATE, or constant.

torch/_dynamo/variables/torch.py does the same job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.constant import ConstantVariable, constant_of, run_now
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext

# Functions of constants, or of the process's state that GLOBAL_STATE guards: run while tracing.
RUN_NOW: tuple[Callable[..., Any], ...] = (
    torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype, torch.finfo, torch.iinfo,
    torch.promote_types, torch.can_cast, torch.is_autocast_enabled, torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled, torch.are_deterministic_algorithms_enabled, torch.device, torch.cuda.is_available,
    torch.backends.cudnn.is_available, torch.backends.mkldnn.is_available, torch._C._get_cudnn_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled, torch.get_num_threads, torch.is_storage,
)


def _runs_now(function: Callable[..., Any]) -> Answer:
    def answer(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        name = getattr(function, "__name__", str(function))
        values = [constant_of(ctx, arg, name) for arg in args]
        named = {key: constant_of(ctx, arg, name) for key, arg in kwargs.items()}
        return ctx.build(run_now(ctx, function, *values, **named), None)

    return answer


for _function in RUN_NOW:
    rule(_function)(_runs_now(_function))


@rule(torch.is_tensor)
def _is_tensor(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(isinstance(args[0], TensorVariable))


@rule(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def _is_compiling(ctx: TraceContext, args: Sequence[VariableTracker],
                  kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(True)


@rule(torch.compiler.is_exporting, torch.jit.is_scripting, torch.jit.is_tracing, torch._C._get_tracing_state)
def _not_so(ctx: TraceContext, args: Sequence[VariableTracker],
            kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(False)


@rule(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary,
      torch.overrides.has_torch_function_variadic)
def _no_overrides(ctx: TraceContext, args: Sequence[VariableTracker],
                  kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(False)


@rule(torch._assert)
def _assert(ctx: TraceContext, args: Sequence[VariableTracker],
            kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    condition = args[0].truth(ctx)
    if not isinstance(condition, bool):
        ctx.break_graph("DX106")
    if not condition:
        message = args[1] if len(args) > 1 else kwargs["message"]
        ctx.raise_exception(AssertionError, message.as_constant())
    return ConstantVariable(None)
