"""Graphs that run as they stand because the program asks more of autograd than the gradients of their outputs.

The idea: to autograd a compiled graph is one operation: all its outputs depend on all its inputs, none of its gradients has a
gradient. A program that calls `torch.autograd.grad` on what the graph gave sees that (zeros for None, an error for the second
derivative), a hook does (it is called with None where no gradient comes), and so does a tensor that keeps its gradient
(`retain_grad`), and whatever else hangs on a tensor of autograd's that the graph writes to. A graph that changes what
autograd has saved for the backward makes backward raise, if it is ever called; a compiler raises at once, or computes with
what was there before. Such graphs are captured, but not compiled.

In:  a finished graph and the break it ends at. Out: whether it runs as it stands.
PyTorch's Dynamo compiles these, and AOTAutograd raises or differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynexplore.engine.graph.builder import FinishedGraph, example_value
from dynexplore.engine.graph_breaks import GraphBreak

ASKS_FOR_MORE = frozenset({
    "torch.autograd.grad", "Tensor.backward(create_graph=True)", "Tensor.register_hook()", "Tensor.retain_grad()",
})  # fmt: skip


def runs_as_it_stands(graph: FinishedGraph, breaks: Sequence[GraphBreak]) -> bool:
    """Whether what a compiler makes of the graph would be seen from outside."""
    if any(one.kind.id in ("DX404", "DX406") and one.facts.get("operation") in ASKS_FOR_MORE for one in breaks):
        return True
    changed = [graph.inputs[place].node for place in graph.written]
    if graph.written_inside and backward_would_raise(map(example_value, [*graph.outputs, *changed])):
        return True
    inputs = [graph.inputs[place].example for place in graph.written]
    return any(isinstance(one, torch.Tensor) and one.requires_grad and not one.is_leaf for one in inputs)


def backward_would_raise(outputs: Iterable[Any]) -> bool:
    """Whether something was changed that autograd has saved for the backward of these tensors.

    The saved ones know which version they were, and raise when they are looked at in another one.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x.exp()
    >>> backward_would_raise([y]), backward_would_raise([y.add_(1)])
    (False, True)
    """
    waiting = [tensor.grad_fn for tensor in outputs if isinstance(tensor, torch.Tensor)]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if _has_stale_tensors(node):
            return True
        waiting += [following for following, _ in node.next_functions]
    return False


def _has_stale_tensors(node: Any) -> bool:
    if node.name() == "CopySlices":  # a write to a view: nobody sees into it, so it is taken for stale
        return True
    try:
        for name in _saved_names(type(node)):
            getattr(node, name)
    except RuntimeError:
        return True
    return False


def _saved_names(kind: type[Any]) -> tuple[str, ...]:
    """The attributes of a kind of autograd's nodes that hold what it saved."""
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")
    return _names[kind]


_names: dict[type[Any], tuple[str, ...]] = {}
