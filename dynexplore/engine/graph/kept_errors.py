"""Graphs whose operators raise though nobody uses what they give.

The idea: data decides whether `x[index]` raises. Where the program does not use the result, a compiler leaves the operator out,
and the error with it. So the compiler gets a graph that hands out such results, too, behind its own outputs, and the caller of
what it makes never sees them. They are handed out without gradients: to autograd nothing depends on them.

In:  a graph whose nodes say in `meta["may_fail"]` that data decides whether they raise. Out: the graph for the compiler.
torch._dynamo has no counterpart: under torch.compile such an error is gone.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from dynexplore.engine.graph.written_nodes import errors_dropped


def with_errors_kept(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy of it that also gives what nobody uses of operators that may raise."""
    if not errors_dropped(module.graph):
        return module
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))  # it shares the parameters
    output = copied.graph.output_node()
    kept = [one for node in errors_dropped(copied.graph) if (one := _handed_out(copied.graph, node)) is not None]
    output.args = ((*output.args[0], *kept),)  # type: ignore[misc]
    copied.recompile()
    return copied


def without_what_was_kept(compiled: Callable[..., Any], count: int) -> Callable[..., Any]:
    """What the compiler made of such a graph; its callers see the graph's own outputs, of which there are `count`."""
    return lambda *inputs: tuple(compiled(*inputs)[:count])


def _handed_out(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node | None:
    """A tensor or number of what a node gives, without gradients; None where it gives neither."""
    value = node.meta.get("example_value")
    with graph.inserting_after(node):
        if isinstance(value, Sequence) and value:
            node, value = _noted(graph.call_function(operator.getitem, (node, 0)), value[0]), value[0]
    if isinstance(value, torch.Tensor) and value.requires_grad:
        with graph.inserting_after(node):
            return _noted(graph.call_method("detach", (node,)), value.detach())
    return node if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)) else None


def _noted(node: torch.fx.Node, value: Any) -> torch.fx.Node:
    node.meta["example_value"] = value
    return node
