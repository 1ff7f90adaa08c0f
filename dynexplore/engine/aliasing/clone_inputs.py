"""Clone the inputs that a graph reads and then mutates: a recomputation in backward must see the data of before the mutation.

The idea: what AOTAutograd's partitioner does not save for backward, it recomputes there from the graph's inputs; but a mutated
input contains the new data by then. So reads of such an input before a mutation are redirected to a clone, which the partitioner
is told to save. Example: a spectral norm reads its vector and replaces it; its gradient depends on both.

This is possible if the input does not require grad and shares its storage with no other input, and if views that are read are not
needed after the mutation: they are views of the clone then.

The result of the last mutation is usually saved anyway, being as large as the input from which it could be recomputed. But with
dynamic sizes the partitioner may save the input, for its sizes: then it is told to save the result as well.

In: a finished graph and an input of it. Out: whether it can be rewritten; a copy of the graph for the backend. PyTorch's
counterpart: none; torch.compile computes different gradients there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

from dynexplore.engine.aliasing.mutation import aliases_storage, is_as_strided, mutated_args
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import copy_of_graph, example_value


def can_read_clones(graph: torch.fx.Graph, written: torch.fx.Node) -> bool:
    """Whether all reads of an input before its mutations can be redirected to clones."""
    value = example_value(written)
    if value.requires_grad or value.layout is not torch.strided:
        return False
    storage = storage_of(value)
    aliases = [node for node in graph.nodes if node.op in ("placeholder", "get_attr") and aliases_storage(node, storage)]
    return aliases == [written] and _readers_between_mutations(graph, written) is not None


def with_cloned_inputs(module: torch.fx.GraphModule, names: Sequence[str]) -> torch.fx.GraphModule:
    """A copy of the graph that reads the inputs of these names from clones, where a mutation follows."""
    copied = copy_of_graph(module)
    for written in _inputs_named(copied.graph, names):
        for readers in _readers_between_mutations(copied.graph, written) or ():
            _clone_for_readers(copied.graph, written, readers)
    copied.recompile()
    return copied


def save_mutated_inputs(module: torch.fx.GraphModule, names: Sequence[str]) -> None:
    """Tell the partitioner to save the results of mutations of these inputs with dynamic sizes, if backward needs them."""
    for written in _inputs_named(module.graph, names):
        value = example_value(written)
        if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
            for write in _writes_to(module.graph, storage_of(value)):
                write.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _inputs_named(graph: torch.fx.Graph, names: Sequence[str]) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder" and node.name in names]


def _writes_to(graph: torch.fx.Graph, storage: int) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if any(aliases_storage(argument, storage) for argument in mutated_args(node))]


def _clone_for_readers(graph: torch.fx.Graph, written: torch.fx.Node, readers: Sequence[torch.fx.Node]) -> None:
    with graph.inserting_before(readers[0]):
        clone = graph.call_method("clone", (written,))
    clone.meta["example_value"] = example_value(written)
    clone.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for reader in readers:
        reader.replace_input_with(written, clone)


def _readers_between_mutations(graph: torch.fx.Graph, written: torch.fx.Node) -> list[list[torch.fx.Node]] | None:
    """For each section before a mutation, the nodes that are to read a clone of the input; None if that is impossible."""
    storage = storage_of(example_value(written))
    position = {node: number for number, node in enumerate(graph.nodes)}
    writes = _writes_to(graph, storage)
    stretches: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for user in sorted(written.users, key=position.__getitem__):
        later = [write for write in writes if position[write] >= position[user]]
        if user in writes or not later:
            continue
        seen = _transitive_readers(user, storage)
        views = [node for node in seen if aliases_storage(node, storage)]
        if len(views) == len(seen) or (views and seen <= {*views, *writes}):
            continue  # only mutates it, reads nothing
        if any(node in writes or position[node] > position[later[0]] or is_as_strided(node) for node in seen):
            return None
        stretches.setdefault(later[0], []).append(user)
    return list(stretches.values())


def _transitive_readers(node: torch.fx.Node, storage: int) -> set[torch.fx.Node]:
    """A node that reads a storage, and if it returns a view, the transitive users of that view."""
    observers: set[torch.fx.Node] = set()
    pending: list[torch.fx.Node] = [node]
    while pending:
        observer = pending.pop()
        if observer not in observers:
            observers.add(observer)
            pending += _aliasing_users(observer, storage)
    return observers


def _aliasing_users(node: torch.fx.Node, storage: int) -> Iterable[torch.fx.Node]:
    return node.users if aliases_storage(node, storage) else ()
