"""Custom operators and autograd.Functions in a graph: nodes with side effects, because they run the program's own Python code.

The idea: most nodes are kernels of torch. A custom operator (`torch.library`) or an `autograd.Function` runs Python that the
program wrote: it may print, count and raise, and must run once. So a graph that runs as captured calls such an operator through a
function that records the result, or the exception. If the segment must run again as plain Python, the recorded results replace the
calls (translate/replay.py).

In: the captured graph module. Out: `is_of_program(node)`; `with_recorded_results(module)`, a copy that records them;
`calls`, the records of the graph call that runs in this thread. PyTorch's counterpart: none; an exception in a graph leaves the
compiled function.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload, OpOverloadPacket

_LIBRARIES = frozenset({"torch", "dynexplore", "numpy", "_operator", "operator", "builtins", "math"})
_NAMESPACES = frozenset({
    "aten", "prim", "prims", "c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "inductor", "profiler",
    "quantized", "quantized_decomposed", "mkldnn", "mkl", "onednn", "rngprims", "torchvision", "torchaudio", "streams", "bsymint",
})  # fmt: skip


class CallNotes:
    """What user code did in one call of a graph: results in order, and the call that raised."""

    def __init__(self) -> None:
        self.operators: list[tuple[OpOverload | OpOverloadPacket[..., Any], Any]] = []
        self.packed: list[Any] = []
        self.raised: tuple[str, int, BaseException] | None = None
        """Whether an "operator" or "hook" raised, the number of such calls before it, the exception."""


class _ThreadNotes(threading.local):
    current: CallNotes | None = None


calls = _ThreadNotes()


def is_of_program(node: torch.fx.Node) -> bool:
    """Whether running this node runs Python code that is neither torch's nor the engine's."""
    if node.op != "call_function":
        return False
    target: Any = node.target
    if type(target) is OpOverload:
        return is_operator_of_program(target)
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] not in _NAMESPACES
    if isinstance(target, FunctionType):
        return (target.__module__ or "").partition(".")[0] not in _LIBRARIES
    owner = getattr(target, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def with_recorded_results(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph whose custom operators are called through a recording function; the graph itself if it has none."""
    if not any(_is_recorded_operator(node) for node in module.graph.nodes):
        return module
    copied_module = torch.fx.GraphModule(module, torch.fx.Graph())
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    result = copied_module.graph.graph_copy(module.graph, copies)
    if result is not None:
        copied_module.graph.output(result)
    for node, copy in copies.items():
        copy.name = node.name
        if _is_recorded_operator(node):
            copy.target = noting(node.target)
    copied_module.recompile()
    return copied_module


def _is_recorded_operator(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload | OpOverloadPacket) and is_of_program(node)


def is_operator_of_program(operator: OpOverload) -> bool:
    """Whether an operator is not one of torch's own."""
    return operator.namespace not in _NAMESPACES


def noting(operator: Any) -> Callable[..., Any]:
    """Wrap an operator of the program in a function that records its result in the current graph call."""

    @functools.wraps(operator, assigned=())
    def call(*args: Any, **kwargs: Any) -> Any:
        notes = calls.current
        if notes is None:
            return operator(*args, **kwargs)
        try:
            result = operator(*args, **kwargs)
        except BaseException as raised:
            notes.raised = "operator", len(notes.operators), raised
            raise
        notes.operators.append((operator, result))
        return result

    call.__name__ = call.__qualname__ = str(operator).replace("::", "_").replace(".", "_")
    call.__module__ = "noted"
    return call
