"""Rollback: if an operator raises, the mutations of the graph are undone, so that the segment can run again as plain Python.

The idea: if an operator raises, the mutated inputs are restored from copies, and the segment runs again as plain Python
(translate/graph_failure.py decides that). Inputs are copied only in the first run (which shows whether kernels exist for these
types), and in each run if an operator may raise depending on the data of tensors.

A key-value cache is large, and each step writes one index of it. But a graph that only overwrites elements of an input, once, and
reads the input only afterwards, leaves nothing behind that a second run would observe: it writes the same numbers to the same
elements, up to the failing operator. Such a mutation is idempotent, and its input needs no copy. A backend may have moved the
write before an operator that fails. So then the write must depend on all earlier operators that may fail, or fail exactly when
they do: `index_copy_` of one element, with the same index.

In: a callable, its graph, and what decides about an exception. Out: the callable, which restores inputs and the RNG state if the
segment runs again. PyTorch's counterpart: none; torch.compile undoes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.fx

from dynexplore.engine.aliasing.input_history import has_restorable_history, restore_history
from dynexplore.engine.aliasing.mutation import mutated_args, operator_name, storages_of
from dynexplore.engine.aliasing.overlap_guard import StorageOverlap, has_fixed_sizes, has_memory
from dynexplore.engine.aliasing.storage import alias_no_others
from dynexplore.engine.graph.finished_graph import FinishedGraph


class Segment(Protocol):
    """The frame's view of an exception in its graph (translate/graph_failure.py)."""

    in_order: bool  # the operators run in the program's order
    has_side_effects: bool  # side effects precede the graph

    def may_run_program_code(self) -> bool:
        """Whether user code may run during the graph, in this call."""

    def runs_again(self, raised: BaseException) -> bool:
        """Whether the segment runs again after this exception."""

    def note_inputs_mutated(self, raised: BaseException) -> None:
        """Record that the graph had already mutated its inputs: the exception propagates."""


def with_rollback(function: Callable[..., Any], graph: FinishedGraph, segment: Segment) -> Callable[..., Any]:
    """Wrap a compiled graph so that inputs and the RNG state are restored if its segment runs again."""
    meta = graph.meta
    if not meta.mutated_inputs and not meta.draws_rng:
        return function
    restoring = _restoring(function, graph, segment)
    if meta.may_raise or not meta.mutated_inputs:
        return restoring
    is_first = True

    def run(*inputs: Any) -> Any:
        nonlocal is_first
        if is_first or (segment.has_side_effects and segment.may_run_program_code()):
            outputs, is_first = restoring(*inputs), False
            return outputs
        try:
            return function(*inputs)
        except BaseException as raised:
            segment.note_inputs_mutated(raised)
            raise

    return run


def _restoring(function: Callable[..., Any], graph: FinishedGraph, segment: Segment) -> Callable[..., Any]:
    mutated, draws_rng = graph.meta.mutated_inputs, graph.meta.draws_rng
    idempotent = inputs_that_need_no_copy(graph.module.graph, [graph.inputs[index].node for index in mutated], segment.in_order)
    uncopied = [index for index in mutated if graph.inputs[index].node in idempotent]
    copied = [index for index in mutated if index not in uncopied]
    counted = [index for index in mutated if not graph.meta.inputs[index].is_inference]
    new_history = [
        index for index in mutated if graph.meta.inputs[index].gains_grad_fn and has_restorable_history(graph.inputs[index].example)
    ]
    alias_nothing = _alias_check(graph, uncopied)

    def run(*inputs: Any) -> Any:
        indices: Sequence[int] = copied
        if uncopied and not alias_nothing(inputs):
            indices = mutated
        undo = [_copy_of(inputs[index]) for index in indices]
        versions = [inputs[index]._version for index in counted]
        states = _random_states(inputs) if draws_rng else ()
        try:
            return function(*inputs)
        except BaseException as raised:
            if segment.runs_again(raised):
                for restore in (*undo, *states):
                    restore()
                for index in new_history:
                    restore_history(inputs[index])
                for index, version in zip(counted, versions, strict=True):
                    torch._C._autograd._unsafe_set_version_counter((inputs[index],), (version,))
            raise

    return run


def _alias_check(graph: FinishedGraph, indices: Sequence[int]) -> Callable[[Sequence[Any]], bool]:
    """A function that checks whether the inputs at these indices alias none of the others, in a call.

    For plain tensors it is enough that none overlaps, unless the graph uses an input's whole storage (`as_strided`).
    """
    tensors = [index for index, entry in enumerate(graph.inputs) if isinstance(entry.example, torch.Tensor)]
    entries = [graph.inputs[index] for index in tensors]
    if not all(type(entry.example) in (torch.Tensor, torch.nn.Parameter) and has_memory(entry) for entry in entries):
        return lambda inputs: alias_no_others(inputs, indices)
    overlap = StorageOverlap(
        [entry.source for entry in entries], [entry.example for entry in entries], list(map(has_fixed_sizes, entries)),
        map(tensors.index, indices), whole_storages=bool(graph.meta.as_strided_inputs),
    )  # fmt: skip
    if overlap.overlap or overlap.groups:
        return lambda inputs: False

    def alias_nothing(inputs: Sequence[Any]) -> bool:
        with torch._C.DisableTorchFunctionSubclass():  # do not run the user's TorchFunctionModes in guards
            return overlap.holds(*[inputs[index] for index in tensors])

    return alias_nothing


