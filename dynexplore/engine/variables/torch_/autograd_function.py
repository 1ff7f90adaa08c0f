"""`torch.autograd.Function`s of the program: one node where gradients flow, their forward inlined where none do.

The idea: where an argument wants a gradient, `F.apply(...)` is one node that calls the real `apply`: autograd finds the program's
`backward` there. Where none does (`apply` itself looks at nothing but the tensors among its arguments), autograd records nothing
and all that happens is `forward` without gradient mode: it is inlined, so that its operators stand in the graph and its changes of
lists and attributes in the journal. The `ctx` that it gets is an object of the frame that must not leave it.

In: calls of `F.apply`. Out: trackers of what it returns.
torch/_dynamo/variables/misc.py (AutogradFunctionVariable) does the same job; torch/csrc/autograd/python_function.cpp says what
`apply` does to outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import function as autograd_function
from torch.autograd.function import FunctionCtx

from dynexplore.engine.bytecode import read
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable, makes
from dynexplore.engine.variables.objects.class_facts import peek, raw_lookup
from dynexplore.engine.variables.objects.context_manager import leave_mode, set_grad_mode
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.function_reads import SEEN_BY_PEOPLE, outside_effect, outside_read
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_is_setup_context_defined: Any = autograd_function._is_setup_context_defined


class _PassingObjectVariable(UserObjectVariable):
    """An object whose base is autograd's own C type: it serves inside the frame, and is made for real if it leaves it."""

    is_its_attributes = False

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("an object of autograd's own")


class ForwardContextVariable(_PassingObjectVariable):
    """The `ctx` of a forward that autograd does not record."""

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name not in self.stored and not hasattr(FunctionCtx, name):
            ctx.break_graph("DX405", function=f"ctx.{name}")
        return super().get_attribute(ctx, name)


_APPLY: Any = vars(torch.autograd.Function)["apply"]


@rule(getattr(_APPLY, "__func__", _APPLY))  # a class method of Python until torch 2.13, of C since
def _apply(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    cls = args[0]
    assert isinstance(cls, ClassVariable)
    wants_gradient = any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in (*args, *kwargs.values()))
    if wants_gradient and torch.is_grad_enabled():
        return _as_one_node(ctx, cls, args[1:], kwargs)
    return _inlined(ctx, cls, args[1:], kwargs)


# -- one node ---------------------------------------------------------------------------------------------------------


