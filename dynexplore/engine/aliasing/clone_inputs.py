"""Clones of inputs that a graph reads and then mutates: a recomputation in backward must see the data of before the mutation.

The idea: what a compiler does not keep for the backward it computes again there, from the graph's inputs; and of an input that
the graph writes to it finds what was written. So what is read of such an input before a write is read from a copy, which the
compiler is told to keep. A spectral norm reads its vector, and puts a new one in its place; its gradient depends on both.

That is possible where the input is not one with a gradient and shares its memory with no other one, and where views that are read
are not needed behind the write: they are views of the copy then.

What the last write made, a compiler keeps, being as large as the input that it could be computed from. But where sizes vary it may
keep the input anyway, for its sizes: there it is told to keep what was written, too.

In:  a finished graph and an input of it. Out: whether it can be rewritten; a copy of the graph for the compiler.
AOTAutograd has no counterpart: torch.compile gives other gradients there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

from dynexplore.engine.aliasing.mutation import aliases_storage, mutated_args, operator_name
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.builder import example_value


def can_read_clones(graph: torch.fx.Graph, written: torch.fx.Node) -> bool:
    """Whether what is read of an input before it is written to can be read from copies of it."""
    value = example_value(written)
    if value.requires_grad or value.layout is not torch.strided:
        return False
    storage = storage_of(value)
    aliases = [node for node in graph.nodes if node.op in ("placeholder", "get_attr") and aliases_storage(node, storage)]
    return aliases == [written] and _stretches(graph, written) is not None


def with_cloned_inputs(module: torch.fx.GraphModule, names: Sequence[str]) -> torch.fx.GraphModule:
    """A copy of the graph that reads the inputs of these names from copies, where a write comes later."""
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))  # it shares the parameters
    for written in _inputs_named(copied.graph, names):
        for readers in _stretches(copied.graph, written) or ():
            _read_a_copy(copied.graph, written, readers)
    copied.recompile()
    return copied


def save_mutated_inputs(module: torch.fx.GraphModule, names: Sequence[str]) -> None:
    """Tell a compiler to keep what is written to the inputs of these names, of which the sizes vary, if backward asks for it."""
    for written in _inputs_named(module.graph, names):
        value = example_value(written)
        if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
            for write in _writes_to(module.graph, storage_of(value)):
                write.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _inputs_named(graph: torch.fx.Graph, names: Sequence[str]) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "placeholder" and node.name in names]


def _writes_to(graph: torch.fx.Graph, storage: int) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if any(aliases_storage(argument, storage) for argument in mutated_args(node))]


def _read_a_copy(graph: torch.fx.Graph, written: torch.fx.Node, readers: Sequence[torch.fx.Node]) -> None:
    with graph.inserting_before(readers[0]):
        clone = graph.call_method("clone", (written,))
    clone.meta["example_value"] = example_value(written)
    clone.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for reader in readers:
        reader.replace_input_with(written, clone)


def _stretches(graph: torch.fx.Graph, written: torch.fx.Node) -> list[list[torch.fx.Node]] | None:
    """For each stretch before a write, the nodes that are to take a copy of the input in its place; None if they cannot."""
    storage = storage_of(example_value(written))
    place = {node: number for number, node in enumerate(graph.nodes)}
    writes = _writes_to(graph, storage)
    stretches: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for user in sorted(written.users, key=place.__getitem__):
        later = [write for write in writes if place[write] >= place[user]]
        if user in writes or not later:
            continue
        seen = _all_that_look(user, storage)
        views = [node for node in seen if aliases_storage(node, storage)]
        if len(views) == len(seen) or (views and seen <= {*views, *writes}):
            continue  # only written through
        if any(node in writes or place[node] > place[later[0]] or operator_name(node).startswith("as_strided") for node in seen):
            return None
        stretches.setdefault(later[0], []).append(user)
    return list(stretches.values())


def _all_that_look(node: torch.fx.Node, storage: int) -> set[torch.fx.Node]:
    """A node that is given memory; if it gives a view of that, those that are given the view, and so on."""
    observers: set[torch.fx.Node] = set()
    pending: list[torch.fx.Node] = [node]
    while pending:
        observer = pending.pop()
        if observer not in observers:
            observers.add(observer)
            pending += _those_who_get(observer, storage)
    return observers


def _those_who_get(node: torch.fx.Node, storage: int) -> Iterable[torch.fx.Node]:
    return node.users if aliases_storage(node, storage) else ()
