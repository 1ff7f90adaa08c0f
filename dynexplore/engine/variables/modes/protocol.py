"""The context manager protocol: the `with` statement, and trackers of managers that traced code creates.

The idea: a torch mode (`torch.no_grad()`) is a manager whose `enter` and `exit` apply it in the process and add nodes
(active_modes.py). Its exit function is on the symbolic stack. If the graph ends inside the block, the exit function is
*reconstructed*: the modified code creates the context manager, enters it for real and takes its `__exit__`. So the breaking
instruction and the resume functions run under the real mode, and calling that `__exit__` restores it.

Other context managers are entered and exited by interpreting their `__enter__` and `__exit__`.

In: the manager of a `with` statement. Out: its exit function and the result of entering. Each kind of mode has a file of its own.
PyTorch's counterpart: `ContextWrappingVariable` and `GenericContextWrappingVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node, leave_mode
from dynexplore.engine.variables.objects.descriptors import bind
from dynexplore.engine.variables.objects.type_lookup import find
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


MANAGERS: dict[str, tuple[str, Callable[[TraceContext, VariableTracker], VariableTracker]]] = {}
"""Classes of live managers that `with` handles like managers created in the frame: by name, with their module."""


# -- managers ---------------------------------------------------------------------------------------------------------


class ModeManagerVariable(VariableTracker):
    """A torch context manager created in this frame: `torch.no_grad()`."""

    kind = "context manager"
    mutable = True  # entering it stores what its exit restores

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
        """The effect of entering the `with` block."""
        raise NotImplementedError

    def exit(self, ctx: TraceContext) -> None:
        """The effect of exiting the `with` block."""
        raise NotImplementedError

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__enter__" or (name == "__exit__" and not self.entered):
            ctx.break_graph("DX308", type=self.type_name())  # entered by hand: a later break could not enter the object again
        if name == "__exit__":
            return ExitFunctionVariable(self)
        return super().get_attribute(ctx, name)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Decorate a function defined in this frame; the real decorator is applied when the function leaves the frame."""
        if len(args) != 1 or kwargs:
            ctx.break_graph("DX212", callee=self.text())
        return _DecoratedVariable(self, args[0])

    def reconstruct(self, build: Reconstruction) -> None:
        parts = self.cls, self.arguments, self.keywords
        build.call_object(make_manager, *map(ConstantVariable, parts))

    def exit_class(self) -> type[Any]:
        """The class whose `__exit__` is on the stack if a graph ends inside the block."""
        return self.cls

    def text(self) -> str:
        return f"{self.cls.__name__}({', '.join(map(str, self.arguments))})"


class EnteredModeVariable(ModeManagerVariable):
    """A mode that one function enters, returning an object with which another function exits it."""

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


class _DecoratedVariable(VariableTracker):
    """`torch.no_grad()(function)`."""

    kind = "function"
    mutable = True

    def __init__(self, manager: ModeManagerVariable, function: VariableTracker) -> None:
        self.manager, self.function = manager, function

    def python_type(self) -> type[Any]:
        return self.function.python_type()

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        self.manager.enter(ctx)
        try:
            return self.function.call(ctx, args, kwargs)
        finally:  # also if the program raises; if the graph breaks, the whole attempt is discarded
            self.manager.exit(ctx)

    def reconstruct(self, build: Reconstruction) -> None:
        build.writer.call_helper(lambda: build.push(self.manager), lambda: build.push(self.function))


class ExitFunctionVariable(VariableTracker):
    """The `__exit__` of an entered mode, on the stack while the block runs."""

    kind = "exit function"
    mutable = True

    def __init__(self, manager: ModeManagerVariable) -> None:
        self.manager = manager

    def python_type(self) -> type[Any]:
        return type(contextlib.nullcontext().__exit__)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
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
    """Create a real context manager."""
    return cls(*arguments, **keywords)


def enter_for_real(cls: type[Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Create and enter a real context manager; returns its `__exit__`."""
    manager = cls(*arguments, **keywords)
    manager.__enter__()
    return manager.__exit__


def exit_for_real(manager: Any) -> None:
    """Exit a context manager that was entered for real."""
    manager.__exit__(None, None, None)


# -- `with` -----------------------------------------------------------------------------------------------------------


def enter_context(ctx: TraceContext, manager: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """Enter a context manager; returns its exit function and the result of entering."""
    if (make := _maker_of_manager(manager)) is not None:
        manager = make(ctx, manager)
    if isinstance(manager, ModeManagerVariable):
        entered = manager.enter(ctx)
        return ExitFunctionVariable(manager), entered
    enter, exit_function = (_special_method(ctx, manager, name) for name in ("__enter__", "__exit__"))
    return exit_function, enter.call(ctx, [], {})


def _maker_of_manager(manager: VariableTracker) -> Callable[[TraceContext, VariableTracker], VariableTracker] | None:
    if isinstance(manager, ModeManagerVariable):
        return None
    try:
        cls = manager.python_type()
    except NotImplementedError:
        return None
    module, make = MANAGERS.get(cls.__name__, ("", None))
    return make if getattr(sys.modules.get(module), cls.__name__, None) is cls else None


def _special_method(ctx: TraceContext, manager: VariableTracker, name: str) -> VariableTracker:
    """A method that `with` looks up in the class only, ignoring instance attributes and `__getattr__`."""
    cls = manager.python_type()
    attribute = find(ctx, cls, name)
    if attribute is None or not isinstance(attribute.raw, types.FunctionType):
        ctx.break_graph("DX308", type=manager.type_name())  # no such method, or one in C: a lock, a file
    return bind(ctx, attribute, manager, cls)
