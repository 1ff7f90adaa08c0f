"""Context managers: what `with` does, and the modes of torch that traced code enters.

The idea: entering a mode (`torch.no_grad()`) while tracing applies it for real, so that fake results are right, and
adds a node that sets it to the graph, as PyTorch's Dynamo does. The exit function waits on the symbolic stack. When
the graph ends inside the block, nodes that leave the mode are added at its end; the exit function is then *rebuilt*
by making the context manager, entering it for real and taking its `__exit__`: so the instruction that broke and the
resume functions run under the real mode, and whoever calls that `__exit__` restores it.

A mode that was set by a call (`torch.set_grad_enabled(False)`) outlives the frame: the modified code sets it when the
graph has run.

Other context managers are entered by interpreting their `__enter__` and left by their `__exit__`.
torch/_dynamo/variables/ctx_manager.py does the same job.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.fx import traceback
from torch.utils._device import DeviceContext

from dynexplore.engine.graph.modes import Modes, leave_inference_modes
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_facts import find
from dynexplore.engine.variables.objects.class_lookup import bind
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

NONE = ConstantVariable(None)
_enter_autocast: Any = autocast_mode._enter_autocast
_exit_autocast: Any = autocast_mode._exit_autocast
_enter_inference_mode: Any = grad_mode._enter_inference_mode
_exit_inference_mode: Any = grad_mode._exit_inference_mode
_transforms: Any = torch._C._functorch
_AUTOCASTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.autocast, ()), (vars(torch.cpu.amp)["autocast"], ("cpu",)), (vars(torch.cuda.amp)["autocast"], ("cuda",)),
)


def leave_all(modes: list[ActiveMode]) -> None:
    """Restore the process's real modes, last entered first."""
    while modes:
        modes.pop().leave()


def leave_in_graph(ctx: TraceContext, modes: list[ActiveMode]) -> None:
    """Add the nodes that leave the modes, for a graph that ends inside them."""
    for mode in reversed(modes):
        mode.leave_in_graph(ctx)


def add_mode_node(ctx: TraceContext, function: Any, *args: Any) -> Any:
    """A node that changes a mode; no operation of the program, so it is not counted as one."""
    node = ctx.graph.graph.create_node("call_function", function, args, {})
    node.meta["example_value"] = None
    node.meta["sets_mode"] = True
    ctx.graph.sets_modes = True
    ctx.graph.grad_mode = None  # most functions of modes set more than one
    return node


