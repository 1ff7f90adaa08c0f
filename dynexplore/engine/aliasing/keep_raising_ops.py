"""Anti-DCE: an operator that may raise survives the backend's dead code elimination, though its result is unused.

The idea: whether `x[index]` raises depends on data. If the program does not use the result, the backend eliminates the operator as
dead code, and the error with it. So the backend gets a graph that returns such results as extra outputs after its own, and the
wrapper drops them. They are detached: autograd must not see a dependency on them.

In: a graph whose nodes have `meta["may_raise"]` if data decides whether they raise. Out: the graph for the backend. PyTorch's
counterpart: none; under torch.compile such an error disappears.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from dynexplore.engine.aliasing.mutation import dead_raising_ops
from dynexplore.engine.graph.finished_graph import copy_of_graph


def with_raising_ops_as_outputs(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy of it that also returns the unused results of operators that may raise."""
    if not dead_raising_ops(module.graph):
        return module
    copied = copy_of_graph(module)
    output = copied.graph.output_node()
    raising = [
        output_node for node in dead_raising_ops(copied.graph) if (output_node := _extra_output(copied.graph, node)) is not None
    ]
    output.args = ((*output.args[0], *raising),)  # type: ignore[misc]
    copied.recompile()
    return copied


def drop_extra_outputs(compiled: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The backend's callable without the extra outputs; the graph itself has `count` outputs."""
    return lambda *inputs: tuple(compiled(*inputs)[:count])


def _extra_output(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node | None:
    """A tensor or number from a node's result, detached; None if there is neither."""
    value = node.meta.get("example_value")
    with graph.inserting_after(node):
        if isinstance(value, Sequence) and value:
            node, value = _with_example_value(graph.call_function(operator.getitem, (node, 0)), value[0]), value[0]
    if isinstance(value, torch.Tensor) and value.requires_grad:
        with graph.inserting_after(node):
            return _with_example_value(graph.call_method("detach", (node,)), value.detach())
    return node if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)) else None


def _with_example_value(node: torch.fx.Node, value: Any) -> torch.fx.Node:
    node.meta["example_value"] = value
    return node
