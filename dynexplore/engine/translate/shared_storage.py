"""A finished graph that writes to its inputs relies on which of them overlap in memory: the guard that says so.

The idea: what a backend makes of such a graph is good for inputs that lie apart (provenance/storage_overlap.py). One whose
inputs overlap, or in which one operator writes to the same memory twice, runs as it stands. So does one that gives back a view,
of a size that varies, of an input that it has written to, where that input does not begin with its storage: AOTAutograd makes
such a view from numbers that count from there. And so does one that takes an input apart by places in its storage (`as_strided`),
where the input is not all of it: compilers know the input alone. Backends that run every graph as it stands rely on nothing of
this, and pay for no guard.

In:  the interpreter at its end, the graph. Out: a STORAGE_OVERLAP guard; a graph that no backend is to compile.
torch/_dynamo/guards.py takes AOTAutograd's guards over to the same end, where sizes are dynamic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from dynexplore.engine.graph.builder import FinishedGraph, GraphInput, example_value
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.provenance.sources import CallSource
from dynexplore.engine.provenance.storage_overlap import StorageOverlap

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def guard_shared_storage(ctx: Interpreter, graph: FinishedGraph) -> None:
    """Rely on how the inputs of a graph that writes to some of them lie in memory."""
    if graph.as_it_stands or not graph.written:
        return
    places = [place for place, one in enumerate(graph.inputs) if _has_memory(one) and one.source.guardable]  # a new one lies apart
    inputs = [graph.inputs[place] for place in places]
    written = [number for number, place in enumerate(places) if place in graph.written]
    if len(inputs) < 2 or not written:
        return
    fixed = list(map(_has_fixed_sizes, inputs))
    trains = any(isinstance(fake := example_value(node), torch.Tensor) and fake.requires_grad for node in graph.outputs)
    overlap = StorageOverlap([one.source for one in inputs], [one.example for one in inputs], fixed, written, trains)
    graph.as_it_stands = overlap.overlap
    ctx.guard(inputs[written[0]].source, "STORAGE_OVERLAP", overlap)


def _has_memory(graph_input: GraphInput) -> bool:
    return isinstance(graph_input.example, torch.Tensor) and not graph_input.example.is_meta


def guard_storage_offsets(ctx: Interpreter, graph: FinishedGraph) -> None:
    """Rely on whether inputs begin with their storage, where views of what was written are made again from offsets."""
    if graph.as_it_stands or not graph.written:
        return
    fakes = [example_value(node) for node in graph.outputs]
    views = {storage_of(fake) for fake in fakes if isinstance(fake, torch.Tensor) and _is_view_that_varies(fake)}
    for place in graph.written if views else ():
        one = graph.inputs[place]
        if storage_of(example_value(one.node)) in views:
            _compile_only_where(ctx, graph, one, begins_its_storage)


def guard_whole_storages(ctx: Interpreter, graph: FinishedGraph) -> None:
    """Rely on whether inputs are all of their storage, where places in it are meant."""
    for place in graph.seen_as_storages:
        one = graph.inputs[place]
        if not graph.as_it_stands and one.source.guardable:
            _compile_only_where(ctx, graph, one, fills_its_storage)


def _compile_only_where(ctx: Interpreter, graph: FinishedGraph, one: GraphInput, holds: Callable[[torch.Tensor], bool]) -> None:
    """Rely on the answer to a question about an input; a graph whose input answers no runs as it stands."""
    answer = holds(one.example)
    ctx.guard(CallSource(one.source, holds, holds.__name__), "EQUALS", answer)
    graph.as_it_stands |= not answer


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all that its storage holds.

    >>> fills_its_storage(torch.ones(4)), fills_its_storage(torch.ones(4)[:2])
    (True, False)
    """
    return tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def begins_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor's first element is its storage's.

    >>> begins_its_storage(torch.ones(4)), begins_its_storage(torch.ones(4)[1:])
    (True, False)
    """
    return tensor.storage_offset() == 0


def _is_view_that_varies(fake: torch.Tensor) -> bool:
    return not all(isinstance(number, int) for number in (*fake.shape, *fake.stride(), fake.storage_offset()))


def _has_fixed_sizes(graph_input: GraphInput) -> bool:
    fake = example_value(graph_input.node)
    return all(isinstance(size, int) for size in (*fake.shape, *fake.stride()))
