"""Guards on how the inputs of a graph alias, as far as its backend depends on it.

The idea: AOTAutograd's graph reads inputs first and mutates them last, so it is correct for inputs that do not overlap.
Non-overlapping parts of one storage are fine, as long as no gradients are computed. If they are, autograd has one version counter
for the whole storage, and backward raises if one part was saved and another one mutated. Fake tensors share storages like the real
ones, so the capture is correct, but only for inputs that share storages in the same way. Overlapping inputs reach the backend as
views of a synthetic base (synthetic_bases.py), in the layout of this call, which is guarded. If no base is possible, and from the
second layout on, another cache entry, whose backend is skipped, serves every way of overlapping. Usually the whole check compares
two pointers.

AOTAutograd also regenerates a view of an input with offsets from the input's first element, and it knows only the input, not the
whole storage. The graph's nodes tell whether it depends on one of these facts; the real inputs tell whether the fact is true, and
the answer is guarded. If it is false, the backend is skipped (eligibility.py), and the entry serves all calls in which it is
false. Graphs of the backend "eager" do not depend on any of this and have no such guard.

In: a finished graph, and what installs a guard. Out: a STORAGE_OVERLAP guard, EQUALS guards; answers. PyTorch's counterpart:
`StorageOverlap` in torch/_guards.py, checked in torch._C._dynamo.guards, and AOTAutograd's synthetic bases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from dynexplore.engine.aliasing.storage import (
    Span,
    address_of,
    are_disjoint,
    begins_its_storage,
    extent,
    fills_its_storage,
    groups_that_alias,
    groups_that_overlap,
    is_disjoint_from,
    storage_begin,
    storage_of,
)
from dynexplore.engine.aliasing.synthetic_bases import Base, are_views_in_graph, bases_of
from dynexplore.engine.graph.finished_graph import FinishedGraph, GraphInput, example_value
from dynexplore.engine.provenance.sources import CallSource, Namer, PinnedSource, Source

InstallGuard = Callable[[Source, str, Any], None]
Varies = Callable[[str, object], bool]
"""Records how the inputs overlap, by the source of a mutated one; returns whether an earlier call had another layout."""


class StorageOverlap:
    """Whether tensors overlapped at capture, and whether those of another call do: the payload of a guard."""

    __slots__ = (
        "_extents", "_last", "_others", "_pinned", "_pinned_addresses", "_pinned_spans", "_pinned_storages", "bases", "groups",
        "mutated", "overlap", "sources", "whole_storages",
    )  # fmt: skip

    def __init__(
        self, sources: Sequence[Source], tensors: Sequence[torch.Tensor], fixed: Sequence[bool], mutated: Iterable[int],
        whole_storages: bool, bases: tuple[Base, ...] | None = None,
    ) -> None:  # fmt: skip
        """`fixed`: whether the sizes of each are guarded; `mutated`: the indices of those that the graph mutates.

        `whole_storages`: sharing a storage counts as overlap. `bases`: the tensors overlap, and must do so in this layout.
        """
        self.sources = tuple(sources)
        self.mutated = frozenset(mutated)
        self.whole_storages = whole_storages
        self.overlap = bool(groups_that_overlap(tensors, self.mutated))
        self.bases = bases
        self.groups = self._groups_that_alias(tensors) if not self.overlap or bases else []
        self._extents = [extent(tensor) if is_fixed else None for tensor, is_fixed in zip(tensors, fixed, strict=True)]
        pinned = [isinstance(source, PinnedSource) and is_fixed for source, is_fixed in zip(sources, fixed, strict=True)]
        self._pinned = [index for index, is_pinned in enumerate(pinned) if is_pinned]
        self._others = [index for index, is_pinned in enumerate(pinned) if not is_pinned]
        self._pinned_addresses: list[int] = []
        self._pinned_spans: list[Span] | None = None
        self._pinned_storages: frozenset[int] = frozenset()
        # The addresses of the tensors in the last call, and whether they were disjoint: still so if nothing moved. It is one
        # attribute, so that another thread sees a consistent state.
        self._last: tuple[list[int], list[int], bool] | None = None if whole_storages or not all(fixed) else ([], [], False)

    def holds(self, *tensors: torch.Tensor) -> bool:
        """Whether these are disjoint, share storages or overlap like those of the capture."""
        if self._are_disjoint(tensors):
            return not self.overlap and not self.groups
        if groups_that_overlap(tensors, self.mutated):
            return self.overlap and (self.bases is None or self._has_layout(tensors))
        return not self.overlap and self._groups_that_alias(tensors) == self.groups

    def _has_layout(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether overlapping tensors have the layout of the capture; their sizes and strides are guarded separately."""
        return bases_of(tensors, self.mutated) == self.bases and self._groups_that_alias(tensors) == self.groups

    def _groups_that_alias(self, tensors: Sequence[torch.Tensor]) -> list[list[int]]:
        """The groups of tensors in one storage, if that counts as overlap."""
        return groups_that_alias(tensors, self.mutated) if self.whole_storages else []

    def _are_disjoint(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether no two overlap. Tensors held by the cache entry (parameters) are sorted once, as long as none of them moves."""
        addresses = [address_of(tensors[index]) for index in self._pinned]
        if self._last is None:
            return self._are_disjoint_uncached(tensors, addresses)
        others = [address_of(tensors[index]) for index in self._others]
        pinned_then, others_then, answer = self._last
        if others != others_then or addresses != pinned_then:
            answer = self._are_disjoint_uncached(tensors, addresses)
            self._last = addresses, others, answer
        return answer

    def _are_disjoint_uncached(self, tensors: Sequence[torch.Tensor], addresses: list[int]) -> bool:
        """`_are_disjoint`, computed without the cache; `addresses` are those of the tensors held by the cache entry."""
        if addresses != self._pinned_addresses or self._pinned_spans is None:
            self._pinned_addresses, self._pinned_spans = addresses, None
            spans = sorted(self._span(tensors, index, at) for index, at in zip(self._pinned, addresses, strict=True))
            spans = [span for span in spans if span[0] < span[1]]
            self._pinned_storages = frozenset(storage_begin(tensors[index]) for index in self._pinned)
            if not are_disjoint(spans) or (self.whole_storages and len(self._pinned_storages) < len(addresses)):
                return False
            self._pinned_spans = spans
        others = sorted(self._span(tensors, index, address_of(tensors[index])) for index in self._others)
        if not are_disjoint(others) or not all(is_disjoint_from(span, self._pinned_spans) for span in others):
            return False
        if not self.whole_storages:
            return True
        storages = {storage_begin(tensors[index]) for index in self._others}
        return len(storages) == len(self._others) and storages.isdisjoint(self._pinned_storages)

    def _span(self, tensors: Sequence[torch.Tensor], index: int, start: int) -> Span:
        fixed = self._extents[index]
        return start, start + (extent(tensors[index]) if fixed is None else fixed), index

    def condition(self, values: Sequence[str], namer: Namer) -> str:
        """The check as Python text; for two tensors that were disjoint it compares two pointers."""
        whole = f"{namer.name(self.holds)}({', '.join(values)})"
        first, *rest = self._extents
        if self.overlap or self.whole_storages or len(rest) != 1 or first is None or rest[0] is None:
            return whole
        first_input, second_input = values
        return f"(p := {first_input}.data_ptr()) + {first} <= (q := {second_input}.data_ptr()) or q + {rest[0]} <= p or {whole}"

    def actual(self, *tensors: torch.Tensor) -> str:
        """How the tensors of another call alias, as text."""
        groups = groups_that_overlap(tensors, self.mutated)
        if groups and self.bases:
            begins = zip(self.sources, tensors, strict=True)
            return ", ".join(f"{source.text()} begins at {tensor.storage_offset()}" for source, tensor in begins)
        return self._words(groups, "overlap in memory") if groups else self._words(self._groups_that_alias(tensors))

    def expression(self) -> str:
        """The check as displayed."""
        names = [source.text() for source in self.sources]
        listed = ", ".join(names if len(names) <= 6 else [*names[:5], "..."])
        if self.bases:
            return f"overlap_in_this_layout({listed})"
        return f"share_storages({listed})" if self.groups else f"{'not ' * self.overlap}lie_apart({listed})"

    def _words(self, groups: Sequence[Sequence[int]], verb: str = "share memory") -> str:
        names = [source.text() for source in self.sources]
        if groups:
            return "; ".join(f"{' and '.join(names[index] for index in group)} {verb}" for group in groups)
        if len(names) == 2:
            return f"{names[0]} and {names[1]} do not {self._verb}"
        return f"{', '.join(names[index] for index in sorted(self.mutated))} and other inputs do not {self._verb}"

    @property
    def _verb(self) -> str:
        return "share memory" if self.whole_storages else "overlap in memory"

    def __str__(self) -> str:
        if not self.overlap:
            return self._words(self.groups)
        names = [source.text() for source in self.sources]
        begins = [(names[index], offset) for indices, offsets, *_ in self.bases or ()
                  for index, offset in zip(indices, offsets, strict=True)]  # fmt: skip
        return ", ".join(f"{name} begins at {offset}" for name, offset in begins) or "some of them overlap in memory"


# -- which graphs need which guard -------------------------------------------------------------------------------------


def no_guard(source: Source, kind: str, expected: Any) -> None:
    """Install no guard: for a graph for which no row that needs one is evaluated."""
    raise AssertionError(kind)


def guard_on_overlap(guard: InstallGuard, graph: FinishedGraph, varies: Varies, to_pass: list[Base]) -> bool:
    """Guard on whether inputs of a mutating graph overlap; returns whether they do and no synthetic base is possible.

    The bases through which the backend can get them, by input index, are appended to `to_pass`.
    """
    indices = [index for index, entry in enumerate(graph.inputs) if has_memory(entry) and entry.source.guardable]  # not new tensors
    inputs = [graph.inputs[index] for index in indices]
    mutated = [number for number, index in enumerate(indices) if index in graph.meta.mutated_inputs]
    if len(inputs) < 2 or not mutated:
        return False
    fixed = list(map(has_fixed_sizes, inputs))
    tensors = [entry.example for entry in inputs]
    bases = bases_of(tensors, mutated) or ()
    of_inputs: tuple[Base, ...] = tuple(
        (tuple(indices[number] for number in numbers), offsets, count, has_one_base)
        for numbers, offsets, count, has_one_base in bases
    )
    if not bases or not are_views_in_graph(of_inputs, graph) or varies(inputs[mutated[0]].source.text(), bases):
        bases = of_inputs = ()
    trains = any(isinstance(fake := example_value(node), torch.Tensor) and fake.requires_grad for node in graph.outputs)
    overlap = StorageOverlap([entry.source for entry in inputs], tensors, fixed, mutated, trains, bases or None)
    guard(inputs[mutated[0]].source, "STORAGE_OVERLAP", overlap)
    to_pass += of_inputs
    return overlap.overlap and not bases


def guard_on_storage_offsets(guard: InstallGuard, graph: FinishedGraph) -> bool:
    """Guard on whether each mutated input of which a view of symbolic size is returned begins its storage; returns the answer."""
    fakes = [example_value(node) for node in graph.outputs] if graph.meta.mutated_inputs else []
    views = {storage_of(fake) for fake in fakes if isinstance(fake, torch.Tensor) and _has_symbolic_layout(fake)}
    mutated = [graph.inputs[index] for index in graph.meta.mutated_inputs] if views else []
    viewed = [entry for entry in mutated if storage_of(example_value(entry.node)) in views]
    return _guard_on_each(guard, viewed, begins_its_storage)


def guard_on_whole_storages(guard: InstallGuard, graph: FinishedGraph) -> bool:
    """Guard on whether each input of an `as_strided` fills its whole storage; returns the answer."""
    strided = [graph.inputs[index] for index in graph.meta.as_strided_inputs]
    return _guard_on_each(guard, [entry for entry in strided if entry.source.guardable], fills_its_storage)


def _guard_on_each(guard: InstallGuard, inputs: list[GraphInput], holds: Callable[[torch.Tensor], bool]) -> bool:
    """Guard on a predicate of each input, up to the first False; returns the answer."""
    for entry in inputs:
        answer = holds(entry.example)
        guard(CallSource(entry.source, holds, holds.__name__), "EQUALS", answer)
        if not answer:
            return False
    return True


def has_memory(graph_input: GraphInput) -> bool:
    """Whether an input is a tensor with an address."""
    value = graph_input.example
    return isinstance(value, torch.Tensor) and not value.is_meta and not torch._C._functorch.is_functorch_wrapped_tensor(value)


def _has_symbolic_layout(fake: torch.Tensor) -> bool:
    return not all(isinstance(number, int) for number in (*fake.shape, *fake.stride(), fake.storage_offset()))


def has_fixed_sizes(graph_input: GraphInput) -> bool:
    """Whether sizes and strides of an input are static and guarded."""
    fake = example_value(graph_input.node)
    return all(isinstance(size, int) for size in (*fake.shape, *fake.stride()))
