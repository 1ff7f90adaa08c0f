"""torch.autograd.Function: `apply` is one node where an input requires grad; otherwise `forward` is inlined.

The idea: where an argument requires grad, `F.apply(...)` is one node that calls the real `apply`, so that autograd finds the
program's `backward`. Where none does, autograd records nothing and `apply` only runs `forward` in no_grad mode: it is inlined, its
operators become nodes and its mutations go to the journal. The `ctx` object that it receives must not leave the frame. (`apply`
looks for tensors among its arguments only, not inside containers.)

In: calls of `F.apply`. Out: trackers of its results.
PyTorch's counterpart: AutogradFunctionVariable in torch/_dynamo/variables/misc.py; torch/csrc/autograd/python_function.cpp defines
how `apply` treats outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import function as autograd_function
from torch.autograd.function import FunctionCtx

from dynexplore.engine.aliasing.lowerings import OUTSIDE_READS, OutsideReads
from dynexplore.engine.bytecode import read
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.active_modes import leave_mode
from dynexplore.engine.variables.modes.grad_mode import set_grad_mode
from dynexplore.engine.variables.objects.class_ import ClassVariable, makes
from dynexplore.engine.variables.objects.type_lookup import peek, raw_lookup
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.autograd.autograd_function_freevars import OUTPUT_FUNCTIONS, external_effect, outside_reads
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_is_setup_context_defined: Any = autograd_function._is_setup_context_defined


class _TransientObjectVariable(UserObjectVariable):
    """An object whose base is autograd's own C type: usable inside the frame, and created for real if it leaves it."""

    is_its_attributes = False

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("an object of autograd's own")


class ForwardContextVariable(_TransientObjectVariable):
    """The `ctx` of a `forward` that autograd does not record."""

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name not in self.stored and not hasattr(FunctionCtx, name):
            ctx.break_graph("DX405", function=f"ctx.{name}")
        return super().get_attribute(ctx, name)


_APPLY: Any = vars(torch.autograd.Function)["apply"]


@rule(getattr(_APPLY, "__func__", _APPLY))  # a class method in Python until torch 2.13, in C since then
def _apply(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    cls = args[0] if args else None
    if not isinstance(cls, ClassVariable):  # a call of the descriptor itself, which in C has no signature to check
        ctx.break_graph("DX218", callee="autograd.Function.apply")
    wants_gradient = any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in (*args, *kwargs.values()))
    if wants_gradient and torch.is_grad_enabled():
        return _lower_apply(ctx, cls, args[1:], kwargs)
    return _inline_forward(ctx, cls, args[1:], kwargs)


# -- one node ---------------------------------------------------------------------------------------------------------