def restoring_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph that sets modes, made so that it leaves them as they were also when one of its operators raises."""

    def run(*inputs: Any) -> Any:
        modes = Modes.now()
        depth = _transforms.get_dynamic_layer_stack_depth()
        try:
            return function(*inputs)
        except BaseException as raised:
            _transforms.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            leave_inference_modes(raised)
            modes.put_back()
            raise

    return run


def _autocast_state(device: str) -> tuple[str, bool, torch.dtype, bool]:
    return device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()


def _set_autocast(device: str, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache)


# -- managers of torch ------------------------------------------------------------------------------------------------


class ModeManagerVariable(VariableTracker):
    """A context manager of torch made in this frame: `torch.no_grad()`."""

    kind = "context manager"

    def __init__(self, cls: type[Any], arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None) -> None:
        self.cls = cls
        self.arguments = arguments
        self.keywords = dict(keywords or {})
        self.entered: list[ActiveMode] = []

    def python_type(self) -> type[Any]:
        return self.cls

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def enter(self, ctx: TraceContext) -> VariableTracker:
        """What `with` does at its begin."""
        raise NotImplementedError

    def exit(self, ctx: TraceContext) -> None:
        """What `with` does at its end."""
        raise NotImplementedError

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__enter__":
            return _ModeMethodVariable(self, True)
        if name == "__exit__":
            return ExitFunctionVariable(self)
        return super().get_attribute(ctx, name)

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """As a decorator of a function made in this frame: the real decorator is made when the value leaves it."""
        if len(args) != 1 or kwargs:
            ctx.break_graph("DX212", callee=self.text())
        return _DecoratedVariable(self, args[0])

    def reconstruct(self, build: Reconstruction) -> None:
        parts = self.cls, self.arguments, self.keywords
        build.call_object(make_manager, *map(ConstantVariable, parts))

    def exit_class(self) -> type[Any]:
        """The class whose `__exit__` stands on the stack when a graph ends inside the block."""
        return self.cls

    def text(self) -> str:
        return f"{self.cls.__name__}({', '.join(map(str, self.arguments))})"


class _DecoratedVariable(VariableTracker):
    """`torch.no_grad()(function)`."""

    kind = "function"
    mutable = True

    def __init__(self, manager: ModeManagerVariable, function: VariableTracker) -> None:
        self.manager, self.function = manager, function

    def python_type(self) -> type[Any]:
        return self.function.python_type()

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        self.manager.enter(ctx)
        try:
            return ctx.call_function(self.function, args, kwargs)
        finally:  # also when the program raises; when the graph breaks, the attempt is thrown away as a whole
            self.manager.exit(ctx)

    def reconstruct(self, build: Reconstruction) -> None:
        build.writer.begin_call()
        build.push(self.manager)
        build.writer.callable_ready()
        build.push(self.function)
        build.writer.call(1)


class _ModeMethodVariable(VariableTracker):
    """`manager.__enter__` as a value."""

    kind = "method"

    def __init__(self, manager: ModeManagerVariable, entering: bool) -> None:
        self.manager = manager

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        return self.manager.enter(ctx)


class ExitFunctionVariable(VariableTracker):
    """The `__exit__` of an entered mode, on the stack as long as the block runs."""

    kind = "exit function"
    mutable = True

    def __init__(self, manager: ModeManagerVariable) -> None:
        self.manager = manager

    def python_type(self) -> type[Any]:
        return type(contextlib.nullcontext().__exit__)

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        self.manager.exit(ctx)
        return ConstantVariable(None)

    def reconstruct(self, build: Reconstruction) -> None:
        manager = self.manager
        if manager.entered:
            build.set_modes_before(manager.entered[-1])
        build.call_object(enter_for_real, ConstantVariable(manager.exit_class()), ConstantVariable(manager.arguments),
                          ConstantVariable(manager.keywords))

    def text(self) -> str:
        return f"{self.manager.text()}.__exit__"


def make_manager(cls: type[Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A context manager for real."""
    return cls(*arguments, **keywords)


