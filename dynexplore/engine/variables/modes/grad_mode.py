"""Grad mode: `torch.no_grad()`, `torch.enable_grad()`, `torch.set_grad_enabled(mode)`.

The idea: grad mode is one thread-local flag. A node sets it, unless the flag already has that value at the end of the graph; of two
consecutive nodes only the last is kept. A `with` block restores it at the end; a call of `torch.set_grad_enabled(False)` outlives
the frame.

In: calls of these managers, `torch._C._set_grad_enabled`. Out: nodes and active modes. PyTorch's counterpart: `GradModeVariable` in
torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node, leave_mode
from dynexplore.engine.variables.modes.protocol import ModeManagerVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def set_grad_mode(ctx: TraceContext, enabled: bool, *, lasting: bool) -> ActiveMode:
    """Set the mode in the process and in the graph."""
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
    """`torch._C._set_grad_enabled(enabled)`, which dispatches to TorchFunctionModes that traced code has entered."""
    if ctx.function_modes.entered:
        dispatched = ctx.calls.dispatch_torch_function("call_function", torch._C._set_grad_enabled, [ConstantVariable(enabled)], {})
        if dispatched is not None:
            return dispatched
    set_grad_mode(ctx, enabled, lasting=True)
    return NONE


def _set_in_graph(ctx: TraceContext, enabled: bool) -> None:
    """Add a node, unless the graph already ends in this mode; of two consecutive nodes only the last is kept."""
    nodes = ctx.graph.graph.nodes
    last = next(iter(reversed(nodes)), None)
    if last is not None and last.target is torch._C._set_grad_enabled:
        ctx.graph.grad_mode = last.meta["mode_before"]
        ctx.graph.graph.erase_node(last)
    before = ctx.graph.grad_mode
    if before is not enabled:
        add_mode_node(ctx, torch._C._set_grad_enabled, enabled).meta["mode_before"] = before
        ctx.graph.grad_mode = enabled


class GradModeVariable(ModeManagerVariable):
    """torch.no_grad(), torch.enable_grad(), torch.set_grad_enabled(mode)."""

    def __init__(self, cls: type[Any], enabled: bool, arguments: tuple[Any, ...] = ()) -> None:
        super().__init__(cls, arguments)
        self.enabled = enabled
        self.nested_calls: list[tuple[bool, int]] = []  # under function modes: the previous mode, and the number of active modes

    def enter(self, ctx: TraceContext) -> VariableTracker:
        if ctx.function_modes.entered:
            self.nested_calls.append((torch.is_grad_enabled(), len(ctx.active_modes)))
            change_grad_mode(ctx, self.enabled)
        else:
            self.entered.append(set_grad_mode(ctx, self.enabled, lasting=False))
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        if not self.nested_calls:
            leave_mode(ctx, self.entered.pop())
            return
        before, count = self.nested_calls.pop()
        change_grad_mode(ctx, before)
        if torch.is_grad_enabled() is before:  # changes in between are undone, so the modified code has nothing to set
            ctx.active_modes[count:] = [mode for mode in ctx.active_modes[count:] if mode.of != "grad"]

    def exit_class(self) -> type[Any]:
        if self.nested_calls:
            raise NotImplementedError("a TorchFunctionMode entered by traced code intercepted it")
        return super().exit_class()


class SetGradModeVariable(GradModeVariable):
    """torch.set_grad_enabled(mode): the call itself sets it; as a context manager it restores the mode at the end."""

    mode_before = True
    """Grad mode when it was called."""

    def begin(self, ctx: TraceContext) -> None:
        """The effect of the call."""
        if ctx.function_modes.entered:  # they are called at the call, at `with` and at its end
            ctx.break_graph("DX419", what="torch.set_grad_enabled is called in its block")
        self.mode_before = torch.is_grad_enabled()
        self.entered.append(set_grad_mode(ctx, self.enabled, lasting=True))

    def enter(self, ctx: TraceContext) -> VariableTracker:
        self.entered[-1].set_for_real = None  # the `with` block restores it
        return NONE

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """As a decorator it restores the mode, and sets it in each call of the function."""
        leave_mode(ctx, self.entered.pop())
        return GradModeVariable(self.cls, self.enabled, self.arguments).call(ctx, args, kwargs)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(_manager_with_mode_before, ConstantVariable(self.mode_before), ConstantVariable(self.enabled))


def _manager_with_mode_before(before: bool, enabled: bool) -> Any:
    """A `torch.set_grad_enabled(enabled)` that was called while grad mode was `before`, which it restores."""
    now = torch.is_grad_enabled()
    torch._C._set_grad_enabled(before)
    manager = torch.set_grad_enabled(enabled)
    torch._C._set_grad_enabled(now)
    return manager


def _grad_mode(maker: type[Any], enabled: bool) -> None:
    """`with maker():`, or `maker(function)`."""

    def row(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        manager = GradModeVariable(maker, enabled)
        return manager.call(ctx, args, kwargs) if args else manager

    rule(maker)(row)


_grad_mode(torch.no_grad, False)
_grad_mode(torch.enable_grad, True)


@builtin(torch.set_grad_enabled)
def _set_grad_enabled(ctx: TraceContext, mode: VariableTracker) -> VariableTracker:
    value = constant_of(ctx, mode, "set_grad_enabled")
    manager = SetGradModeVariable(torch.set_grad_enabled, bool(value), (value,))
    manager.begin(ctx)
    return manager


@builtin(torch._C._set_grad_enabled)
def _c_set_grad_enabled(ctx: TraceContext, enabled: VariableTracker, /) -> VariableTracker:
    return change_grad_mode(ctx, bool(constant_of(ctx, enabled, "_set_grad_enabled")))


@builtin(torch.no_grad.__exit__, torch.enable_grad.__exit__, torch.set_grad_enabled.__exit__)
def _live_exit(ctx: TraceContext, manager: VariableTracker, *raised: VariableTracker, **named: VariableTracker) -> VariableTracker:
    """The `__exit__` of a manager that Python entered (a resume function gets it on its stack)."""
    before = constant_of(ctx, manager.get_attribute(ctx, "prev").read(ctx), "the mode before")
    change_grad_mode(ctx, bool(before))
    return NONE
