"""Scalar-only graphs: nodes that compute only sizes and numbers run in Python, without a backend.

The idea: with dynamic shapes, `x.shape[0] * 2` is a node of the graph, like every symbolic number. A graph that contains and
returns nothing else needs no backend and is not counted as a graph: the code that FX generates for it is a plain function of
integers, and the modified code calls that. Guards, and errors (a division by zero), are handled as for any graph.

In: a finished graph. Out: whether it is scalar-only; the function. PyTorch's counterpart: torch/_dynamo/output_graph.py
(`count_calls`) skips graphs without calls; there numbers are not calls but expressions in the code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.native import skip_code_recursively

_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


def computes_scalars(node: torch.fx.Node) -> bool:
    """Whether a node computes a number, or several."""
    leaves = pytree.tree_leaves(node.meta.get("example_value"))
    return bool(leaves) and all(isinstance(leaf, _NUMBERS) for leaf in leaves)


def is_scalar_only(graph: FinishedGraph) -> bool:
    """Whether a graph computes and returns only numbers."""
    computed = [node for node in graph.module.graph.nodes if node.op not in ("placeholder", "output")]
    return bool(graph.outputs) and all(map(computes_scalars, (*computed, *graph.outputs)))


def only_unbinds_rows(graph: FinishedGraph) -> bool:
    """Whether a graph only unpacks tensors into rows and compares an element, as a loop over them does."""
    computed = [node for node in graph.module.graph.nodes if node.op not in ("placeholder", "output")]
    has_rows = any(_is_unbind(node) for node in computed)
    return has_rows and all(_unbinds_rows(node) or _looks_at_element(node) or computes_scalars(node) for node in computed)


def _is_unbind(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "unbind"


def _unbinds_rows(node: torch.fx.Node) -> bool:
    """Whether a node unpacks rows, or reads a part of a tensor or of rows at a constant index."""
    is_item = node.op == "call_function" and node.target is operator.getitem
    return _is_unbind(node) or (is_item and len(node.all_input_nodes) == 1)


_COMPARISONS = frozenset({operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge})


def _looks_at_element(node: torch.fx.Node) -> bool:
    """Whether a node compares one element of a row with a number, like the condition that exits such a loop."""
    if node.op != "call_function" or node.target not in _COMPARISONS or len(node.all_input_nodes) != 1:
        return False
    value, of = node.meta.get("example_value"), node.all_input_nodes[0]
    return isinstance(value, torch.Tensor) and value.dim() == 0 and _unbinds_rows(of)


def run_by_python(graph: FinishedGraph) -> Callable[..., Any]:
    """The graph as a function that the frame hook ignores."""
    forward: Any = graph.module.forward
    skip_code_recursively(forward.__func__.__code__)
    return forward  # type: ignore[no-any-return]
