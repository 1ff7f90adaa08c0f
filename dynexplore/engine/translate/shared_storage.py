"""A finished graph that writes to its inputs relies on which of them overlap in memory: the guard that says so.

The idea: what a backend makes of such a graph is good for inputs that lie apart (provenance/storage_overlap.py). One whose
inputs overlap, or in which one operator writes to the same memory twice, runs as it stands. Backends that run every graph as
it stands rely on nothing of this, and pay for no guard.

In:  the interpreter at its end, the graph. Out: a STORAGE_OVERLAP guard; a graph that no backend is to compile.
torch/_dynamo/guards.py takes AOTAutograd's guards over to the same end, where sizes are dynamic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.graph.builder import FinishedGraph, GraphInput, example_value
from dynexplore.engine.provenance.storage_overlap import StorageOverlap

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def guard_shared_storage(ctx: Interpreter, graph: FinishedGraph) -> None:
    """Rely on how the inputs of a graph that writes to some of them lie in memory."""
    if graph.as_it_stands or not graph.written:
        return
    places = [place for place, one in enumerate(graph.inputs) if isinstance(one.example, torch.Tensor) and not one.example.is_meta]
    inputs = [graph.inputs[place] for place in places]
    written = [number for number, place in enumerate(places) if place in graph.written]
    if len(inputs) < 2 or not written:
        return
    fixed = list(map(_has_fixed_sizes, inputs))
    trains = any(isinstance(fake := example_value(node), torch.Tensor) and fake.requires_grad for node in graph.outputs)
    overlap = StorageOverlap([one.source for one in inputs], [one.example for one in inputs], fixed, written, trains)
    graph.as_it_stands = overlap.overlap
    ctx.guard(inputs[written[0]].source, "STORAGE_OVERLAP", overlap)


def _has_fixed_sizes(graph_input: GraphInput) -> bool:
    fake = example_value(graph_input.node)
    return all(isinstance(size, int) for size in (*fake.shape, *fake.stride()))
