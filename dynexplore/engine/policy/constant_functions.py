"""Functions whose result is a constant while tracing.

The idea: some functions ask which tool is running the code, and inside captured code the answer is known: a compiler is,
TorchScript is not. Calling one of them adds no node to the graph and needs no guard.

In: a live function called in traced code. Out: `is_constant`, `constant_result`. To add one: a row here, and a line in its test.
PyTorch's counterpart: `constant_fold_functions` in torch/_dynamo/variables/torch.py, and torch/_dynamo/external_utils.py.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
import torch.jit._trace
import torch.onnx


class _Exporting(threading.local):
    now = False


exporting = _Exporting()
"""Whether this thread captures for `export`: only then is `torch.compiler.is_exporting()` True."""

_CONSTANTS: dict[int, tuple[Callable[..., Any], object]] = {}
"""Keyed by id: a function need not be hashable. The function is kept alive, so that its id stays unique."""


def constant(value: object, *functions: Callable[..., Any]) -> None:
    """Declare that these functions return `value` while tracing."""
    for function in functions:
        _CONSTANTS[id(function)] = (function, value)


def is_constant(function: object) -> bool:
    """Whether calls of this function are constant while tracing."""
    return id(function) in _CONSTANTS or function is torch.compiler.is_exporting or _is_dynamos_is_compiling(function)


def constant_result(function: object) -> Any:
    """The result of this function while tracing; KeyError if it is not a constant.

    >>> constant_result(torch.jit.is_scripting)
    False
    """
    if _is_dynamos_is_compiling(function):
        return True
    if function is torch.compiler.is_exporting:
        return exporting.now
    return _CONSTANTS[id(function)][1]


def table() -> list[tuple[Callable[..., Any], object]]:
    """All functions that are constant while tracing, with their current results."""
    return [*_CONSTANTS.values(), (torch.compiler.is_exporting, exporting.now)]


def _is_dynamos_is_compiling(function: object) -> bool:
    # importing torch._dynamo takes seconds: its own is_compiling is registered only if it is already imported
    utilities = getattr(sys.modules.get("torch._dynamo"), "external_utils", None)
    return utilities is not None and function is utilities.is_compiling


def is_compiling() -> bool:
    """Whether this code is being captured: False in plain Python, True in captured code.

    >>> is_compiling()
    False
    """
    return False


constant(True, is_compiling, torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, torch._utils.is_compiling)
constant(
    False,
    torch._jit_internal.is_scripting,
    torch.jit._trace.is_tracing,
    torch._C._is_tracing,
)
constant(False, torch.fx._symbolic_trace.is_fx_tracing, torch.fx._symbolic_trace.is_fx_symbolic_tracing)
constant(False, torch.onnx.is_in_onnx_export)
constant(None, torch._C._get_tracing_state)
# frames under a TorchDispatchMode of the program are skipped; the modes on the stack while tracing are the engine's
constant(0, torch._C._len_torch_dispatch_stack)
constant(False, torch._C._are_functorch_transforms_active)
