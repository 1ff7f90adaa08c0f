"""Inference mode and default devices: `torch.inference_mode()`, `with torch.device("meta"):`.

The idea: one function enters the mode and returns an object, another function exits the mode given that object; both are nodes.

In: calls of `torch.inference_mode`, devices that `with` enters. Out: nodes and active modes. PyTorch's counterpart:
`InferenceModeVariable` in torch/_dynamo/variables/ctx_manager.py; for devices, torch_function.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import grad_mode
from torch.utils._device import DeviceContext

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.protocol import MANAGERS, EnteredModeVariable, exit_for_real
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

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
    return EnteredModeVariable(torch.device, device, _enter_device, exit_for_real, ConstantVariable(device))


def _enter_device(device: torch.device) -> Any:
    mode: Any = DeviceContext(device)
    mode.__enter__()
    return mode


MANAGERS["device"] = "torch", _device_manager
