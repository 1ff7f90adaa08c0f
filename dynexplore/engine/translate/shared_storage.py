"""A finished graph that writes to its inputs relies on which of them share memory: the guard that says so.

The idea: what a backend makes of such a graph is good for one pattern of sharing (provenance/storage_overlap.py). Inputs that overlap
are compiled with fixed sizes, since nobody can say of symbolic ones where they lie: an attempt that made a size of them symbolic is
made again. A graph that runs as it stands relies on nothing of this and gets no guard.

In:  the interpreter at its end, the graph. Out: a STORAGE_OVERLAP guard; `SizesMustBeFixed`; a graph break where the memory is shared
behind torch's back, by two storages on one numpy array.
torch/_dynamo/guards.py takes AOTAutograd's guards over to the same end, where sizes are dynamic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.graph.builder import FinishedGraph, GraphInput, example_value
from dynexplore.engine.provenance.storage_overlap import StorageOverlap

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


class SizesMustBeFixed(Exception):
    """Inputs that overlap have symbolic sizes; `places` are the texts of their sources."""

    def __init__(self, places: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(places)))
        self.places = places


def guard_shared_storage(ctx: Interpreter, graph: FinishedGraph) -> None:
    """Rely on how the inputs of a graph that writes to some of them lie in memory."""
    if ctx.request.runs_as_it_is or not graph.written:
        return
    places = [place for place, one in enumerate(graph.inputs) if isinstance(one.example, torch.Tensor) and _has_memory(one.example)]
    tensors = [graph.inputs[place] for place in places]
    written = [number for number, place in enumerate(places) if place in graph.written]
    if len(tensors) < 2 or not written:
        return
    fixed = [_is_fixed(one) for one in tensors]
    overlap = StorageOverlap([one.source for one in tensors], [one.example for one in tensors], fixed, written)
    tangled = {member for tangle in overlap.tangles for member in tangle.members}
    if any(tangle.crosses_storages() for tangle in overlap.tangles):
        ctx.break_graph("DX207", function="writing to memory that another input has, too")
    symbolic = frozenset(tensors[member].source.text() for member in tangled if not fixed[member])
    if symbolic:
        raise SizesMustBeFixed(symbolic)
    ctx.guard(tensors[written[0]].source, "STORAGE_OVERLAP", overlap)


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "meta"


def _is_fixed(graph_input: GraphInput) -> bool:
    fake = example_value(graph_input.node)
    return all(isinstance(size, int) for size in (*fake.shape, *fake.stride()))
