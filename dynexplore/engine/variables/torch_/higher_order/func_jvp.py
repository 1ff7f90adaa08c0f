"""torch.func.jvp, jacfwd and hessian: forward-mode AD in one graph.

The idea: as for torch.func.grad (func_grad.py), torch implements forward-mode AD in Python around a few C functions. Three states
are entered, each with a node to enter and a node to exit: a functorch level, the forward-grad setting, and autograd's single dual
level. Making and unpacking a dual tensor is one node each. The rest is inlined.

Exiting a dual level drops the tangents of all its tensors, so no graph can end inside it: it is traced inside jvp only, where a
graph break is moved before the whole call. A `torch.autograd.forward_ad.dual_level()` block of the program breaks the graph.

In: calls of the inner functions of torch._functorch and torch.autograd.forward_ad. Out: nodes, tensors.
PyTorch's counterpart: JvpIncrementNestingCtxManagerVariable and DualLevelContextManager in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._functorch import eager_transforms, predispatch
from torch.autograd import forward_ad

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.protocol import EnteredModeVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.functorch_level import FunctorchLevel

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


# -- the dual level ------------------------------------------------------------------------------------------------------


def enter_dual_level() -> int:
    """Enter autograd's dual level. A separate function, so that it is one node in a graph of any version of torch."""
    level: int = torch._C._enter_dual_level()
    return level


def exit_dual_level() -> None:
    """Exit the dual level; there is never more than one."""
    torch._C._exit_dual_level(level=0)


_DUAL = FunctorchLevel("dual tensors", enter_dual_level, exit_dual_level)


def _refuse(ctx: TraceContext, because: str) -> NoReturn:
    ctx.break_graph("DX421", function="torch.autograd.forward_ad", because=because)


@builtin(_inner._enter_dual_level)
def _enter_dual(ctx: TraceContext) -> VariableTracker:
    if not _LEVEL.stands(ctx):
        _refuse(ctx, "the program enters a dual level itself")
    if _forward._current_level >= 0 or _DUAL.stands(ctx):
        _refuse(ctx, "a dual level is already active")
    return _DUAL.begin(ctx)


@builtin(_inner._exit_dual_level)
def _exit_dual(ctx: TraceContext, *, level: VariableTracker) -> VariableTracker:
    if not _DUAL.stands(ctx):
        _refuse(ctx, "the program exits a dual level that was entered outside")
    return _DUAL.end(ctx)


def _in_dual_level(function: Any) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        if not _DUAL.stands(ctx):  # the fake tensor of a dual tensor has no tangent
            _refuse(ctx, "a dual level was entered outside")
        return ctx.operation("call_function", function, args, kwargs)

    return handler


rule(_inner._make_dual)(_in_dual_level(_VF._make_dual))
rule(_inner._unpack_dual)(_in_dual_level(_VF._unpack_dual))


@builtin(_forward._maybe_load_decompositions)
def _load(ctx: TraceContext) -> VariableTracker:
    """Run at trace time: the operators inside need the decompositions, and loading twice has no effect."""
    with warnings.catch_warnings():  # torch scripts them, which issues a deprecation warning
        warnings.simplefilter("ignore", DeprecationWarning)
        _forward._maybe_load_decompositions()
    return NONE


# -- the forward-grad setting -------------------------------------------------------------------------------------------


def _set_forward_ad_enabled(enabled: bool) -> bool:
    """Set whether forward-mode AD is enabled; returns the previous setting."""
    before: bool = torch._C._is_fwd_grad_enabled()
    torch._C._set_fwd_grad_enabled(enabled)
    return before


@builtin(_forward._set_fwd_grad_enabled)
def _set_fwd_grad_enabled(ctx: TraceContext, mode: VariableTracker, /) -> VariableTracker:
    enabled = bool(constant_of(ctx, mode, "_set_fwd_grad_enabled"))
    restore = torch._C._set_fwd_grad_enabled
    return EnteredModeVariable(_forward._set_fwd_grad_enabled, enabled, _set_forward_ad_enabled, restore, NONE)
