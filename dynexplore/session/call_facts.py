"""Call facts: whether arguments hold a tensor, and what runs around a call, from the frames on the stack.

The idea: whatever an optimizer, a data loader, autograd, or another capture calls is part of that, and not a call that a user would
compile. The files of the frames below show it; the exception is a closure that an optimizer calls, which runs the model.

In: a value, or the innermost frame. Out: whether the value holds a tensor (`holds_tensor`), and why nothing called below the frame
is a target (`why_around`). PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynexplore.engine.policy.trace_rules import is_of_the_program

MODULE_CALL: types.CodeType = torch.nn.Module.__call__.__code__
"""The code of the frame with which each call of a module begins."""

_DEPTH = 3
_MOST_ITEMS = 50


def holds_tensor(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value is a tensor, or a container or record with a tensor a few levels inside.

    >>> holds_tensor({"ids": [torch.ones(1)]}), holds_tensor("text")
    (True, False)
    """
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, str | bytes | int | float | torch.nn.Module | types.FunctionType):
        return False
    items: Iterable[Any]
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)[:_MOST_ITEMS]
    elif isinstance(value, dict):
        items = list(value.values())[:_MOST_ITEMS]
    elif hasattr(type(value), "__dataclass_fields__"):
        items = list(getattr(value, "__dict__", {}).values())[:_MOST_ITEMS]
    else:
        return False
    return any(holds_tensor(item, depth - 1) for item in items)


DRIVING_TYPES: tuple[type, ...] = (
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.utils.data.Dataset,
    torch.utils.data.Sampler,
    torch.utils.data.DataLoader,
    io.IOBase,
    torch.autograd.function.FunctionCtx,
)
"""A function that takes one of these drives a program, reads data, or belongs to a custom autograd function."""
_OPTIMIZES = "an optimizer runs it"
_AROUND: tuple[tuple[str, str], ...] = (
    (f"{os.sep}torch{os.sep}utils{os.sep}data{os.sep}", "a data loader runs it"),
    (f"{os.sep}torch{os.sep}autograd{os.sep}", "autograd runs it"),
    (f"{os.sep}torch{os.sep}optim{os.sep}", _OPTIMIZES),
    (f"{os.sep}torch{os.sep}export{os.sep}", "torch.export runs it"),
    (f"{os.sep}torch{os.sep}onnx{os.sep}", "torch.onnx runs it"),
    (f"{os.sep}torch{os.sep}jit{os.sep}", "torch.jit runs it"),
    (f"{os.sep}torch{os.sep}fx{os.sep}", "torch.fx runs it"),
)
"""Part of a file's path -> why nothing called below a frame of that file is a target."""
_MODULE_FILE = MODULE_CALL.co_filename
_STATE_DICT = frozenset({"load_state_dict", "state_dict", "_load_from_state_dict", "_save_to_state_dict"})
"""Methods of modules that move parameters and call hooks of the program."""
_OF_AUTOGRAD_AROUND_USERS = ("grad_mode.py", f"{os.sep}function.py", "profiler.py", "anomaly_mode.py")


@functools.cache
def _why_below(file: str) -> str:
    if file.endswith(_OF_AUTOGRAD_AROUND_USERS):
        return ""
    return next((why for part, why in _AROUND if part in file), "")


def why_around(innermost: types.FrameType | None, is_own: Callable[[str], bool] = is_of_the_program) -> str:
    """Why nothing called below this frame is a target; "" if it may be."""
    frame = innermost
    while frame is not None:
        code = frame.f_code
        why = _why_below(code.co_filename)
        if why and not (why == _OPTIMIZES and _is_in_closure(innermost, frame, is_own)):
            return why
        if code.co_name in _STATE_DICT and code.co_filename == _MODULE_FILE:
            return "a state dict is loaded or saved"
        if code.co_name == "__init__" and code.co_varnames and isinstance(frame.f_locals.get(code.co_varnames[0]), torch.nn.Module):
            return "a module is being constructed"
        if _is_class_body(code):
            return "a class is being defined"
        frame = frame.f_back
    return ""


def _is_in_closure(inner: types.FrameType | None, optimizer: types.FrameType, is_own: Callable[[str], bool]) -> bool:
    """Whether a function of the program that is no method of an optimizer runs between the two frames: `step(closure)` calls it,
    and it calls the model.
    """
    outermost = None
    while inner is not None and inner is not optimizer:
        outermost = inner if is_own(inner.f_code.co_filename) else outermost
        inner = inner.f_back
    if outermost is None:
        return False
    names = outermost.f_code.co_varnames[: outermost.f_code.co_argcount]
    return not names or not isinstance(outermost.f_locals.get(names[0]), torch.optim.Optimizer)


def _is_class_body(code: types.CodeType) -> bool:
    """Whether this is the body of a `class` statement: it has no fast locals, and begins by storing the name of the class."""
    return not code.co_flags & inspect.CO_OPTIMIZED and code.co_names[:3] == ("__name__", "__module__", "__qualname__")
