"""torch.func.jvp, jacfwd and hessian: a function and its derivative along a direction, both in the graph.

The idea: as with torch.func.grad (func_grad.py), torch writes forward mode in Python around a few functions in C. Three states are
entered, each with a node that begins it and one that ends it: a level of functorch, the permission to note derivatives forward,
and autograd's one level of dual tensors. Dual tensors are made and taken apart by one node each. All else is interpreted.

A level of dual tensors ends with the tangents of all its tensors, so a graph cannot end inside one and be continued: it is traced
inside jvp alone, where a break is a break before the whole call. A block of `torch.autograd.forward_ad.dual_level()` of the
program's own breaks the graph.

In: calls of the inner functions of torch._functorch and torch.autograd.forward_ad. Out: nodes, tensors.

torch/_dynamo/variables/ctx_manager.py (JvpIncrementNestingCtxManagerVariable, DualLevelContextManager) does the same job.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._functorch import eager_transforms, predispatch
from torch.autograd import forward_ad

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import NONE, EnteredModeVariable
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.functorch_level import FunctorchLevel

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_transforms: Any = eager_transforms
_inner: Any = predispatch
_forward: Any = forward_ad
_VF: Any = torch._VF


_LEVEL = FunctorchLevel("torch.func.jvp", _transforms._jvp_increment_nesting, _transforms._jvp_decrement_nesting)


@builtin(_transforms._jvp_increment_nesting)
def _begin(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.begin(ctx)


@builtin(_transforms._jvp_decrement_nesting)
def _end(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.end(ctx)


# -- the level of dual tensors ----------------------------------------------------------------------------------------


def enter_dual_level() -> int:
    """Begin autograd's level of dual tensors. As a function of its own it is one node in a graph of any version of torch."""
    level: int = torch._C._enter_dual_level()
    return level


def exit_dual_level() -> None:
    """End it; there is never more than one."""
    torch._C._exit_dual_level(level=0)


_DUAL = FunctorchLevel("dual tensors", enter_dual_level, exit_dual_level)


def _refuse(ctx: TraceContext, because: str) -> NoReturn:
    ctx.break_graph("DX421", function="torch.autograd.forward_ad", because=because)


@builtin(_inner._enter_dual_level)
def _enter_dual(ctx: TraceContext) -> VariableTracker:
    if not _LEVEL.stands(ctx):
        _refuse(ctx, "a level of dual tensors is begun by the program itself")
    if _forward._current_level >= 0 or _DUAL.stands(ctx):
        _refuse(ctx, "a level of dual tensors stands already")
    return _DUAL.begin(ctx)


@builtin(_inner._exit_dual_level)
def _exit_dual(ctx: TraceContext, *, level: VariableTracker) -> VariableTracker:
    if not _DUAL.stands(ctx):
        _refuse(ctx, "a level of dual tensors that was begun outside is ended")
    return _DUAL.end(ctx)


def _of_dual_tensors(function: Any) -> Answer:
    def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        if not _DUAL.stands(ctx):  # the fake twin of a dual tensor has no tangent
            _refuse(ctx, "a level of dual tensors was begun outside")
        return ctx.operation("call_function", function, args, kwargs)

    return answer


rule(_inner._make_dual)(_of_dual_tensors(_VF._make_dual))
rule(_inner._unpack_dual)(_of_dual_tensors(_VF._unpack_dual))


@builtin(_forward._maybe_load_decompositions)
def _load(ctx: TraceContext) -> VariableTracker:
    """Done now: the operators below need them, and loading twice does nothing."""
    with warnings.catch_warnings():  # torch scripts them, which it calls deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        _forward._maybe_load_decompositions()
    return NONE


# -- the permission ---------------------------------------------------------------------------------------------------


def _allow(enabled: bool) -> bool:
    """Say whether derivatives are noted forward; gives what was said before."""
    before: bool = torch._C._is_fwd_grad_enabled()
    torch._C._set_fwd_grad_enabled(enabled)
    return before


@builtin(_forward._set_fwd_grad_enabled)
def _set_forward(ctx: TraceContext, mode: VariableTracker, /) -> VariableTracker:
    wanted = bool(constant_of(ctx, mode, "_set_fwd_grad_enabled"))
    return EnteredModeVariable(_forward._set_fwd_grad_enabled, wanted, _allow, torch._C._set_fwd_grad_enabled, NONE)
