"""torch.func.grad, vjp, jacrev and what is made of them: a function and its derivative, both in the graph.

The idea: as with vmap (vmap.py), torch writes the transforms in Python around a few functions in C: one begins a level, one ends
it (functorch_level.py), one wraps a tensor so that gradients are noted at that level alone, one unwraps it. The Python part is
interpreted, the function of the user in its middle too; the few become nodes. The derivative itself (`_autograd_grad`) is one
node, which runs autograd on what the nodes before it have noted; on fake tensors it gives the shapes.

In: calls of torch._functorch's inner functions. Out: nodes, tensors.

torch/_dynamo/variables/ctx_manager.py (GradIncrementNestingCtxManagerVariable) does the same job.
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
from dynexplore.engine.variables.objects.context_manager import NONE, NothingManagerVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.functorch_level import FunctorchLevel
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_functorch: Any = torch._C._functorch
_LEVEL = FunctorchLevel("torch.func.grad", _functorch._grad_increment_nesting, _functorch._grad_decrement_nesting)
_unwrap_of_torch: Any = eager_transforms._unwrap_for_grad  # type: ignore[attr-defined]


@builtin(_functorch._grad_increment_nesting)
def _begin(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.begin(ctx)


@builtin(_functorch._grad_decrement_nesting)
def _end(ctx: TraceContext) -> VariableTracker:
    return _LEVEL.end(ctx)


@rule(_functorch._wrap_for_grad)
def _wrap(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ctx.operation("call_function", _functorch._wrap_for_grad, args, kwargs)


@rule(_unwrap_of_torch)
def _unwrap(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ctx.operation("call_function", _unwrap_of_torch, args, kwargs)


def require_gradients(tensor: torch.Tensor) -> torch.Tensor:
    """`requires_grad_()` of a tensor that a level has wrapped, which functorch allows to itself alone."""
    before = _functorch.get_inplace_requires_grad_allowed()
    _functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        _functorch.set_inplace_requires_grad_allowed(before)


@builtin(eager_transforms._set_tensor_requires_grad)
def _require_gradients(ctx: TraceContext, tensor: VariableTracker, /) -> VariableTracker:
    return ctx.operation("call_function", require_gradients, [tensor], {})


@builtin(eager_transforms.enable_inplace_requires_grad)
def _allowed(ctx: TraceContext, enabled: VariableTracker, /) -> VariableTracker:
    """The node that needs it does so itself."""
    return NothingManagerVariable(_functorch.set_inplace_requires_grad_allowed, (constant_of(ctx, enabled, "it"),))


def hooks_are_set() -> bool:
    """Whether the program has hooks on saved tensors in this thread."""
    innermost: Any = torch._C._autograd._top_saved_tensors_default_hooks
    return innermost(True) is not None


_HOOKS_ARE_SET = CallSource(ObjectSource(hooks_are_set, "saved_tensors_hooks_are_set"), operator.call, "operator.call")


@builtin(torch.autograd.graph.disable_saved_tensors_hooks)
def _without_hooks(ctx: TraceContext, message: VariableTracker, /) -> VariableTracker:
    """Hooks on saved tensors are not traced: what sets them breaks the graph. Under those that are set already torch refuses."""
    manager: Any = torch.autograd.graph.disable_saved_tensors_hooks
    if constant_of(ctx, ctx.build(hooks_are_set(), _HOOKS_ARE_SET), "it"):
        ctx.break_graph("DX203", function="torch.autograd.graph.disable_saved_tensors_hooks")
    return NothingManagerVariable(manager, (constant_of(ctx, message, "it"),))


@builtin(eager_transforms._autograd_grad)
def _derivative(
    ctx: TraceContext, outputs: VariableTracker, inputs: VariableTracker, grad_outputs: VariableTracker = NONE,
    retain_graph: VariableTracker | None = None, create_graph: VariableTracker | None = None,
) -> VariableTracker:
    """One node; a list of inputs is a tuple to it. A compiler knows nothing of what was noted before its graph began."""
    if not ctx.graphs_run_as_they_are:
        asked = [part.read(ctx) for given in (outputs, inputs) for part in given.unpack(ctx)]
        if any(isinstance(part, TensorVariable) and part.real is not None for part in asked):
            ctx.break_graph("DX406", operation="the derivative of what an earlier graph computed (torch.func.vjp)")
    parts = [outputs, inputs, grad_outputs, retain_graph or ConstantVariable(False), create_graph or ConstantVariable(True)]
    given = [part if part.is_constant() else TupleVariable(part.unpack(ctx)) for part in parts]
    return ctx.operation("call_function", eager_transforms._autograd_grad, given, {})


_wraps: Any = getattr(apis, "_wraps_without_dynamo_attrs", None)


def _as_wraps(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """What the wrappers of torch.func are decorated with: functools.wraps, less the marks of torch's own compiler."""
    (function,) = args
    known = getattr(function.live_value(), "__dict__", {}) if function.source is not None else {}
    if any(name in known for name in apis._DYNAMO_WRAPPER_ATTRS):
        ctx.break_graph("DX202", function=function.text(), because="it bears a mark of torch.compile")
    return ctx.call_function(ctx.build(functools.wraps, None), args, kwargs)


if _wraps is not None:  # older versions decorate with functools.wraps
    rule(_wraps)(_as_wraps)
