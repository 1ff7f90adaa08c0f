"""TorchFunctionModes that traced code enters: each call of torch asks the innermost one, as eager does.

The idea: `with mode:` ends in two functions in C, which push on a stack of the thread and pop from it. While tracing the stack
is `ctx.function_modes`, and holds trackers. A call that would go into the graph is first made on fake tensors with a listener on
top (graph/function_question.py): if it asks, the mode's own `__torch_function__` is interpreted with what the call was about. The
mode is off the stack meanwhile, so that the call which it makes in turn asks the next one outside, or nobody. Whoever answers
without a call (`x.shape`, a rule) listens in the same way.

A mode that looks for the difference finds `kwargs` None where torch gives it `{}`, after `func(*args, **{})` of a builtin.

Where the graph ends inside the block, the modified code pushes the modes for real, after everything else.

In: the functions that push, pop and ask. Out: what the mode answers.
torch/_dynamo/variables/torch_function.py does the same job.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dynexplore.engine.graph.function_question import Asked
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import NONE, NothingManagerVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_constant_value
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_push: Any = torch._C._push_on_torch_function_stack
_MODE = "torch function"


# -- the stack --------------------------------------------------------------------------------------------------------


@builtin(_push)
def _enter(ctx: TraceContext, mode: VariableTracker, /) -> VariableTracker:
    ctx.function_modes.entered.append(mode.read(ctx))
    if not any(active.of == _MODE for active in ctx.active_modes):
        ctx.active_modes.append(ActiveMode(_nothing, lambda inner: None, lambda build: _enter_for_real(ctx, build), of=_MODE))
    return NONE


def _nothing() -> None:
    """It was not entered for real."""


def _enter_for_real(ctx: TraceContext, build: Reconstruction) -> None:
    for mode in ctx.function_modes.entered:
        build.call_object(_push, mode)
        build.writer.pop_top()


@builtin(torch._C._pop_torch_function_stack)
def _leave(ctx: TraceContext) -> VariableTracker:
    if not ctx.function_modes.entered:
        ctx.break_graph("DX419", what="a mode that was entered outside is left")
    return ctx.function_modes.entered.pop()


@builtin(torch._C._len_torch_function_stack)
def _depth(ctx: TraceContext) -> VariableTracker:
    return ConstantVariable(torch._C._len_torch_function_stack() + len(ctx.function_modes.entered))


@builtin(torch._C._get_function_stack_at)
def _at(ctx: TraceContext, place: VariableTracker, /) -> VariableTracker:
    index = place.as_constant() - torch._C._len_torch_function_stack()
    if not 0 <= index < len(ctx.function_modes.entered):
        ctx.break_graph("DX419", what="a mode that was entered outside is looked at")
    mode: VariableTracker = ctx.function_modes.entered[index]
    return mode


@builtin(torch._C._is_torch_function_mode_enabled)
def _is_enabled(ctx: TraceContext) -> VariableTracker:
    return ConstantVariable(bool(ctx.function_modes.entered))


# -- asking -----------------------------------------------------------------------------------------------------------


@rule(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary,
      torch.overrides.has_torch_function_variadic)
def _has_overrides(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(bool(ctx.function_modes.entered))


@rule(torch.overrides.handle_torch_function)
def _handle(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """What a function of torch that is written in Python calls when `has_torch_function` has said yes."""
    function, relevant, *given = args
    tensors = [value for value in relevant.unpack(ctx) if isinstance(value, TensorVariable)]
    keywords = DictVariable({name: (ConstantVariable(name), value) for name, value in kwargs.items()})
    return _ask(ctx, function, _overloaded(tensors), TupleVariable(given), keywords)


def _overloaded(tensors: Sequence[VariableTracker]) -> list[type]:
    """The types that a function written in Python names; those in C name subclasses of Tensor alone."""
    found = dict.fromkeys(tensor.python_type() for tensor in tensors)
    return [cls for cls in found if cls.__torch_function__ is not torch._C._disabled_torch_function_impl]


def ask_function_mode(
    ctx: TraceContext, op: str, target: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker | None:
    """What the innermost mode makes of a call; None where torch does not ask about it, or there is no mode."""
    if not ctx.function_modes.entered:
        return None
    asked = ctx.question_about(op, target, args, kwargs)
    if asked is None:
        return None
    if isinstance(target, types.FunctionType) and asked.function is not target:
        ctx.break_graph("DX419", what=f"{target.__qualname__} does not ask it, what that calls does")
    given = _Given(ctx, asked.passed, [*args, *kwargs.values()])
    keywords = None
    if asked.kwargs is not None:
        keywords = DictVariable({name: (ConstantVariable(name), given.tracker_of(value)) for name, value in asked.kwargs.items()})
    arguments = TupleVariable([given.tracker_of(value) for value in asked.arguments])
    tensors = given.tensors()
    overloaded = _overloaded(tensors) if isinstance(asked.function, types.FunctionType) else [
        tensors[0].python_type() if cls is FakeTensor else cls for cls in asked.types]
    return _ask(ctx, _function_tracker(ctx, asked), overloaded, arguments, keywords)


def _ask(
    ctx: TraceContext, function: VariableTracker, overloaded: Sequence[type], args: VariableTracker, kwargs: VariableTracker | None
) -> VariableTracker:
    classes = TupleVariable([ctx.build(cls, None) for cls in overloaded])
    rest = [args] if kwargs is None else [args, kwargs]
    with ctx.function_modes.without_innermost() as mode:
        answer = ctx.call_function(mode.get_attribute(ctx, "__torch_function__"), [function, classes, *rest], {}).read(ctx)
    if answer.is_constant() and answer.as_constant() is NotImplemented:
        ctx.break_graph("DX419", what="its `__torch_function__` gives NotImplemented")
    return answer


class _Given:
    """The trackers of a call's arguments, by what was passed for them."""

    def __init__(self, ctx: TraceContext, passed: Sequence[Any], given: Sequence[VariableTracker]) -> None:
        self.ctx = ctx
        self.by_id: dict[int, VariableTracker] = {}
        for value, tracker in zip(passed, given, strict=True):
            self._note(value, tracker)

    def _note(self, value: Any, tracker: VariableTracker) -> None:
        self.by_id[id(value)] = tracker
        if isinstance(tracker, ListVariable | TupleVariable):
            for item, item_tracker in zip(value, tracker.items, strict=True):
                self._note(item, item_tracker)

    def tensors(self) -> list[VariableTracker]:
        """The tensors among them."""
        return [tracker for tracker in self.by_id.values() if isinstance(tracker, TensorVariable)]

    def tracker_of(self, value: Any) -> VariableTracker:
        """The tracker of an argument as the mode is to see it."""
        known = self.by_id.get(id(value))
        if known is not None:
            return known
        if isinstance(value, list) or type(value) is tuple:
            items = [self.tracker_of(item) for item in value]
            return ListVariable(items) if isinstance(value, list) else TupleVariable(items)
        if value is Ellipsis or is_constant_value(value):
            return self.ctx.build(value, None)
        self.ctx.break_graph("DX419", what=f"it is asked about an argument of type {type(value).__qualname__}")