def _as_one_node(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """The forward runs on fake tensors now and on real ones in the graph.

    So that nothing is seen twice, one whose code prints, or may change something that outlives it, is left to Python.
    """
    function: Any = cls.value
    for name in ("forward", "backward", "setup_context"):
        tracker = cls.get_attribute(ctx, name)  # guards it
        code = getattr(getattr(function, name), "__code__", None)
        if code is None or not SEEN_BY_PEOPLE.isdisjoint(code.co_names) or _sets_globals(code):
            ctx.break_graph("DX405", function=function.__qualname__)
        now = tracker.read(ctx) if name != "backward" else None
        if now is not None and (changed := outside_effect(ctx, getattr(function, name))) is not None:
            ctx.break_graph("DX405", function=function.__qualname__, reads=changed)
        if not ctx.graphs_run_as_they_are and (read_there := outside_read(ctx, getattr(function, name), now)) is not None:
            ctx.break_graph("DX405", function=function.__qualname__, reads=read_there)
    applied = _Applied(function)
    outputs = ctx.operation("call_function", applied.function, args, kwargs)
    if any(place is not None for place in applied.same):
        outputs = TupleVariable([args[place] if place is not None else output
                                 for place, output in zip(applied.same, outputs.unpack(ctx), strict=True)])  # fmt: skip
    return outputs.unpack(ctx)[0] if applied.single else outputs


class _Applied:
    """`cls.apply` as a function of its own (FX writes what looks like torch's own as a path in torch) that gives a tuple always."""

    single = False
    same: Sequence[int | None] = ()  # for each output, which argument it is: one that was marked as dirty is handed back

    def __init__(self, cls: Any) -> None:
        def apply(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            outputs = cls.apply(*args, **kwargs)
            self.single = not isinstance(outputs, tuple)
            outputs = (outputs,) if self.single else outputs
            self.same = [_position(output, args) for output in outputs]
            return outputs

        apply.__name__ = f"{cls.__name__}_apply"
        apply.__module__, apply.__qualname__ = cls.__module__, f"{cls.__qualname__}.apply"
        self.function = apply


def _position(output: object, args: Sequence[Any]) -> int | None:
    return next((place for place, arg in enumerate(args) if arg is output and isinstance(arg, torch.Tensor)), None)


def _sets_globals(code: CodeType) -> bool:
    return any(step.op in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in read(code).steps)


# -- inlined ----------------------------------------------------------------------------------------------------------


def _inlined(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`forward` (and `setup_context`) without gradient mode."""
    context = _new_context(ctx, [*args, *kwargs.values()])
    last = next(iter(reversed(ctx.graph.graph.nodes)), None)
    mode = set_grad_mode(ctx, False, lasting=False)
    forward = cls.get_attribute(ctx, "forward")
    function: Any = cls.value
    if _is_setup_context_defined(function.setup_context):
        result = ctx.call_function(forward, args, kwargs)
        setup = cls.get_attribute(ctx, "setup_context")
        ctx.call_function(setup, [context, TupleVariable(list(args)), result], {})
    else:
        result = ctx.call_function(forward, [context, *args], kwargs)
    outputs = result.unpack(ctx) if isinstance(result, TupleVariable) else [result]
    dirty = context.stored.get("dirty_tensors")
    changed = dirty.unpack(ctx) if dirty is not None else []
    outputs = [_output(ctx, output, [*args, *kwargs.values()], changed) for output in outputs]
    leave_mode(ctx, mode)
    _drop_idle_mode(ctx, last)
    return TupleVariable(outputs) if isinstance(result, TupleVariable) else outputs[0]


def _new_context(ctx: TraceContext, args: Sequence[VariableTracker]) -> ForwardContextVariable:
    context = ForwardContextVariable(FunctionCtx, class_variable=ctx.build(FunctionCtx, None))
    wants = [isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args]
    context.store_own(ctx, "needs_input_grad", TupleVariable([ConstantVariable(want) for want in wants]))
    return context


def _output(
    ctx: TraceContext, output: VariableTracker, inputs: Sequence[VariableTracker], changed: Sequence[VariableTracker]
) -> VariableTracker:
    """An input that comes back unchanged comes back as another tensor on the same data."""
    if not isinstance(output, TensorVariable) or any(output is other for other in changed):
        return output
    if output.fake.requires_grad:
        return ctx.operation("call_method", "detach", [output], {})
    return ctx.operation("call_method", "view_as", [output, output], {}) if any(output is one for one in inputs) else output


def _drop_idle_mode(ctx: TraceContext, before: Any) -> None:
    """Take the two nodes that set the mode out of the graph again where no operator between them could have needed a gradient."""
    added = _nodes_after(ctx, before)
    setting = [node for node in added if node.meta.get("sets_mode")]
    if len(setting) != 2 or setting != [added[0], added[-1]] or setting[0].target is not torch._C._set_grad_enabled:
        return
    inputs = [source for node in added[1:-1] for source in node.all_input_nodes]
    if not any(_wants_gradient(source.meta.get("example_value")) for source in inputs):
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


def _wants_gradient(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_wants_gradient, value))
    return isinstance(value, torch.Tensor) and value.requires_grad


# -- an instance ------------------------------------------------------------------------------------------------------


_MADE = [peek(torch.autograd.Function, name) for name in ("__init__", "__new__")]


@makes(torch.autograd.Function)
def _make_instance(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`F()` of older code, made for its `apply`. What torch's `__init__` does is warn that this is old: left out, once compiled."""
    made = [raw_lookup(ctx, cls.value, name) for name in ("__init__", "__new__")]
    if made != _MADE:
        ctx.break_graph("DX209", type=cls.value.__qualname__)
    return _PassingObjectVariable(cls.value, class_variable=cls)
