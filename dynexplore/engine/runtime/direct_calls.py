"""Graphs of OpOverloads (`torch.ops.aten.mm.default`): calls bypass `OpOverload.__call__` and go to C++ at once.

The idea: the backend aot_eager runs what AOTAutograd makes of a graph, operator by operator, as Python code. Each call there looks
four attributes up and enters a Python method (OpOverload.__call__, torch/_ops.py), which calls the operator's function in C with
the same arguments. Of small operators that is a fifth of their time. So the code of such a graph is written once more, with those
functions under names of their own.

In: a graph whose operators are those of the dispatcher. Out: what torch's `boxed_nop` makes of it, with direct calls.
torch/_dynamo/backends/debugging.py (aot_eager, boxed_nop) does the same job.
"""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch._ops import OpOverload
from torch.fx.graph_module import _forward_from_src

from dynexplore.engine.graph.custom_operators import is_operator_of_program, noting

_AOT_EAGER = "torch._dynamo.backends.debugging", "aot_eager"
_OPERATOR = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


def with_compilers(backend: Callable[..., Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a backend; torch's `aot_eager` takes what runs its graphs."""
    if (getattr(backend, "__module__", ""), getattr(backend, "__qualname__", "")) != _AOT_EAGER:
        return options
    return {"fw_compiler": run_directly, "bw_compiler": run_directly, **options}


def run_directly(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """What runs a graph of AOTAutograd's: it takes a list of inputs, which it empties."""
    plain: Callable[..., Any] = importlib.import_module("torch._dynamo.backends.debugging").boxed_nop(graph, example_inputs)
    if not isinstance(plain, types.FunctionType):  # torch keeps the graph in a cache on disk
        return plain
    forward = _forward(graph)
    asks_for_more = importlib.import_module("torch.utils._debug_mode").get_active_debug_mode

    def run(inputs: list[Any]) -> Any:
        return forward(inputs) if asks_for_more() is None else plain(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _forward(graph: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph's forward, bound to it, with direct calls."""
    written = graph.graph.python_code("self")
    names: dict[str, Any] = dict(written.globals)

    def direct(call: re.Match[str]) -> str:
        operator = getattr(getattr(getattr(torch.ops, call[1]), call[2]), call[3])
        if type(operator) is not OpOverload:
            return call[0]
        name = f"{call[1]}_{call[2]}_{call[3]}__direct"
        names[name] = noting(operator) if is_operator_of_program(operator) else operator._op
        return f"{name}("

    source = _OPERATOR.sub(direct, written.src)
    return types.MethodType(_forward_from_src(source, names), graph)  # which keeps the source for tracebacks