def _function_tracker(ctx: TraceContext, asked: Asked) -> VariableTracker:
    function = asked.function
    if isinstance(function, types.MethodWrapperType) and function.__name__ == "__get__":
        return TensorGetterVariable(function)
    return ctx.build(function, None)


class TensorGetterVariable(VariableTracker):
    """`torch.Tensor.shape.__get__`: under this name `x.shape` asks."""

    kind = "builtin"
    text_changes = "never"

    def __init__(self, getter: Any) -> None:
        self.getter = getter

    def python_type(self) -> type[Any]:
        return types.MethodWrapperType

    def live_value(self) -> Any:
        return self.getter

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def same_object(self, other: VariableTracker) -> bool | None:
        return False  # each look at it makes a new one

    def hash_key(self, ctx: TraceContext) -> object:
        return self.getter

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__"):
            return ConstantVariable(getattr(self.getter, name))
        return super().get_attribute(ctx, name)

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if len(args) != 1 or kwargs or not isinstance(args[0], TensorVariable):
            ctx.break_graph("DX218", callee=self.text())
        return args[0].get_attribute(ctx, self.getter.__self__.__name__)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.getter)

    def text(self) -> str:
        return f"Tensor.{self.getter.__self__.__name__}.__get__"


@builtin(torch._C.DisableTorchFunctionSubclass)
def _without_subclasses(ctx: TraceContext) -> VariableTracker:
    """Subclasses of Tensor are not asked: none is traced that would be."""
    cls: Any = torch._C.DisableTorchFunctionSubclass
    return NothingManagerVariable(cls)
