"""`TorchFunctionMode`s that traced code enters: torch functions dispatch to the innermost one, as in eager.

The idea: `with mode:` ends in two C functions, which push to and pop from the thread's stack of modes. At trace time that stack is
`ctx.function_modes`, and holds trackers. A call that would become a node is first made on fake tensors under a probe
(graph/torch_function_probe.py): if it dispatches, the mode's `__torch_function__` is interpreted with the same function, types and
arguments. The mode is popped meanwhile, so the call that it makes in turn dispatches to the next outer mode, or to none. Operations
without a node (`x.shape`, a rule) go through the same probe.

The overloaded arguments are in torch's order (subclasses first), and after NotImplemented the next class is tried. One difference
is observable: for `func(*args, **{})` of a builtin, the mode gets `kwargs` None where torch passes `{}`.

If the graph ends inside the block, the modified code pushes the modes for real, after everything else.

In: the functions that push, pop and dispatch. Out: the mode's results. PyTorch's counterpart:
torch/_dynamo/variables/torch_function.py.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.descriptors import class_tracker
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_constant_value
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor.tensor import DISABLED_TORCH_FUNCTION, TensorVariable

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
    """It was not entered for real, so there is nothing to exit."""


def _enter_for_real(ctx: TraceContext, build: Reconstruction) -> None:
    for mode in ctx.function_modes.entered:
        build.call_object(_push, mode)
        build.writer.pop_top()


@builtin(torch._C._pop_torch_function_stack)
def _leave(ctx: TraceContext) -> VariableTracker:
    if not ctx.function_modes.entered:
        ctx.break_graph("DX419", what="exit of a mode that was entered outside")
    return ctx.function_modes.entered.pop()


@builtin(torch._C._len_torch_function_stack)
def _depth(ctx: TraceContext) -> VariableTracker:
    return ConstantVariable(torch._C._len_torch_function_stack() + len(ctx.function_modes.entered))


@builtin(torch._C._get_function_stack_at)
def _at(ctx: TraceContext, position: VariableTracker, /) -> VariableTracker:
    index = position.as_constant() - torch._C._len_torch_function_stack()
    if not 0 <= index < len(ctx.function_modes.entered):
        ctx.break_graph("DX419", what="a mode that was entered outside is inspected")
    mode: VariableTracker = ctx.function_modes.entered[index]
    return mode


@builtin(torch._C._is_torch_function_mode_enabled)
def _is_enabled(ctx: TraceContext) -> VariableTracker:
    return ConstantVariable(bool(ctx.function_modes.entered) or torch._C._len_torch_function_stack() > 0)


# -- dispatch -----------------------------------------------------------------------------------------------------------


@builtin(torch.overrides.has_torch_function, torch.overrides.has_torch_function_unary)
def _has_override(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return _has_overrides(ctx, value)


@builtin(torch.overrides.has_torch_function_variadic)
def _has_overrides(ctx: TraceContext, *args: VariableTracker) -> VariableTracker:
    if ctx.function_modes.entered or not ctx.function_modes.may_dispatch:
        return ConstantVariable(bool(ctx.function_modes.entered))
    return ConstantVariable(bool(_overriding_classes(_tensors_in(ctx, args))))


def _tensors_in(ctx: TraceContext, values: Sequence[VariableTracker]) -> list[VariableTracker]:
    tensors: list[VariableTracker] = []
    for value in values:
        value = value.read(ctx)
        if isinstance(value, TensorVariable):
            tensors.append(value)
        elif isinstance(value, ListVariable | TupleVariable):
            tensors += _tensors_in(ctx, value.items)
    return tensors


@rule(torch.overrides.handle_torch_function)
def _handle(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The function that Python-level torch functions call after `has_torch_function` returned True."""
    function, relevant, *arguments = args
    tensors = _tensors_in(ctx, relevant.unpack(ctx))
    keywords = DictVariable({name: (ConstantVariable(name), value) for name, value in kwargs.items()})
    return _call_overrides(ctx, function, _overloaded(tensors), _overriding_classes(tensors), TupleVariable(arguments), keywords)


def _overloaded(tensors: Sequence[VariableTracker]) -> list[type[Any]]:
    """The `types` argument for functions written in Python; C functions include only subclasses of Tensor."""
    types = [tensor.python_type() for tensor in tensors]
    return _subclasses_first(cls for cls in types if cls.__torch_function__ is not DISABLED_TORCH_FUNCTION)


def _overriding_classes(tensors: Sequence[VariableTracker]) -> list[type[Any]]:
    """The classes whose `__torch_function__` is called, in order."""
    classes = (tensor.torch_function_class() for tensor in tensors if isinstance(tensor, TensorVariable))
    return _subclasses_first(cls for cls in classes if cls is not None)


def _subclasses_first(classes: Iterable[type[Any]]) -> list[type[Any]]:
    """Each class once, in order, but a class before its bases (torch/overrides.py, _get_overloaded_args)."""
    ordered: list[type[Any]] = []
    for cls in classes:
        if cls not in ordered:
            position = next((index for index, other in enumerate(ordered) if issubclass(cls, other)), len(ordered))
            ordered.insert(position, cls)
    return ordered