def _copy_of(tensor: torch.Tensor) -> Callable[[], object]:
    """Copy a tensor; returns a function that restores the data and the layout."""
    data = tensor.detach()
    copy, layout = _without_expanded_dims(data).clone(), (data.size(), data.stride(), data.storage_offset())

    def restore() -> None:
        detached = tensor.detach()
        if (detached.size(), detached.stride(), detached.storage_offset()) != layout:
            with torch.no_grad():
                tensor.as_strided_(*layout)
        _without_expanded_dims(tensor.data).copy_(copy)

    return restore


def _without_expanded_dims(tensor: torch.Tensor) -> torch.Tensor:
    """The part of an expanded tensor that holds each of its places once: `copy_` refuses the whole."""
    strides = tensor.stride()
    return tensor[tuple([slice(1 if stride == 0 else None) for stride in strides])] if 0 in strides else tensor


def _random_states(inputs: Sequence[Any]) -> list[Callable[[], object]]:
    states: list[Callable[[], object]] = [functools.partial(torch.set_rng_state, torch.get_rng_state())]
    if any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs):
        states.append(functools.partial(torch.cuda.set_rng_state, torch.cuda.get_rng_state()))
    return states


# -- which inputs need no copy -----------------------------------------------------------------------------------------

_OVERWRITE = frozenset({"index_copy_", "index_put_", "index_fill_", "copy_", "fill_", "zero_", "masked_fill_", "setitem"})
_ASK_FOR_SIZES = frozenset({"size", "stride", "dim", "numel", "storage_offset", "getattr"})


def inputs_that_need_no_copy(graph: torch.fx.Graph, written: Sequence[torch.fx.Node], in_order: bool) -> set[torch.fx.Node]:
    """The mutated inputs that need no copy. `in_order`: the operators run one by one, as captured."""
    state = _DataflowState(in_order)
    inputs = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
    for node in inputs:
        for storage in storages_of(node):
            state.uncopied[storage] = node if node in written and storage not in state.uncopied else None
    for node in graph.nodes:
        state.visit(node)
    return {node for storage, node in state.uncopied.items() if node is not None and storage in state.mutated}


@dataclass
class _DataflowState:
    """The dataflow facts about storages and raising operators, node by node. Sets of such operators are bit sets."""

    in_order: bool
    uncopied: dict[int, torch.fx.Node | None] = field(default_factory=dict)  # the input in a storage; None: needs a copy
    mutated: set[int] = field(default_factory=set)  # storages that were mutated
    storages: dict[torch.fx.Node, set[int]] = field(default_factory=dict)
    may_raise: list[torch.fx.Node] = field(default_factory=list)
    depends_on: dict[torch.fx.Node, int] = field(default_factory=dict)  # the raising operators that a node depends on
    writers: dict[int, int] = field(default_factory=dict)  # the same for the content of a storage

    def visit(self, node: torch.fx.Node) -> None:
        """Update the state with the next node."""
        self.storages[node] = storages_of(node)
        used = node.all_input_nodes
        touched = set().union(*(self.storages[arg] for arg in used))
        self.depends_on[node] = 0
        for arg in used:
            self.depends_on[node] |= self.depends_on[arg]
        for storage in touched:
            self.depends_on[node] |= self.writers.get(storage, 0)
        targets = mutated_args(node)
        changed = set().union(*(self.storages[target] for target in targets))
        for storage in touched & self.uncopied.keys():
            is_looked_at = any(storage in self.storages[arg] for arg in used if arg not in targets)
            if storage in changed:
                is_the_first = storage not in self.mutated and not is_looked_at
                if not (is_the_first and _overwrites(node) and (self.in_order or self._fails_before(node))):
                    self.uncopied[storage] = None
            elif storage not in self.mutated and not self._only_makes_a_view(node, storage):
                self.uncopied[storage] = None
        self.mutated |= changed
        if node.meta.get("may_raise"):
            self.depends_on[node] |= 1 << len(self.may_raise)
            self.may_raise.append(node)
        for storage in changed:
            self.writers[storage] = self.writers.get(storage, 0) | self.depends_on[node]

    def _only_makes_a_view(self, node: torch.fx.Node, storage: int) -> bool:
        return storage in self.storages[node] or operator_name(node) in _ASK_FOR_SIZES

    def _fails_before(self, write: torch.fx.Node) -> bool:
        """Whether a mutation cannot happen if an earlier operator fails, in whatever order a backend runs them."""
        needed = self.depends_on[write]
        return all(needed >> bit & 1 or _raise_together(raising, write) for bit, raising in enumerate(self.may_raise))


def _overwrites(node: torch.fx.Node) -> bool:
    """Whether an operator's result in the mutated tensor is independent of its previous content."""
    name = operator_name(node)
    accumulates = name == "index_put_" and (len(node.args) > 3 or bool(node.kwargs))
    return name in _OVERWRITE and not accumulates


def _raise_together(raising: torch.fx.Node, write: torch.fx.Node) -> bool:
    """Whether the mutation raises exactly when this operator does: both access one element with the same index and range."""
    if not operator_name(raising) == operator_name(write) == "index_copy_" or raising.kwargs or write.kwargs:
        return False
    (first, dim, index, _), (second, other_dim, other_index, _) = raising.args, write.args
    if index is not other_index or not isinstance(dim, int) or not isinstance(other_dim, int):
        return False
    operands = [node.meta["example_value"] for node in (index, first, second) if isinstance(node, torch.fx.Node)]
    counts = operands[0].numel(), operands[1].shape[dim], operands[2].shape[other_dim]
    return all(isinstance(count, int) for count in counts) and counts[0] == 1 and counts[2] <= counts[1]
