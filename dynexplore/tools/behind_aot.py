"""The graphs that AOTAutograd creates from a captured graph, and the compiler that receives them.

The idea: a backend such as Inductor never sees the captured graph. AOTAutograd lowers it to a forward and a backward graph of ATen
operators, and a bug in Inductor shows up in these. They are collected here, each with the inputs of its first run.

In: a captured graph and its inputs. Out: `Seen`, graphs with inputs; the compiler for them.

PyTorch's counterpart: `wrap_compiler_debug` in torch/_dynamo/repro/after_aot.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from dynexplore.engine.graph.finished_graph import copy_of_graph
from dynexplore.engine.runtime.backends import CompilerFn, inductor_settings, resolve
from dynexplore.tools.graph_failure import Compiler, copies, run_once

Seen = list[tuple[torch.fx.GraphModule, list[Any]]]


class Keeping:
    """A backend that runs graphs uncompiled, and keeps each with the inputs of its first run."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        copied = copy_of_graph(graph)
        is_first = True

        def run(*inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                self.seen.append((copied, copies(inputs)))
            return graph(*inputs)

        return run


def graphs_behind_aot(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: str | CompilerFn) -> Seen:
    """The forward graph, and the backward graph if there is one, that AOTAutograd creates from a captured graph."""
    common = importlib.import_module("torch._dynamo.backends.common")
    aot = importlib.import_module("torch._functorch.aot_autograd")
    keeping = Keeping()
    boxed = [aot.make_boxed_compiler(keeping)] * 2
    is_inductor = inductor_settings(backend) is not None
    decompositions = importlib.import_module("torch._inductor.decomposition").select_decomp_table() if is_inductor else {}
    through = common.aot_autograd(fw_compiler=boxed[0], bw_compiler=boxed[1], decompositions=decompositions)
    run_once(through(copy_of_graph(graph), copies(inputs)), inputs)
    for _, example_inputs in keeping.seen:  # these graphs run below autograd
        for example_input in example_inputs:
            if isinstance(example_input, torch.Tensor):
                example_input.requires_grad_(False)
    return keeping.seen


def inner_compiler(backend: str | CompilerFn) -> Compiler:
    """The compiler behind AOTAutograd: Inductor's inner compiler, with the settings of its mode, or the callable."""
    settings = inductor_settings(backend)
    if settings is not None:
        compile_inner: Compiler = importlib.import_module("torch._inductor.compile_fx").compile_fx_inner
        inductor_config: Any = importlib.import_module("torch._inductor.config")

        def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            with inductor_config.patch(settings):
                return _unboxed(compile_inner(graph, inputs))

        return compile_graph
    if isinstance(backend, str):
        raise ValueError(f"after='aot' takes backend='inductor' or a callable for aten graphs, not {backend!r}")
    return resolve(backend)


def _unboxed(compiled: Any) -> Callable[..., Any]:
    """Adapt a compiled graph to separate arguments: Inductor's take one list of inputs, and empty it."""
    return (lambda *inputs: compiled(list(inputs))) if getattr(compiled, "_boxed_call", False) else compiled