def enter_for_real(cls: type[Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Make and enter a context manager for real; its `__exit__`."""
    manager = cls(*arguments, **keywords)
    manager.__enter__()
    return manager.__exit__


# -- gradients --------------------------------------------------------------------------------------------------------


def set_grad_mode(ctx: TraceContext, enabled: bool, *, lasting: bool) -> ActiveMode:
    """Set the mode for real and in the graph."""
    before = torch.is_grad_enabled()

    def for_real(build: Reconstruction) -> None:
        build.call_object(torch._C._set_grad_enabled, ConstantVariable(enabled))
        build.writer.pop_top()

    mode = ActiveMode(
        lambda: torch._C._set_grad_enabled(before),
        lambda inner: _set_in_graph(inner, before),
        for_real if lasting else None,
        of="grad",
    )
    torch._C._set_grad_enabled(enabled)
    _set_in_graph(ctx, enabled)
    ctx.active_modes.append(mode)
    return mode


def change_grad_mode(ctx: TraceContext, enabled: bool) -> VariableTracker:
    """What `torch._C._set_grad_enabled(enabled)` does; TorchFunctionModes that traced code has entered are asked about it, too."""
    if ctx.function_modes.entered:
        answer = ctx.ask_function_mode("call_function", torch._C._set_grad_enabled, [ConstantVariable(enabled)], {})
        if answer is not None:
            return answer
    set_grad_mode(ctx, enabled, lasting=True)
    return NONE


def _set_in_graph(ctx: TraceContext, enabled: bool) -> None:
    """A node, unless the graph has this mode at its end already; of two in a row only the last counts."""
    nodes = ctx.graph.graph.nodes
    last = next(iter(reversed(nodes)), None)
    if last is not None and last.target is torch._C._set_grad_enabled:
        ctx.graph.grad_mode = last.meta["mode_before"]
        ctx.graph.graph.erase_node(last)
    before = ctx.graph.grad_mode
    if before is not enabled:
        add_mode_node(ctx, torch._C._set_grad_enabled, enabled).meta["mode_before"] = before
        ctx.graph.grad_mode = enabled


def leave_mode(ctx: TraceContext, mode: ActiveMode) -> None:
    """Leave a mode, and what was set inside for the rest of it."""
    mode.leave()
    mode.leave_in_graph(ctx)
    place = ctx.active_modes.index(mode)
    inside = ctx.active_modes[place + 1:]
    ctx.active_modes[place:] = [other for other in inside if other.of != mode.of or other.set_for_real is None]


class GradModeVariable(ModeManagerVariable):
    """torch.no_grad(), torch.enable_grad(), torch.set_grad_enabled(mode)."""

    def __init__(self, cls: type[Any], enabled: bool, arguments: tuple[Any, ...] = ()) -> None:
        super().__init__(cls, arguments)
        self.enabled = enabled
        self.asked: list[tuple[bool, int]] = []  # entered under function modes: the mode before, and the count of active modes

    def enter(self, ctx: TraceContext) -> VariableTracker:
        if ctx.function_modes.entered:
            self.asked.append((torch.is_grad_enabled(), len(ctx.active_modes)))
            change_grad_mode(ctx, self.enabled)
        else:
            self.entered.append(set_grad_mode(ctx, self.enabled, lasting=False))
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        if not self.asked:
            leave_mode(ctx, self.entered.pop())
            return
        before, count = self.asked.pop()
        change_grad_mode(ctx, before)
        if torch.is_grad_enabled() is before:  # what was set in between is taken back, so nothing is to be set for real
            ctx.active_modes[count:] = [mode for mode in ctx.active_modes[count:] if mode.of != "grad"]

    def exit_class(self) -> type[Any]:
        if self.asked:
            raise NotImplementedError("a TorchFunctionMode that traced code has entered was asked about it")
        return super().exit_class()


class SetGradModeVariable(GradModeVariable):
    """torch.set_grad_enabled(mode): the call itself sets it; as a context manager it is taken back at the end."""

    def begin(self, ctx: TraceContext) -> None:
        """What the call does."""
        if ctx.function_modes.entered:  # they are asked at the call, at `with` and at its end
            ctx.break_graph("DX419", what="torch.set_grad_enabled is called in its block")
        self.entered.append(set_grad_mode(ctx, self.enabled, lasting=True))

    def enter(self, ctx: TraceContext) -> VariableTracker:
        self.entered[-1].set_for_real = None  # the `with` block takes care of it
        return NONE


def _grad_mode(maker: type[Any], enabled: bool) -> None:
    """`with maker():`, or `maker(function)`."""

    def row(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        manager = GradModeVariable(maker, enabled)
        return manager.call(ctx, args, kwargs) if args else manager

    rule(maker)(row)


_grad_mode(torch.no_grad, False)
_grad_mode(torch.enable_grad, True)


@rule(torch.set_grad_enabled)
def _set_grad_enabled(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    wanted = constant_of(ctx, args[0] if args else kwargs["mode"], "set_grad_enabled")
    manager = SetGradModeVariable(torch.set_grad_enabled, bool(wanted), (wanted,))
    manager.begin(ctx)
    return manager


@rule(torch._C._set_grad_enabled)
def _c_set_grad_enabled(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    return change_grad_mode(ctx, bool(constant_of(ctx, args[0], "_set_grad_enabled")))


@rule(torch.no_grad.__exit__, torch.enable_grad.__exit__, torch.set_grad_enabled.__exit__)
def _live_exit(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """The `__exit__` of a manager that Python entered (a resume function gets it with its stack)."""
    before = constant_of(ctx, args[0].get_attribute(ctx, "prev").read(ctx), "the mode before")
    change_grad_mode(ctx, bool(before))
    return NONE


# -- autocast ---------------------------------------------------------------------------------------------------------


class AutocastVariable(ModeManagerVariable):
    """torch.autocast(...)."""

    def enter(self, ctx: TraceContext) -> VariableTracker:
        real = self.cls(*self.arguments, **self.keywords)
        if len(self.arguments) < 2 and self.keywords.get("dtype") is None:
            ctx.global_state.rely_on_cast_type(real.device)
        values = (real.device, real.fast_dtype, real._enabled, real._cache_enabled)
        entered = _enter_autocast(*values)
        node = add_mode_node(ctx, _enter_autocast, *values)
        mode = ActiveMode(lambda: _exit_autocast(entered), lambda inner: add_mode_node(inner, _exit_autocast, node),
                          of="autocast")
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())


def _call_autocast(
    device: tuple[Any, ...], ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`torch.autocast(device, ...)`, or `torch.cpu.amp.autocast(enabled, dtype, cache_enabled)`, whose device is given."""
    values = tuple(constant_of(ctx, arg, "autocast") for arg in args)
    named = {name: constant_of(ctx, arg, "autocast") for name, arg in kwargs.items()}
    if device:
        named.update(zip(("enabled", "dtype", "cache_enabled"), values, strict=False))
        values = device
    return AutocastVariable(torch.autocast, values, named)


def _autocast_row(device: tuple[Any, ...]) -> Answer:
    def answer(
        ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        return _call_autocast(device, ctx, args, kwargs)

    return answer


for _manager, _device in _AUTOCASTS:
    rule(_manager)(_autocast_row(_device))


@rule(torch.autocast.__exit__)
def _live_autocast_exit(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """The `__exit__` of an autocast that Python entered: inside the graph its settings are set back, then it runs for real."""
    manager = args[0]
    names = ("device", "prev", "prev_fastdtype", "prev_cache_enabled")
    device, enabled, dtype, cache = (constant_of(ctx, manager.get_attribute(ctx, name), name) for name in names)
    now = _autocast_state(device)

    def for_real(build: Reconstruction) -> None:
        build.call_object(_exit_for_real, manager)
        build.writer.pop_top()

    _set_autocast(device, enabled, dtype, cache)
    add_mode_node(ctx, _set_autocast, device, enabled, dtype, cache)
    ctx.active_modes.append(
        ActiveMode(lambda: _set_autocast(*now), lambda inner: add_mode_node(inner, _set_autocast, *now), for_real,
                   of="autocast"))
    return NONE


def _exit_for_real(manager: Any) -> None:
    manager.__exit__(None, None, None)


# -- inference mode, a default device ---------------------------------------------------------------------------------


class EnteredModeVariable(ModeManagerVariable):
    """A mode that one function enters, giving an object that another function leaves."""

    def __init__(
        self, cls: type[Any], argument: Any, begin: Callable[[Any], Any], end: Callable[[Any], None], gives: VariableTracker
    ) -> None:
        super().__init__(cls, (argument,))
        self.begin, self.end, self.gives = begin, end, gives

    def enter(self, ctx: TraceContext) -> VariableTracker:
        entered = self.begin(*self.arguments)
        node = add_mode_node(ctx, self.begin, *self.arguments)
        mode = ActiveMode(lambda: self.end(entered), lambda inner: add_mode_node(inner, self.end, node),
                          of="grad" if self.cls is torch.inference_mode else self.cls.__name__)
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return self.gives

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())


@rule(torch.inference_mode)
def _inference_mode(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    wanted = args[0] if args else kwargs.get("mode", ConstantVariable(True))
    enabled = not wanted.is_constant() or bool(wanted.as_constant())
    manager = EnteredModeVariable(torch.inference_mode, enabled, _enter_inference_mode, _exit_inference_mode, NONE)
    return manager if wanted.is_constant() else manager.call(ctx, args, kwargs)  # as a decorator without parentheses


def _device_manager(device: torch.device) -> EnteredModeVariable:
    """`with torch.device("meta")`: where tensors are made that do not say so."""
    return EnteredModeVariable(torch.device, device, _enter_device, _exit_for_real, ConstantVariable(device))


def _enter_device(device: torch.device) -> Any:
    mode: Any = DeviceContext(device)
    mode.__enter__()
    return mode


# -- managers that do nothing to a graph -------------------------------------------------------------------------------


class NothingManagerVariable(ModeManagerVariable):
    """A profiler's range, or nullcontext: nothing happens to the values inside."""

    def __init__(self, cls: type[Any], arguments: tuple[Any, ...] = (), gives: VariableTracker = NONE) -> None:
        super().__init__(cls, arguments)
        self.gives = gives

    def enter(self, ctx: TraceContext) -> VariableTracker:
        return self.gives

    def exit(self, ctx: TraceContext) -> None:
        return


@rule(torch.autograd.profiler.record_function)
def _record_function(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    names = tuple(constant_of(ctx, arg, "record_function") for arg in (*args, *kwargs.values()))
    return NothingManagerVariable(torch.autograd.profiler.record_function, names)


@rule(traceback.annotate)
def _annotate(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """It writes on the nodes of tracers, of which none but the engine is at work."""
    return NothingManagerVariable(contextlib.nullcontext)


_WATCHES_ONLY = frozenset({
    "activities", "enabled", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "use_cpu",
    "use_cuda", "use_device", "use_kineto", "acc_events",
})  # fmt: skip
"""Arguments of a profiler that only say what it writes down; others call the program back."""


class ProfilerVariable(NothingManagerVariable):
    """A profiler that is entered and never asked: nobody sees what it wrote down, so it is left out.

    One that is asked, or that outlives the graph, is made for real: the frame stops before the step that makes it.
    """

    def enter(self, ctx: TraceContext) -> VariableTracker:
        return self

    def exit_class(self) -> type[Any]:
        return contextlib.nullcontext

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("a profiler whose records may be read")


def _profiler_row(cls: type[Any]) -> Answer:
    def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        given = {name for name, value in kwargs.items() if not (value.is_constant() and value.as_constant() is None)}
        if args or given - _WATCHES_ONLY:
            ctx.break_graph("DX203", function=f"{cls.__module__}.{cls.__qualname__}")
        return ProfilerVariable(cls)

    return answer


for _profiler in (torch.autograd.profiler.profile, torch.profiler.profile):
    rule(_profiler)(_profiler_row(_profiler))


@rule(contextlib.nullcontext)
def _nullcontext(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    entered = args[0] if args else kwargs.get("enter_result", NONE)
    return NothingManagerVariable(contextlib.nullcontext, (), entered)


# -- `with` -----------------------------------------------------------------------------------------------------------


MANAGERS: dict[str, tuple[str, Callable[[Any], ModeManagerVariable]]] = {}
"""Classes whose live objects `with` enters as managers that are made in the frame, by name, with their module."""


def enter_context(ctx: TraceContext, manager: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """Enter a context manager: its exit function, and what entering gave."""
    if manager.is_constant() and isinstance(manager.as_constant(), torch.device):
        if ctx.function_modes.entered:  # a device is a mode, too, and is asked before those around it
            ctx.break_graph("DX419", what="a device is entered in its block")
        manager = _device_manager(manager.as_constant())
    if (make := _known_manager(manager)) is not None:
        manager = make(manager.live_value())
    if isinstance(manager, ModeManagerVariable):
        entered = manager.enter(ctx)
        return ExitFunctionVariable(manager), entered
    enter, exit_function = (_special(ctx, manager, name) for name in ("__enter__", "__exit__"))
    return exit_function, ctx.call_function(enter, [], {})


def _known_manager(manager: VariableTracker) -> Callable[[Any], ModeManagerVariable] | None:
    if isinstance(manager, ModeManagerVariable):
        return None
    try:
        cls = manager.python_type()
    except NotImplementedError:
        return None
    module, make = MANAGERS.get(cls.__name__, ("", None))
    return make if getattr(sys.modules.get(module), cls.__name__, None) is cls else None


def _special(ctx: TraceContext, manager: VariableTracker, name: str) -> VariableTracker:
    """A method that `with` looks up in the class alone: what the object itself has, or answers, under this name does not count."""
    cls = manager.python_type()
    attribute = find(ctx, cls, name)
    if attribute is None or not isinstance(attribute.raw, types.FunctionType):
        ctx.break_graph("DX308", type=manager.type_name())  # none at all, or one in C: a lock, a file
    return bind(ctx, attribute, manager, cls)
