"""Mutation analysis of a graph: which nodes mutate what, which alias which storage, and which raising nodes are dead.

The idea: what an operator mutates is recorded by storage when it runs on fake tensors (graph/fake_mode.py): a batch norm mutates
its running statistics, which its name does not show. If nothing was recorded, the operator's name decides.

In: nodes with their fake values in `meta["example_value"]`, what they mutate in `meta["writes"]`, and `meta["may_raise"]` if data
decides whether they raise. Out: answers. PyTorch's counterpart: torch/_functorch/_aot_autograd/collect_metadata_analysis.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from dynexplore.engine.aliasing.storage import storage_of

IN_PLACE_VIEWS = frozenset({"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_"})
"""Methods that change the sizes and strides of the tensor itself."""

_IN_PLACE_FUNCTIONS = frozenset({"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"})


def target_name(target: Any) -> str:
    """The name of a method, a function, or an operator of torch.ops, without its overload (`squeeze_.dim`)."""
    return str(target if isinstance(target, str) else getattr(target, "__name__", "")).partition(".")[0]


def operator_name(node: torch.fx.Node) -> str:
    """The name of what a node calls."""
    return target_name(node.target)


def is_as_strided(node: torch.fx.Node) -> bool:
    """Whether a node calls `as_strided`, in place or not, or one of its kin, such as `as_strided_scatter`."""
    return operator_name(node).startswith("as_strided")


def mutated_args(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes among its inputs whose values an operator mutates."""
    storages = node.meta.get("writes", ())
    mutated = [arg for arg in node.all_input_nodes if any(aliases_storage(arg, storage) for storage in storages)]
    if mutated:
        return mutated
    if "out" in node.kwargs:
        return [out for out in pytree.tree_leaves(node.kwargs["out"]) if isinstance(out, torch.fx.Node)]
    name = operator_name(node)
    return node.all_input_nodes[:1] if name.endswith("_") or name in _IN_PLACE_FUNCTIONS else []


def is_mutated_after(calls: Iterable[torch.fx.Node], takes: Callable[[torch.fx.Node], bool]) -> bool:
    """Whether the storage of a value that such a node takes is mutated by that node or a later one."""
    storages: set[int] = set()
    for node in calls:
        if takes(node):
            storages |= storages_of(node)
        if storages and any(storages & storages_of(mutated) for mutated in mutated_args(node)):
            return True
    return False


def aliases_storage(node: torch.fx.Node, storage: int) -> bool:
    """Whether its value, or a part of it, is a tensor in this storage."""
    return any(storage_of(value) == storage for value in tensors_of(node))


def dead_raising_ops(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The operators that may raise depending on data and whose results are unused: dead code elimination would remove them.

    Of several that depend on each other, only the last.
    """
    used: set[torch.fx.Node] = set()
    dropped: list[torch.fx.Node] = []
    live_storages = outside_storages(graph)
    for node in reversed(graph.nodes):
        mutated = set().union(*map(storages_of, mutated_args(node)))
        is_live = not mutated and (node.op == "output" or node.is_impure() or node.meta.get("example_value") is None)
        would_be_dropped = not (node in used or is_live or mutated & live_storages)
        if would_be_dropped and node.meta.get("may_raise"):
            dropped.append(node)
        if not would_be_dropped or node.meta.get("may_raise"):
            used.update(node.all_input_nodes)
            live_storages.update(*map(storages_of, node.all_input_nodes))
    return dropped


def mutated_storages(graph: torch.fx.Graph) -> set[int]:
    """The storages that the operators of a graph mutate."""
    return set().union(*(storages_of(target) for node in graph.nodes for target in mutated_args(node)))


def outside_storages(graph: torch.fx.Graph) -> set[int]:
    """The storages that exist before the graph runs: those of its inputs and attributes."""
    return set().union(*(storages_of(node) for node in graph.nodes if node.op in ("placeholder", "get_attr")))


def storages_of(node: torch.fx.Node) -> set[int]:
    """The storages of the tensors in its value."""
    return set(map(storage_of, tensors_of(node)))


def tensors_of(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    """The tensors in its value, which may be nested."""
    return (value for value in pytree.tree_leaves(node.meta.get("example_value")) if isinstance(value, torch.Tensor))
