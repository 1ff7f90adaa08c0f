"""Autocast: `torch.autocast(device, ...)`, and `torch.cpu.amp.autocast`, `torch.cuda.amp.autocast`.

The idea: torch's own `_enter_autocast` and `_exit_autocast` are the nodes, as in Dynamo. If the program passes no dtype, the
process's default for the device is used and guarded. An existing manager (the decorator `@torch.autocast(...)` creates one, which
each call enters) is entered with its settings, and stores the previous ones in its attributes.

In: calls of these managers, live managers, the `__exit__` of one that Python entered. Out: nodes and active modes. PyTorch's
counterpart: `AutocastModeVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.amp import autocast_mode

from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node, leave_mode
from dynexplore.engine.variables.modes.protocol import MANAGERS, ModeManagerVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_enter_autocast: Any = autocast_mode._enter_autocast
_exit_autocast: Any = autocast_mode._exit_autocast
_AUTOCASTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.autocast, ()), (vars(torch.cpu.amp)["autocast"], ("cpu",)), (vars(torch.cuda.amp)["autocast"], ("cuda",)),
)


class AutocastVariable(ModeManagerVariable):
    """torch.autocast(...)."""

    def enter(self, ctx: TraceContext) -> VariableTracker:
        real = self.cls(*self.arguments, **self.keywords)
        if len(self.arguments) < 2 and self.keywords.get("dtype") is None:
            ctx.global_state.guard_on_cast_type(real.device)
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


def _call_autocast(device: tuple[Any, ...], ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`torch.autocast(device, ...)`, or `torch.cpu.amp.autocast(enabled, dtype, cache_enabled)`, which implies the device."""
    values = tuple(constant_of(ctx, arg, "autocast") for arg in args)
    named = {name: constant_of(ctx, arg, "autocast") for name, arg in kwargs.items()}
    if device:
        named.update(zip(("enabled", "dtype", "cache_enabled"), values, strict=False))
        values = device
    return AutocastVariable(torch.autocast, values, named)


def _autocast_row(device: tuple[Any, ...]) -> Handler:
    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        return _call_autocast(device, ctx, args, kwargs)

    return handler


for _manager, _device in _AUTOCASTS:
    rule(_manager)(_autocast_row(_device))


_SETTINGS = ("device", "fast_dtype", "_enabled", "_cache_enabled")


class LiveAutocastVariable(AutocastVariable):
    """An existing manager: it may be entered repeatedly, and its attributes store what it restores."""

    def __init__(self, manager: VariableTracker, device: str, dtype: torch.dtype, enabled: bool, cache_enabled: bool) -> None:
        super().__init__(torch.autocast, (device, dtype, enabled, cache_enabled))
        self.manager = manager

    def enter(self, ctx: TraceContext) -> VariableTracker:
        device, enabled, dtype, cache_enabled = _autocast_state(self.arguments[0])
        ctx.global_state.guard_on_cast_type(device)
        super().enter(ctx)
        for name, value in (("prev_cache_enabled", cache_enabled), ("prev", enabled), ("prev_fastdtype", dtype)):
            self.manager.set_attribute(ctx, name, ConstantVariable(value))
        return self.manager


def _manager_of_live(ctx: TraceContext, manager: VariableTracker) -> ModeManagerVariable:
    settings = (constant_of(ctx, manager.get_attribute(ctx, name), name) for name in _SETTINGS)
    return LiveAutocastVariable(manager, *settings)


MANAGERS["autocast"] = ("torch.amp.autocast_mode", _manager_of_live)


@builtin(torch.autocast.__exit__)
def _live_autocast_exit(
    ctx: TraceContext, manager: VariableTracker, *raised: VariableTracker, **named: VariableTracker
) -> VariableTracker:
    """The `__exit__` of an autocast that Python entered: the graph restores the settings, the modified code also the nesting.

    The modified code needs no manager: what held it may have let go of it (an ExitStack has).
    """
    names = ("device", "prev", "prev_fastdtype", "prev_cache_enabled")
    device, enabled, dtype, cache = (constant_of(ctx, manager.get_attribute(ctx, name), name) for name in names)
    state = _autocast_state(device)

    def for_real(build: Reconstruction) -> None:
        build.call_object(_end_autocast, *map(ConstantVariable, (device, enabled, dtype, cache)))
        build.writer.pop_top()

    _set_autocast(device, enabled, dtype, cache)
    add_mode_node(ctx, _set_autocast, device, enabled, dtype, cache)
    ctx.active_modes.append(
        ActiveMode(lambda: _set_autocast(*state), lambda inner: add_mode_node(inner, _set_autocast, *state), for_real,
                   of="autocast"))
    return NONE


def _autocast_state(device: str) -> tuple[str, bool, torch.dtype, bool]:
    return device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()


def _end_autocast(device: str, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
    """What `torch.autocast.__exit__` does."""
    if torch.autocast_decrement_nesting() == 0:
        torch.clear_autocast_cache()
    _set_autocast(device, enabled, dtype, cache)


def _set_autocast(device: str, enabled: bool, dtype: torch.dtype, cache: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cache)