def dispatch_torch_function(ctx: TraceContext, op: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The result of the innermost mode, or of a class of the call's tensors; None if torch would not dispatch."""
    tensors = _tensors_in(ctx, [*args, *kwargs.values()])
    classes = _overriding_classes(tensors) if ctx.function_modes.dispatches_to_subclasses else []
    if not ctx.function_modes.entered and not classes:
        return None
    dispatch = ctx.calls.torch_function_call(op, target, args, kwargs)
    if dispatch is None:
        return None
    if not dispatch.is_about(op, target):
        ctx.break_graph("DX419", what=f"{target.__qualname__} does not dispatch to it, but a function that it calls does")
    trackers = _PassedArguments(ctx, dispatch.passed, [*args, *kwargs.values()])
    keywords = None
    if dispatch.kwargs is not None:
        passed = dispatch.kwargs.items()
        keywords = DictVariable({name: (ConstantVariable(name), trackers.tracker_of(value)) for name, value in passed})
    arguments = TupleVariable([trackers.tracker_of(value) for value in dispatch.arguments])
    if isinstance(dispatch.function, types.FunctionType):
        overloaded = _overloaded(tensors)
    else:  # a getter passes the class of its tensor, plain or not
        overloaded = [tensors[0].python_type()] if FakeTensor in dispatch.types else _overriding_classes(tensors)
    return _call_overrides(ctx, _function_tracker(ctx, dispatch), overloaded, classes, arguments, keywords)


def _call_overrides(
    ctx: TraceContext, function: VariableTracker, overloaded: Sequence[type[Any]], classes: Sequence[type[Any]],
    args: VariableTracker, kwargs: VariableTracker | None,
) -> VariableTracker:
    """Call the innermost mode, then the classes, until one does not return NotImplemented."""
    types_tracker = TupleVariable([class_tracker(ctx, cls) for cls in overloaded])
    question = [function, types_tracker, args] if kwargs is None else [function, types_tracker, args, kwargs]
    if ctx.function_modes.entered:
        with ctx.function_modes.without_innermost() as mode:
            returned = mode.get_attribute(ctx, "__torch_function__").call(ctx, question, {}).read(ctx)
        if not _is_not_implemented(returned):
            return returned
    for cls in classes:
        returned = class_tracker(ctx, cls).get_attribute(ctx, "__torch_function__").call(ctx, question, {}).read(ctx)
        if not _is_not_implemented(returned):
            return returned
    ctx.break_graph("DX419", what="every `__torch_function__` that was called returned NotImplemented")


def _is_not_implemented(returned: VariableTracker) -> bool:
    return returned.is_constant() and returned.as_constant() is NotImplemented


class _PassedArguments:
    """The trackers of a call's arguments, by the value that was passed for each."""

    def __init__(self, ctx: TraceContext, passed: Sequence[Any], trackers: Sequence[VariableTracker]) -> None:
        self.ctx = ctx
        self.by_id: dict[int, VariableTracker] = {}
        for value, tracker in zip(passed, trackers, strict=True):
            self._note(value, tracker)

    def _note(self, value: Any, tracker: VariableTracker) -> None:
        self.by_id[id(value)] = tracker
        if isinstance(tracker, ListVariable | TupleVariable):
            for item, item_tracker in zip(value, tracker.items, strict=True):
                self._note(item, item_tracker)

    def tracker_of(self, value: Any) -> VariableTracker:
        """The tracker of an argument as the mode sees it."""
        tracker = self.by_id.get(id(value))
        if tracker is not None:
            return tracker
        if is_a(value, list) or type(value) is tuple:
            items = [self.tracker_of(item) for item in value]
            return ListVariable(items) if is_a(value, list) else TupleVariable(items)
        if value is Ellipsis or is_constant_value(value):
            return self.ctx.build(value, None)
        self.ctx.break_graph("DX419", what=f"it is called with an argument of type {type(value).__qualname__}")


def _function_tracker(ctx: TraceContext, dispatch: TorchFunctionDispatched) -> VariableTracker:
    function = dispatch.function
    if isinstance(function, types.MethodWrapperType) and function.__name__ == "__get__":
        return TensorGetterVariable(function)
    return ctx.build(function, None)


class TensorGetterVariable(VariableTracker):
    """`torch.Tensor.shape.__get__`: the function under which `x.shape` dispatches."""

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
        return False  # each access creates a new object

    def hash_key(self, ctx: TraceContext) -> object:
        return self.getter

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__"):
            return ConstantVariable(getattr(self.getter, name))
        return super().get_attribute(ctx, name)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs or not isinstance(args[0], TensorVariable):
            ctx.break_graph("DX218", callee=self.text())
        return args[0].get_attribute(ctx, self.getter.__self__.__name__)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.getter)

    def text(self) -> str:
        return f"Tensor.{self.getter.__self__.__name__}.__get__"
