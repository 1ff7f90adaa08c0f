"""Inference mode and default devices: `torch.inference_mode()`, `with torch.device("meta"):`.

The idea: one function enters the mode and returns an object, another function exits the mode given that object; both are nodes.
A resume function may hold the exit of a device that was entered before a graph break: it then removes the real device from the
stack of function modes, in the process until the frame has been interpreted, in the graph until its end, and in the modified code.

In: calls of `torch.inference_mode`, devices that `with` enters. Out: nodes and active modes. PyTorch's counterpart:
`InferenceModeVariable` in torch/_dynamo/variables/ctx_manager.py; for devices, torch_function.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import grad_mode
from torch.utils._device import DeviceContext

from dynexplore.engine.graph.modes import enter_device, leave_device, pop_function_mode, push_function_mode
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node
from dynexplore.engine.variables.modes.protocol import MANAGERS, EnteredModeVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_enter_inference_mode: Any = grad_mode._enter_inference_mode
_ENABLED = ConstantVariable(True)
_exit_inference_mode: Any = grad_mode._exit_inference_mode


@builtin(torch.inference_mode)
def _inference_mode(ctx: TraceContext, mode: VariableTracker = _ENABLED) -> VariableTracker:
    enabled = not mode.is_constant() or bool(mode.as_constant())
    manager = EnteredModeVariable(torch.inference_mode, enabled, _enter_inference_mode, _exit_inference_mode, NONE)
    return manager if mode.is_constant() else manager.call(ctx, [mode], {})  # as a decorator without parentheses


def _device_manager(ctx: TraceContext, constant: VariableTracker) -> EnteredModeVariable:
    """`with torch.device("meta")`: the device on which factory functions create tensors by default."""
    if ctx.function_modes.entered:  # a device is a function mode, too, and dispatches before the outer ones
        ctx.break_graph("DX419", what="a device is entered in its block")
    device = constant.as_constant()
    return EnteredModeVariable(torch.device, device, enter_device, leave_device, ConstantVariable(device))


MANAGERS["device"] = "torch", _device_manager


@method(torch.device, "__enter__")
def _enter_without_with(ctx: TraceContext, device: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Nobody knows where it is exited."""
    ctx.break_graph("DX308", type="device")


@method(torch.device, "__exit__")
def _exit_of_an_outer_block(ctx: TraceContext, device: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The exit of a block that was entered before this frame; torch ignores the arguments."""
    if ctx.function_modes.entered or not isinstance(_innermost_function_mode(), DeviceContext):
        ctx.break_graph("DX308", type="device")
    entered = pop_function_mode()
    node = add_mode_node(ctx, pop_function_mode)

    def exit_in_modified_code(build: Reconstruction) -> None:
        build.call_object(pop_function_mode)
        build.writer.pop_top()

    ctx.active_modes.append(ActiveMode(
        lambda: push_function_mode(entered), lambda inner: add_mode_node(inner, push_function_mode, node),
        exit_in_modified_code, of="device",
    ))  # fmt: skip
    return NONE


def _innermost_function_mode() -> Any:
    depth = torch._C._len_torch_function_stack()
    return torch._C._get_function_stack_at(depth - 1) if depth else None
