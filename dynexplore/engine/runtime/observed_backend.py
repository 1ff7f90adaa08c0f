"""The backend of one conversion: it compiles the graphs of a frame while the observers of the store watch.

The idea: aliasing/lower.py asks a `GraphCompiler` for each graph. This one times the backend, counts graphs and operators, and
lets whoever listens see the graph and its callable: the recorder, the run observer, tools that keep a graph for a repro. It knows
nothing of the frame but its number, so convert.py hands the translator a compiler, and is not called back.

In: a finished graph, and the function that compiles it. Out: the callable, wrapped for the observers; `seconds` in the backend.
PyTorch's counterpart: `call_user_compiler` in torch/_dynamo/output_graph.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dynexplore.engine import native, tool_hooks
from dynexplore.engine.aliasing.eligibility import NO_COMPILER, Candidate, skip_backend
from dynexplore.engine.config import config
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import MissingCompiler
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.runtime import interrupts, reports
from dynexplore.engine.runtime.backends import Backend, GraphBackend
from dynexplore.engine.runtime.observers import Observers


class ObservedBackend(GraphBackend):
    """Compiles the graphs of one frame, observed."""

    def __init__(self, backend: Backend, observers: Observers, recorder: Recorder | None, frame: int) -> None:
        super().__init__(backend, recorder, frame)
        self.observers = observers
        self.seconds = 0.0

    def observed(self, graph: FinishedGraph, name: str, compile_graph: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        observers = self.observers
        if observers.graphs is not None:
            observers.graphs.append(graph.captured or graph.module)
        watched = observers.run.plan(graph, name, self.frame) if observers.run is not None else None
        started = time.perf_counter()
        try:
            with interrupts.passed_on():
                compiled = self.compiled(graph, name, compile_graph)
        finally:
            self.seconds += time.perf_counter() - started
        counters["stats"]["graphs"] += 1
        counters["stats"]["calls_captured"] += graph.meta.op_count
        if observers.recorder is not None:
            compiled = reports.recorded_graph(compiled, name, observers.recorder, self.frame)
        if watched is not None:
            compiled = native.RegionCall(watched.watch(compiled, self.name), None)
        return compiled

    def compiled(self, graph: FinishedGraph, name: str, compile_graph: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Compile the graph; where a C++ compiler is missing and notices are collected, it runs as captured."""
        try:
            tools = tool_hooks.connected()
            if config.repro_after and tools is not None:
                return tools.compile_watched(graph, name, self.backend, compile_graph)
            return compile_graph()
        except MissingCompiler as error:
            if self.observers.notices is None:
                raise
            if str(error) not in self.observers.notices:
                self.observers.notices[str(error)] = None
                reports.log("WARNING", str(error))
            skip_backend(Candidate(graph), NO_COMPILER)
            return compile_graph()