def _lower_apply(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`forward` runs on fake tensors now and on real ones in the graph.

    A `forward` that prints, or may mutate an object that outlives it, breaks the graph, so that this happens only once.
    """
    function: Any = cls.value
    reads: list[OutsideReads] = []
    for name in ("forward", "backward", "setup_context"):
        tracker = cls.get_attribute(ctx, name)  # for its guard
        code = getattr(getattr(function, name), "__code__", None)
        if code is None or not OUTPUT_FUNCTIONS.isdisjoint(code.co_names) or _sets_globals(code):
            ctx.break_graph("DX405", function=function.__qualname__)
        current_attribute = tracker.read(ctx) if name != "backward" else None
        if current_attribute is not None and (changed := external_effect(ctx, getattr(function, name))) is not None:
            ctx.break_graph("DX405", function=function.__qualname__, reads=changed)
        reads.append(outside_reads(ctx, getattr(function, name), current_attribute))
    applied = _ApplyNode(function)
    outputs = ctx.operation("call_function", applied.function, args, kwargs)
    node = next(node for node in reversed(ctx.graph.graph.nodes) if node.target is applied.function)
    node.meta[OUTSIDE_READS] = reads
    if any(index is not None for index in applied.aliased_args):
        outputs = TupleVariable([args[index] if index is not None else output
                                 for index, output in zip(applied.aliased_args, outputs.unpack(ctx), strict=True)])  # fmt: skip
    return outputs.unpack(ctx)[0] if applied.returns_bare_tensor else outputs


class _ApplyNode:
    """`cls.apply` under a separate class (FX would generate a path into torch for what looks
    like torch's own), always with a tuple as its result.
    """

    returns_bare_tensor = False
    aliased_args: Sequence[int | None] = ()  # for each output, the index of the argument that it is (`mark_dirty`)

    def __init__(self, cls: Any) -> None:
        def apply(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            outputs = cls.apply(*args, **kwargs)
            self.returns_bare_tensor = not isinstance(outputs, tuple)
            outputs = (outputs,) if self.returns_bare_tensor else outputs
            self.aliased_args = [_position_of(output, args) for output in outputs]
            return outputs

        apply.__name__ = f"{cls.__name__}_apply"
        apply.__module__, apply.__qualname__ = cls.__module__, f"{cls.__qualname__}.apply"
        self.function = apply


def _position_of(output: object, args: Sequence[Any]) -> int | None:
    return next((index for index, arg in enumerate(args) if arg is output and isinstance(arg, torch.Tensor)), None)


def _sets_globals(code: CodeType) -> bool:
    return any(step.op in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in read(code).steps)


# -- inlined ----------------------------------------------------------------------------------------------------------


def _inline_forward(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`forward` (and `setup_context`) in no_grad mode."""
    context = _new_context(ctx, [*args, *kwargs.values()])
    last = next(iter(reversed(ctx.graph.graph.nodes)), None)
    mode = set_grad_mode(ctx, False, lasting=False)
    forward = cls.get_attribute(ctx, "forward")
    function: Any = cls.value
    if _is_setup_context_defined(function.setup_context):
        result = forward.call(ctx, args, kwargs)
        setup = cls.get_attribute(ctx, "setup_context")
        setup.call(ctx, [context, TupleVariable(list(args)), result], {})
    else:
        result = forward.call(ctx, [context, *args], kwargs)
    outputs = result.unpack(ctx) if isinstance(result, TupleVariable) else [result]
    dirty = context.stored.get("dirty_tensors")
    changed = dirty.unpack(ctx) if dirty is not None else []
    outputs = [_output(ctx, output, [*args, *kwargs.values()], changed) for output in outputs]
    leave_mode(ctx, mode)
    _remove_redundant_grad_mode(ctx, last)
    return TupleVariable(outputs) if isinstance(result, TupleVariable) else outputs[0]


def _new_context(ctx: TraceContext, args: Sequence[VariableTracker]) -> ForwardContextVariable:
    context = ForwardContextVariable(FunctionCtx, class_variable=ctx.build(FunctionCtx, None))
    wants = [isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args]
    context.store_own(ctx, "needs_input_grad", TupleVariable([ConstantVariable(want) for want in wants]))
    return context


def _output(
    ctx: TraceContext, output: VariableTracker, inputs: Sequence[VariableTracker], changed: Sequence[VariableTracker]
) -> VariableTracker:
    """An input that is returned unchanged becomes a new tensor on the same data."""
    if not isinstance(output, TensorVariable) or any(output is other for other in changed):
        return output
    if output.fake.requires_grad:
        return ctx.operation("call_method", "detach", [output], {})
    return ctx.operation("call_method", "view_as", [output, output], {}) if any(output is value for value in inputs) else output


def _remove_redundant_grad_mode(ctx: TraceContext, before: Any) -> None:
    """Remove the two nodes that set the grad mode if no operator between them could have required grad."""
    added = _nodes_after(ctx, before)
    setting = [node for node in added if node.meta.get("sets_mode")]
    if len(setting) != 2 or setting != [added[0], added[-1]] or setting[0].target is not torch._C._set_grad_enabled:
        return
    inputs = [source for node in added[1:-1] for source in node.all_input_nodes]
    if not any(_requires_grad(source.meta.get("example_value")) for source in inputs):
        for node in setting:
            ctx.graph.graph.erase_node(node)


def _nodes_after(ctx: TraceContext, before: Any) -> list[Any]:
    added = []
    for node in reversed(ctx.graph.graph.nodes):
        if node is before:
            break
        if node.op not in ("placeholder", "get_attr"):
            added.append(node)
    return added[::-1]


def _requires_grad(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_requires_grad, value))
    return isinstance(value, torch.Tensor) and value.requires_grad


# -- an instance ------------------------------------------------------------------------------------------------------


_ORIGINAL_CONSTRUCTORS = [peek(torch.autograd.Function, name) for name in ("__init__", "__new__")]


@makes(torch.autograd.Function)
def _construct_instance(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """The legacy `F()`, created to call its `apply`. torch's `__init__` only warns, and that warning is omitted."""
    constructors = [raw_lookup(ctx, cls.value, name) for name in ("__init__", "__new__")]
    if constructors != _ORIGINAL_CONSTRUCTORS:
        ctx.break_graph("DX209", type=cls.value.__qualname__)
    return _TransientObjectVariable(cls.value, class_variable=cls)
