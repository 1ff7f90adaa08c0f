"""Common subexpression elimination (CSE): equal calls whose results are graph outputs must stay separate tensors.

The idea: when gradients are needed, AOTAutograd merges equal calls. It leaves alone operators with one result that the graph
returns, since in eager they are two tensors, and mutating one does not change the other. But it overlooks operators with several
results (`max(0)`, `sort`), including those that only become such by decomposition (`layer_norm`). So a graph that returns the
results of two equal calls is compiled without CSE.

In: a graph module, before its backend gets it. Out: a context manager in which it may be compiled. PyTorch's counterpart: none;
`fx_graph_cse` in torch/_functorch/compile_utils.py merges the calls, and torch.compile returns one tensor there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from dynexplore.engine.aliasing.mutation import tensors_of
from dynexplore.engine.aliasing.storage import storage_of


def disable_cse() -> AbstractContextManager[Any]:
    """A context manager in which AOTAutograd merges no calls."""
    settings: Any = importlib.import_module("torch._functorch.config")
    block: AbstractContextManager[Any] = settings.patch(cse=False)
    return block


def returns_equal_calls(graph: torch.fx.Graph) -> bool:
    """Whether two nodes are equal calls and results of both are outputs, one of which requires grad."""
    outputs = _tensors_of_all(next(node for node in graph.nodes if node.op == "output").all_input_nodes)
    if not any(value.requires_grad for value in outputs):
        return False
    handed_out = set(map(storage_of, outputs))
    first: dict[Any, torch.fx.Node] = {}
    equal: dict[torch.fx.Node, torch.fx.Node] = {}  # a node -> the first equal node
    seen: set[torch.fx.Node] = set()  # the first ones whose results are outputs
    for node in graph.nodes:
        if node.op not in ("call_function", "call_method"):
            continue
        same = equal[node] = first.setdefault(_call(node, equal), node)
        if any(storage_of(value) in handed_out for value in tensors_of(node)) and not _gives_a_view(node):
            if same in seen:
                return True
            seen.add(same)
    return False


def _call(node: torch.fx.Node, equal: dict[torch.fx.Node, torch.fx.Node]) -> Any:
    """The target and arguments of a node in comparable form: a method becomes the function of its name."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    parts = [id(equal.get(leaf, leaf)) if isinstance(leaf, torch.fx.Node) else (type(leaf), repr(leaf)) for leaf in leaves]
    return name, tuple(parts), repr(spec)


def _gives_a_view(node: torch.fx.Node) -> bool:
    """Whether its result aliases an argument: then it is no new tensor."""
    input_storages = {storage_of(value) for value in _tensors_of_all(node.all_input_nodes)}
    return any(storage_of(value) in input_storages for value in tensors_of(node))


def _tensors_of_all(nodes: Iterable[torch.fx.Node]) -> list[torch.Tensor]:
    return [value for node in nodes for value in tensors_of(node)]
