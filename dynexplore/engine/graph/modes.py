"""The modes of this thread, from grad mode to default devices: snapshot and restore, for a graph that raises inside a mode.

The idea: a graph that enters a mode and then raises never reaches the node that exits it. Restoring the settings is not enough:
autocast counts the nesting of its blocks, and only the exit of the outermost one clears the cache of cast weights. With one level
too many, a later block would train with the weights of an earlier step. A dual level that a graph has entered is exited: torch
allows no nested one.

In: the thread's state. Out: `Modes`, a snapshot to restore. And for a node: the inference mode that it enters, whether it changes
the default device. PyTorch's counterpart: torch/amp/autocast_mode.py and torch/autograd/forward_ad.py define what entering and
exiting does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.autograd import forward_ad, grad_mode
from torch.utils import _device as default_device

from dynexplore.engine.records import record

_CASTING_DEVICES = ("cpu", "cuda")
_torch: dict[str, Any] = vars(torch._C)
_KERNELS = [name for name in ("cudnn", "flash", "mem_efficient", "math", "overrideable") if f"_get_{name}_sdp_enabled" in _torch]


def _autocast_depth() -> int:
    """The nesting depth of autocast; torch returns it only when incrementing or decrementing."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _end_dual_level() -> None:
    """Exit a dual level that torch's Python code does not know about: only a graph can have entered it."""
    if forward_ad._current_level >= 0:
        return
    with contextlib.suppress(RuntimeError):  # already entered: the only way to find out
        torch._C._enter_dual_level()
    torch._C._exit_dual_level(level=0)


def _function_modes() -> list[Any]:
    """The stack of function modes, to which default devices belong, outermost first."""
    return [_torch["_get_function_stack_at"](index) for index in range(torch._C._len_torch_function_stack())]


def _set_function_modes(modes: list[Any]) -> None:
    now = _function_modes()
    if list(map(id, now)) == list(map(id, modes)):
        return
    for _ in now:
        _torch["_pop_torch_function_stack"]()
    for mode in modes:
        _torch["_push_on_torch_function_stack"](mode)


def enter_device(device: torch.device) -> Any:
    """Enter a default device, as `with torch.device(...)` does; returns the mode."""
    mode: Any = default_device.DeviceContext(device)
    mode.__enter__()
    return mode


def leave_device(mode: Any) -> None:
    """Exit a default device that `enter_device` entered."""
    mode.__exit__(None, None, None)


pop_function_mode: Any = _torch["_pop_torch_function_stack"]
push_function_mode: Any = _torch["_push_on_torch_function_stack"]
_SET_DEFAULT_DEVICE = (enter_device, leave_device, pop_function_mode, push_function_mode)


def sets_default_device(node: torch.fx.Node) -> bool:
    """Whether a node enters or exits a default device."""
    return node.target in _SET_DEFAULT_DEVICE


def has_default_device() -> bool:
    """Whether a default device is active in this thread."""
    return any(type(mode) is default_device.DeviceContext for mode in _function_modes())


@contextlib.contextmanager
def default_devices_off() -> Iterator[None]:
    """While active, no default device changes what a backend creates."""
    modes, device = _function_modes(), default_device.CURRENT_DEVICE
    _set_function_modes([mode for mode in modes if type(mode) is not default_device.DeviceContext])
    default_device.CURRENT_DEVICE = None
    try:
        yield
    finally:
        _set_function_modes(modes)
        default_device.CURRENT_DEVICE = device


_ENTER_INFERENCE_MODE: Any = grad_mode._enter_inference_mode


def inference_mode_entered(node: torch.fx.Node) -> bool | None:
    """Whether the inference mode that a node enters is on or off; None if it enters none."""
    if node.target is not _ENTER_INFERENCE_MODE:
        return None
    return bool(node.args[0] if node.args else node.kwargs.get("mode", True))


def leave_inference_modes(raised: BaseException) -> None:
    """Exit the inference mode blocks that a graph had entered when it raised, innermost first.

    Exiting such a block, or the destruction of its object, restores all modes that were active at its start. The objects are local
    variables of frames that the traceback keeps alive, and would otherwise be destroyed at an unpredictable time.
    """
    entered: list[Any] = []
    traceback = raised.__traceback__
    while traceback is not None:
        entered += [value for value in traceback.tb_frame.f_locals.values() if isinstance(value, _INFERENCE_MODE)]
        traceback = traceback.tb_next
    for block in reversed(entered):
        block.__exit__(None, None, None)


_INFERENCE_MODE: Any = torch._C._InferenceMode


@record()
class Modes:
    """A snapshot: grad mode, forward mode, autocast's settings, cache and depth, the enabled attention kernels, function modes.

    >>> import torch
    >>> before = Modes.now()
    >>> _ = torch.set_grad_enabled(False)
    >>> before.restore()
    >>> torch.is_grad_enabled()
    True
    """

    grad: bool
    forward: bool
    casts: tuple[tuple[str, bool, torch.dtype], ...]
    cache: bool
    depth: int
    kernels: tuple[bool, ...]
    priority: list[int] | None
    function_modes: list[Any]
    device: torch.device | None

    @classmethod
    def now(cls) -> Modes:
        """The current modes of this thread."""
        casts = tuple((device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _CASTING_DEVICES)
        forward = torch._C._is_fwd_grad_enabled()
        kernels = tuple([_torch[f"_get_{name}_sdp_enabled"]() for name in _KERNELS])
        priority = _torch["_get_sdp_priority_order"]() if "_get_sdp_priority_order" in _torch else None
        return cls(
            torch.is_grad_enabled(), forward, casts, torch.is_autocast_cache_enabled(), _autocast_depth(), kernels, priority,
            _function_modes(), default_device.CURRENT_DEVICE,
        )  # fmt: skip

    def restore(self) -> None:
        """Restore the modes; exits autocast blocks that were entered since."""
        torch._C._set_grad_enabled(self.grad)
        for name, enabled in zip(_KERNELS, self.kernels, strict=True):
            _torch[f"_set_sdp_use_{name}"](enabled)
        if self.priority is not None:
            _torch["_set_sdp_priority_order"](self.priority)
        torch._C._set_fwd_grad_enabled(self.forward)
        _end_dual_level()
        for device, enabled, dtype in self.casts:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        for _ in range(_autocast_depth() - self.depth):
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
        _set_function_modes(self.function_modes)
        default_device.CURRENT_DEVICE = self.device
