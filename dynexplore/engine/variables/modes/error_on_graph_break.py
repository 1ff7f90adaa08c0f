"""error_on_graph_break in traced code: a setting for the block that is interpreted, without a node in the graph.

The idea: at a graph break the translator reads the thread's setting (policy/error_on_graph_break.py). A block that is entered at
trace time sets it, and restores it at its end, or when the attempt is discarded. If a graph ends inside the block, the modified
code enters it for real, so that it also applies to the resume function and what that calls.

In: `with error_on_graph_break(...)`, ours or torch's. Out: an active mode without a node. PyTorch's counterpart:
`ErrorOnGraphBreakVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dynexplore.engine.policy.error_on_graph_break import error_on_graph_break, set_breaks_are_errors
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import leave_mode
from dynexplore.engine.variables.modes.protocol import MANAGERS, ModeManagerVariable, exit_for_real
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import late_rule, rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_MODE = "error_on_graph_break"
_TORCH, _ITS_CLASS = "torch._dynamo.decorators", "ErrorOnGraphBreakDecoratorContextManager"


class ErrorOnGraphBreakVariable(ModeManagerVariable):
    """`error_on_graph_break(True)`; `cls` is torch's class if torch's is used."""

    def __init__(self, enabled: bool, cls: type[Any] = error_on_graph_break) -> None:
        super().__init__(cls, (enabled,))
        self.enabled = enabled

    def enter(self, ctx: TraceContext) -> VariableTracker:
        before = set_breaks_are_errors(self.enabled)
        mode = ActiveMode(lambda: _set(before), _nothing, of=_MODE)
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())


def _set(enabled: bool | None) -> None:
    set_breaks_are_errors(enabled)


def _nothing(ctx: TraceContext) -> None:
    """No node: the setting does not affect the graph."""


@builtin(error_on_graph_break)
def _make(ctx: TraceContext, error_on_graph_break: VariableTracker) -> VariableTracker:
    return ErrorOnGraphBreakVariable(bool(constant_of(ctx, error_on_graph_break, _MODE)))


@late_rule(_TORCH, "error_on_graph_break")
def _make_torchs(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    return ErrorOnGraphBreakVariable(_enabled_by(ctx, args, kwargs), getattr(sys.modules[_TORCH], _ITS_CLASS))


def _enabled_by(ctx: TraceContext, args: Args, kwargs: Kwargs) -> bool:
    return bool(constant_of(ctx, args[0] if args else kwargs["error_on_graph_break"], _MODE))


@rule(error_on_graph_break.__exit__)
@late_rule(_TORCH, f"{_ITS_CLASS}.__exit__")
def _leave(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The block was entered for real, before a break inside it: its real `__exit__` runs at the end of the frame."""
    manager = args[0]

    def for_real(build: Reconstruction) -> None:
        build.call_object(exit_for_real, manager)
        build.writer.pop_top()

    outside = _setting_before(manager.live_value())
    before = set_breaks_are_errors(outside)
    ctx.active_modes.append(ActiveMode(lambda: _set(before), _nothing, for_real, of=_MODE))
    return NONE


def _setting_before(manager: Any) -> bool | None:
    """The setting before a live manager was entered."""
    if type(manager) is error_on_graph_break:
        return manager.before[-1]
    before = manager.prev_error_on_graph_break  # a list after torch 2.11, with None for no change
    before = before[-1] if isinstance(before, list) else before
    return bool(manager.error_on_graph_break if before is None else before)


# a decorator's live manager is reused in each call
MANAGERS["error_on_graph_break"] = error_on_graph_break.__module__, lambda ctx, manager: ErrorOnGraphBreakVariable(
    manager.live_value().is_error
)
MANAGERS[_ITS_CLASS] = _TORCH, lambda ctx, manager: ErrorOnGraphBreakVariable(
    manager.live_value().error_on_graph_break, manager.python_type()
)
