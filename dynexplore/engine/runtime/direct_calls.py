"""Direct calls in graphs of OpOverloads (`torch.ops.aten.mm.default`): they bypass `OpOverload.__call__` and call C++ directly.

The idea: the backend aot_eager runs AOTAutograd's graph, operator by operator, as Python code. Each call looks up four attributes
and enters a Python method (OpOverload.__call__, torch/_ops.py), which calls the operator's C function with the same arguments. For
small operators that is a fifth of their time. So the code of such a graph is generated again, with these functions as globals.

In: a graph of ATen operators. Out: the same as torch's `boxed_nop` returns, with direct calls. PyTorch's counterpart: `aot_eager`
and `boxed_nop` in torch/_dynamo/backends/debugging.py.
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
    """The options of a backend; for torch's `aot_eager`, they include the compilers that run its graphs."""
    if (getattr(backend, "__module__", ""), getattr(backend, "__qualname__", "")) != _AOT_EAGER:
        return options
    return {"fw_compiler": run_directly, "bw_compiler": run_directly, **options}


def run_directly(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The callable that runs a graph of AOTAutograd: it takes a list of inputs, which it clears."""
    plain: Callable[..., Any] = importlib.import_module("torch._dynamo.backends.debugging").boxed_nop(graph, example_inputs)
    if not isinstance(plain, types.FunctionType):  # torch stores the graph in an on-disk cache
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
    return types.MethodType(_forward_from_src(source, names), graph)  # keeps the source for tracebacks
