"""Deferred runtime asserts: what operators demand of a data-dependent size is checked when the graph runs.

The idea: while tracing, `x[mask].narrow(0, 0, 1)` needs one row, and ShapeEnv cannot know whether there will be one: it defers the
check. Eager's operator makes that check itself. A compiler decomposes the operator, and the check is lost: the graph would return
a tensor of the wrong shape where eager raises. So the backend gets a graph that contains the deferred checks. If one fails, the
segment runs again as captured, and the operator raises its own error.

In: a graph with unbacked symbols. Out: the graph for the backend. PyTorch's counterpart: `insert_deferred_runtime_asserts` in
torch/fx/passes/runtime_assert.py, which Dynamo calls in torch/_dynamo/output_graph.py, and which is called here.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from dynexplore.engine.graph.finished_graph import copy_of_graph, example_value


def env_with_deferred_asserts(module: torch.fx.GraphModule) -> Any:
    """The ShapeEnv of a graph's unbacked symbols, if it has deferred checks; otherwise None."""
    for node in module.graph.nodes:
        for symbol in node.meta.get("unbacked_bindings") or ():
            env = _env_of(example_value(node))
            if env is not None and symbol in env.deferred_runtime_asserts:
                return env
    return None


def _env_of(value: Any) -> Any:
    """The ShapeEnv of a fake tensor or a symbolic number, or of the first of several."""
    if isinstance(value, (tuple, list)):
        return next(filter(None, map(_env_of, value)), None)
    if isinstance(value, torch.Tensor):
        return getattr(getattr(value, "fake_mode", None), "shape_env", None)
    return getattr(getattr(value, "node", None), "shape_env", None)


def with_runtime_asserts(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy of it that makes the deferred checks."""
    env = env_with_deferred_asserts(module)
    if env is None:
        return module
    from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts

    copied = copy_of_graph(module)
    insert_deferred_runtime_asserts(copied, env, "dynexplore")
    copied.recompile()
    return copied
