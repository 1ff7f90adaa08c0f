"""torch.func.grad, vjp and jacrev: a function and its derivative in one graph.

The idea: as for vmap (vmap.py), torch implements the transforms in Python around a few C functions: push and pop a level
(functorch_level.py), wrap a tensor so that autograd records it at that level only, unwrap it. The Python part is inlined with the
user's function; the C functions become nodes. The derivative (`_autograd_grad`) is one node, which runs autograd on what the
preceding nodes recorded; on fake tensors it computes the metadata of the gradients.

In: calls of torch._functorch's inner functions. Out: nodes, tensors.
PyTorch's counterpart: GradIncrementNestingCtxManagerVariable in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import apis, eager_transforms

from dynexplore.engine.provenance.sources import CallSource, ObjectSource
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.null_context import NullContextVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.functorch_level import FunctorchLevel

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_functorch: Any = torch._C._functorch
_LEVEL = FunctorchLevel("torch.func.grad", _functorch._grad_increment_nesting, _functorch._grad_decrement_nesting)
_unwrap_for_grad: Any = eager_transforms._unwrap_for_grad  # type: ignore[attr-defined]


@builtin(_functorch._grad_increment_nesting)
def _begin(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.begin(ctx)


@builtin(_functorch._grad_decrement_nesting)
def _end(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.end(ctx)


@rule(_functorch._wrap_for_grad)
def _wrap_for_grad(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ctx.operation("call_function", _functorch._wrap_for_grad, args, kwargs)


@rule(_unwrap_for_grad)
def _lower_unwrap(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ctx.operation("call_function", _unwrap_for_grad, args, kwargs)


def require_grad_in_level(tensor: torch.Tensor) -> torch.Tensor:
    """`requires_grad_()` of a tensor wrapped at a level, which only functorch itself may call."""
    before = _functorch.get_inplace_requires_grad_allowed()
    _functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        _functorch.set_inplace_requires_grad_allowed(before)


@builtin(eager_transforms._set_tensor_requires_grad)
def _set_tensor_requires_grad(ctx: TraceContext, tensor: VariableTracker, /) -> VariableTracker:
    return ctx.operation("call_function", require_grad_in_level, [tensor], {})


@builtin(eager_transforms.enable_inplace_requires_grad)
def _enable_inplace_requires_grad(ctx: TraceContext, enabled: VariableTracker, /) -> VariableTracker:
    """No node: the node that needs this setting sets it itself."""
    return NullContextVariable(_functorch.set_inplace_requires_grad_allowed, (constant_of(ctx, enabled, "it"),))


def hooks_are_set() -> bool:
    """Whether the program has hooks on saved tensors in this thread."""
    innermost: Any = torch._C._autograd._top_saved_tensors_default_hooks
    return innermost(True) is not None


_HOOKS_ARE_SET = CallSource(ObjectSource(hooks_are_set, "saved_tensors_hooks_are_set"), operator.call, "operator.call")


@builtin(torch.autograd.graph.disable_saved_tensors_hooks)
def _disable_saved_tensors_hooks(ctx: TraceContext, message: VariableTracker, /) -> VariableTracker:
    """Saved-tensor hooks are not traced: setting them breaks the graph. If some are set already, torch raises here."""
    manager: Any = torch.autograd.graph.disable_saved_tensors_hooks
    if constant_of(ctx, ctx.build(hooks_are_set(), _HOOKS_ARE_SET), "it"):
        ctx.break_graph("DX203", function="torch.autograd.graph.disable_saved_tensors_hooks")
    return NullContextVariable(manager, (constant_of(ctx, message, "it"),))


@builtin(eager_transforms._autograd_grad)
def _autograd_grad(
    ctx: TraceContext, outputs: VariableTracker, inputs: VariableTracker, grad_outputs: VariableTracker = NONE,
    retain_graph: VariableTracker | None = None, create_graph: VariableTracker | None = None,
) -> VariableTracker:
    """Lower to one node, which takes a list of inputs as a tuple."""
    parts = [outputs, inputs, grad_outputs, retain_graph or ConstantVariable(False), create_graph or ConstantVariable(True)]
    arguments = [part if part.is_constant() else TupleVariable(part.unpack(ctx)) for part in parts]
    return ctx.operation("call_function", eager_transforms._autograd_grad, arguments, {})


_wraps: Any = getattr(apis, "_wraps_without_dynamo_attrs", None)


def _wraps_without_dynamo_attrs(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """The decorator of torch.func's wrappers: functools.wraps without Dynamo's attributes."""
    (function,) = args
    attributes = getattr(function.live_value(), "__dict__", {}) if function.source is not None else {}
    if any(name in attributes for name in apis._DYNAMO_WRAPPER_ATTRS):
        ctx.break_graph("DX202", function=function.text(), because="it has a torch.compile marker")
    return ctx.build(functools.wraps, None).call(ctx, args, kwargs)


if _wraps is not None:  # older versions use functools.wraps
    rule(_wraps)(_wraps_without_dynamo_attrs)
