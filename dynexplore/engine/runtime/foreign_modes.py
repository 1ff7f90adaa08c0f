"""Foreign modes: modes and tracers under which a frame runs as plain Python, because they must see its operators.

The idea: a TorchFunctionMode or TorchDispatchMode of the program modifies or logs operators one by one, and torch's own tracers
(jit.trace, fx.symbolic_trace, make_fx, vmap and grad, fake tensors) must see them themselves. A compiled graph would hide them. A
mode may opt out: `ignore_compile_internals()` returns True. The mode of `torch.set_default_device` is an exception: it stays
active during translation and when the graph runs, and the device is guarded.

Two more cases: a program that has replaced functions that torch needs for tracing; and torch.compile itself: while its callback is
active in this thread, it would compile the frames of the translation.

In: nothing, the state of the thread. Out: `active()`, a reason as text or None; `dynamo_off()`; `inside_torch_compile(target)`;
`torch_compile_frame(frame)`, `has_compiled()`, `code_of_wrappers()`. PyTorch's counterpart: `CatchErrorsWrapper` and
`ConvertFrameAssert` in torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import functools
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch._C import _dynamo
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from dynexplore.engine.raw_attributes import class_module


def active() -> str | None:
    """The mode or tracer under which this thread's frames must run as plain Python; None if there is none.

    >>> active() is None
    True
    """
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace is tracing"
    if is_fx_symbolic_tracing():
        return "torch.fx is tracing"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a torch.func transform (vmap, grad, ...) is active"
    if _ENUM_CALL.__code__ is not _ITS_CODE:
        return "the program replaced the code of EnumType.__call__, which torch itself uses"
    if functools.reduce is not _REDUCE:
        return "the program replaced functools.reduce, which torch itself calls"
    replaced = next((name for name, original in _NEEDED.items() if getattr(builtins, name, None) is not original), None)
    if replaced is not None:
        return f"the program replaced builtins.{replaced}, which torch and the engine themselves call"
    return _foreign_mode()


_ENUM_CALL: Any = vars(enum.EnumMeta)["__call__"]
_ITS_CODE = _ENUM_CALL.__code__
_REDUCE = functools.reduce
_NEEDED = {
    name: getattr(builtins, name)
    for name in (
        "all", "any", "bool", "callable", "classmethod", "delattr", "dict", "enumerate", "float", "frozenset", "getattr", "hasattr",
        "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "next", "object", "property", "range",
        "repr", "reversed", "set", "setattr", "slice", "sorted", "staticmethod", "str", "super", "tuple", "type", "vars", "zip",
    )
}  # fmt: skip
"""Builtins that nearly all Python code uses. Others (`print`, `open`, `max`), which tests sometimes replace, are traced."""


def _foreign_mode() -> str | None:
    modes: list[Any] = []
    if torch._C._len_torch_function_stack():
        modes += _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if torch._C._len_torch_dispatch_stack():
        modes += _get_current_dispatch_mode_stack()
    for mode in modes:
        if type(mode) is DeviceContext:  # torch.set_default_device: also applied in the graph; guarded
            continue
        if getattr(mode, "is_infra_mode", bool)():  # fake tensors, make_fx and similar modes declare that they ignore compilers
            return f"{type(mode).__qualname__} is tracing"
        ignores = getattr(mode, "ignore_compile_internals", None)
        if ignores is None or not ignores():
            return f"the mode {type(mode).__qualname__} is active"
    return None


@contextlib.contextmanager
def dynamo_off() -> Iterator[None]:
    """Disable torch.compile's callback in this thread while the block runs."""
    evaluator = _dynamo.eval_frame
    if "torch._dynamo" not in sys.modules or evaluator.get_eval_frame_callback() in (None, False):
        yield
        return
    before = evaluator.set_eval_frame(None)
    try:
        yield
    finally:
        evaluator.set_eval_frame(before)


def inside_torch_compile(target: Any) -> Any:
    """The function or module that torch.compile has wrapped; any other object itself, including one excluded from it (`disable`).

    >>> inside_torch_compile(torch.abs) is torch.abs
    True
    """
    fields = getattr(target, "__dict__", {})
    if "_torchdynamo_disable" in fields or type(fields.get("dynamo_ctx")).__name__ == "DisableContext":
        return target
    if class_module(type(target)) == _WRAPPERS and "_orig_mod" in fields.get("_modules", {}):
        return fields["_modules"]["_orig_mod"]
    original = fields.get("_torchdynamo_orig_callable")
    return target if original is None else inside_torch_compile(original)


def is_compiled_module(module: torch.nn.Module) -> bool:
    """Whether torch.compile has wrapped this module, or its `.compile()` was called."""
    return inside_torch_compile(module) is not module or vars(module).get(COMPILED_CALL) is not None


COMPILED_CALL = "_compiled_call_impl"
"""The attribute in which `Module.compile()` stores the compiled call."""

_WRAPPERS = "torch._dynamo.eval_frame"
"""The module in which the class of a torch.compile wrapper module is defined."""


def torch_compile_frame(frame: types.FrameType | None) -> types.FrameType | None:
    """The innermost frame on the stack of this one that runs a wrapper created by torch.compile; None if there is none."""
    while frame is not None and not (frame.f_code.co_name == _WRAPPER and frame.f_globals.get("__name__") == _WRAPPERS):
        frame = frame.f_back
    return frame


def has_compiled() -> bool:
    """Whether torch.compile has processed any function in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and utils.counters["frames"]["total"] > 0


def code_of_compile() -> types.CodeType | None:
    """The code of the function with which a program calls torch.compile."""
    return getattr(vars(torch).get("compile"), "__code__", None)


def is_wrapper(code: types.CodeType) -> bool:
    """Whether it is the code of the wrapper that torch.compile puts around a function."""
    return code.co_name == _WRAPPER and code.co_filename.endswith(_WRAPPERS_FILE)


def is_called_by_wrapper(caller: types.FrameType | None) -> bool:
    """Whether a frame called by this one is of the function that torch.compile has wrapped: between the two, torch puts a function
    of its own for a partial and for an object with `__call__`.
    """
    if caller is not None and caller.f_code.co_name == "inner" and caller.f_code.co_filename.endswith(_INLINED_FILE):
        caller = caller.f_back
    return caller is not None and is_wrapper(caller.f_code)


def code_of_wrappers() -> Iterator[types.CodeType]:
    """The code of the wrapper that torch.compile puts around a function; nothing if torch._dynamo is not imported."""
    context = getattr(sys.modules.get(_WRAPPERS), "_TorchDynamoContext", None)
    made_in = getattr(getattr(context, "__dict__", {}).get("__call__"), "__code__", None)
    for constant in getattr(made_in, "co_consts", ()):
        if isinstance(constant, types.CodeType) and constant.co_name == _WRAPPER:
            yield constant


_WRAPPERS_FILE = os.path.join("torch", "_dynamo", "eval_frame.py")
_INLINED_FILE = os.path.join("torch", "_dynamo", "external_utils.py")
_WRAPPER = "compile_wrapper"
"""The name of the wrapper that torch.compile puts around a function."""


@contextlib.contextmanager
def modes_off() -> Iterator[None]:
    """While active, no dispatch mode of the program sees operators: they are the engine's, on fake tensors."""
    # popping modes imports half of torch's tracers: only if there is one to pop
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    with _disable_current_modes():
        yield
