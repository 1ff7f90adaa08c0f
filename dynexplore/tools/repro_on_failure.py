"""Automatic repros for unmodified scripts: writes a `repro.py` when a backend fails (`DYNEXPLORE_REPRO_AFTER`).

The idea: the program is long, its failure is rare, and nobody wants to edit it. So the engine itself checks between graph and
backend. The backend may raise while it compiles, the compiled graph may raise when it is called, or give other results than the
uncompiled graph: in each case the graph is reduced (shrinking.py), a self-contained program is written, and one line logs its path.
After that the program continues as before; only wrong values, which nobody would notice, end it with a BackendCompilerError.

In: a captured graph, the backend, a function that compiles. Out: the callable for the graph.

PyTorch's counterpart: `WrapBackendDebug` in torch/_dynamo/repro/after_dynamo.py (TORCHDYNAMO_REPRO_AFTER), and after_aot.py.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx
from torch._guards import tracing
from torch.utils._python_dispatch import _disable_current_modes

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.engine.graph.finished_graph import FinishedGraph, copy_of_graph, example_value
from dynexplore.engine.runtime import preserve_global_state, reports
from dynexplore.engine.runtime.backends import Backend, eager, function_and_options, own_backends
from dynexplore.tools.behind_aot import graphs_behind_aot, inner_compiler
from dynexplore.tools.graph_failure import (
    Compiler,
    Failure,
    copies,
    failure_of,
    same_random_numbers,
)
from dynexplore.tools.shrinking import Minified, operators, shrink
from dynexplore.views.counts import plural

_numbers = itertools.count(1)
_VALUES_TOO = 4


def compile_watched(graph: FinishedGraph, name: str, backend: Backend, compile_it: Callable[[], Any]) -> Callable[..., Any]:
    """Compile a graph; a failure, now or in the graph's first run, writes a repro. Raises what compiling raises."""
    if backend.function is eager:
        compiled: Callable[..., Any] = compile_it()
        return compiled
    copied = copy_of_graph(graph.module)
    try:
        with same_random_numbers(backend.name) if config.repro_level == _VALUES_TOO else contextlib.nullcontext():
            compiled = compile_it()
    except BackendCompilerError as error:
        with _disable_current_modes(), tracing(None):
            _write_repro(copied, _random_inputs(graph), backend, error)
        raise
    watched: Callable[..., Any] = native.RegionCall(_Watched(copied, name, backend, compiled), None)
    return watched


class _Watched:
    """A compiled graph that is checked in its first run."""

    def __init__(self, graph: torch.fx.GraphModule, name: str, backend: Backend, compiled: Callable[..., Any]) -> None:
        self.graph, self.name, self.backend, self.compiled = graph, name, backend, compiled
        self.is_first = True

    def __call__(self, *inputs: Any) -> Any:
        if not self.is_first:
            return self.compiled(*inputs)
        self.is_first = False
        copied_inputs = copies(inputs)
        if config.repro_level == _VALUES_TOO:
            self._compare(copied_inputs)
        try:
            return self.compiled(*inputs)
        except Exception as error:  # any exception of the compiled graph is the finding
            with preserve_global_state.preserved():
                _write_repro(self.graph, copied_inputs, self.backend, error)
            raise

    def _compare(self, copied_inputs: Sequence[Any]) -> None:
        """Raise BackendCompilerError if the compiled graph gives other results than the uncompiled one."""
        with preserve_global_state.preserved():
            failure = failure_of(self.graph, copied_inputs, lambda graph, inputs: self.compiled)
            if failure is None or failure.kind != "differs":
                return
            error = BackendCompilerError(self.name, self.graph, AssertionError(failure.words), backend=self.backend.name)
            _write_repro(self.graph, copied_inputs, self.backend, error)
        raise error


def _random_inputs(graph: FinishedGraph) -> list[Any]:
    """Random inputs of the shapes that the graph was captured for: at compile time there are no real ones."""
    torch_random = torch.Generator().manual_seed(0)
    return [_real(example_value(graph_input.node), torch_random) for graph_input in graph.inputs]


def _real(example: Any, random: torch.Generator) -> Any:
    if isinstance(example, torch.Tensor):
        sizes = [int(_hint(size)) for size in example.shape]
        strides = [int(_hint(stride)) for stride in example.stride()]
        tensor = torch.empty_strided(sizes, strides, dtype=example.dtype, device=example.device)
        numbers = torch.randn(sizes, generator=random)
        tensor.copy_(numbers.gt(0) if example.dtype is torch.bool else numbers if example.is_floating_point() else numbers.abs())
        return tensor.requires_grad_(example.requires_grad)
    return _hint(example)


def _hint(size: Any) -> Any:
    """The hint of a symbolic size."""
    return size.node.hint if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) else size


# -- writing it ---------------------------------------------------------------------------------------------------------


def _write_repro(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: Backend, error: Exception) -> None:
    """Reduce the graph, write the program, and log it in one line."""
    small = _cut_behind_aot(graph, inputs, backend) if config.repro_after == "aot" else None
    small = small or _cut(graph, inputs, _compiler(backend), backend, "dynamo")
    if small is None:
        reports.log("ERROR", f"backend {backend.name!r} failed, but its graph alone does not fail: no repro was written")
        return
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    small.write(path)
    counted = f"{plural(operators(small.before), 'operator')} became {operators(small.graph)}"
    error.add_note(f"a program that fails alone: {path}")
    reports.log("ERROR", f"wrote {path}, a program that fails alone: {counted}; it {small.failure.words}")


def _path() -> Path:
    number = next(_numbers)
    return Path(config.repro_folder) / ("repro.py" if number == 1 else f"repro_{number}.py")


def _compiler(backend: Backend) -> Compiler:
    return lambda graph, inputs: backend(graph, inputs)


def _cut(graph: torch.fx.GraphModule, inputs: Sequence[Any], compiler: Compiler, backend: Backend, after: Any) -> Minified | None:
    failure: Failure | None = failure_of(graph, inputs, compiler)
    if failure is None:
        return None
    return shrink(graph, inputs, compiler, failure, backend=_public_backend(backend), after=after)


def _cut_behind_aot(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: Backend) -> Minified | None:
    """The first graph after AOTAutograd that fails; None if all are right, or the backend does not use AOTAutograd."""
    own_backend = _public_backend(backend)
    try:
        compiler = inner_compiler(own_backend)
    except ValueError:
        return None
    cuts = (
        _cut(inner, inner_inputs, compiler, backend, "aot") for inner, inner_inputs in graphs_behind_aot(graph, inputs, own_backend)
    )
    return next(filter(None, cuts), None)


def _public_backend(backend: Backend) -> Any:
    """The backend by name if it is registered and has no options, else the callable."""
    if backend.options:
        return functools.partial(backend.function, **backend.options)
    if function_and_options(backend.function)[1]:
        return backend.function
    registered = own_backends().get(backend.name)
    named = backend.name == "inductor" or getattr(backend.function, "__qualname__", None) != backend.name
    return backend.name if named and registered is None else backend.function
