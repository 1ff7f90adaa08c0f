"""Inputs that need no copy before a graph runs, though one of its operators may raise: what it writes to them is written again.

The idea: when an operator raises, what the graph has changed is put back from copies, and the segment runs again as plain Python. A
cache of keys and values is large, and each step writes one place of it. But a graph that only overwrites places of an input, once,
and looks at the input afterwards alone, leaves nothing behind that the second run would notice: it writes the same numbers to the
same places, up to where it fails. Such an input needs no copy.

A compiler may have moved the write before an operator that fails. So there the write must depend on all that may fail ahead of it,
or fail as that does: `index_copy_` of one place, by the same index.

In:  a finished graph, whose inputs lie apart in memory. Out: the inputs that need no copy.
PyTorch has no counterpart: torch.compile puts nothing back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.fx

from dynexplore.engine.graph.written_nodes import memories_of, operator_of, written_by

_OVERWRITE = frozenset({"index_copy_", "index_put_", "index_fill_", "copy_", "fill_", "zero_", "masked_fill_", "setitem"})
_ASK_FOR_SIZES = frozenset({"size", "stride", "dim", "numel", "storage_offset", "getattr"})


def written_again(graph: torch.fx.Graph, written: Sequence[torch.fx.Node], in_order: bool) -> set[torch.fx.Node]:
    """Those of the inputs written to that need no copy. `in_order`: the operators run one by one, as they stand."""
    found = _Walk(in_order)
    inputs = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
    for node in inputs:
        for memory in memories_of(node):
            found.left[memory] = node if node in written and memory not in found.left else None
    for node in graph.nodes:
        found.visit(node)
    return {node for memory, node in found.left.items() if node is not None and memory in found.writes}


@dataclass
class _Walk:
    """What is known of memories and of operators that may fail, node by node. Sets of such operators are the bits of numbers."""

    in_order: bool
    left: dict[int, torch.fx.Node | None] = field(default_factory=dict)  # the input in a memory; None: it needs a copy
    writes: set[int] = field(default_factory=set)  # memories that were written to
    memories: dict[torch.fx.Node, set[int]] = field(default_factory=dict)
    may_fail: list[torch.fx.Node] = field(default_factory=list)
    behind: dict[torch.fx.Node, int] = field(default_factory=dict)  # of which of these a node needs the result
    writers: dict[int, int] = field(default_factory=dict)  # of which of these what lies in a memory does

    def visit(self, node: torch.fx.Node) -> None:
        """Take the next node into account."""
        self.memories[node] = memories_of(node)
        used = node.all_input_nodes
        touched = set().union(*(self.memories[one] for one in used))
        self.behind[node] = 0
        for one in used:
            self.behind[node] |= self.behind[one]
        for memory in touched:
            self.behind[node] |= self.writers.get(memory, 0)
        targets = written_by(node)
        changed = set().union(*(self.memories[target] for target in targets))
        for memory in touched & self.left.keys():
            is_looked_at = any(memory in self.memories[one] for one in used if one not in targets)
            if memory in changed:
                is_the_first = memory not in self.writes and not is_looked_at
                if not (is_the_first and _overwrites(node) and (self.in_order or self._fails_before(node))):
                    self.left[memory] = None
            elif memory not in self.writes and not self._only_makes_a_view(node, memory):
                self.left[memory] = None
        self.writes |= changed
        if node.meta.get("may_fail"):
            self.behind[node] |= 1 << len(self.may_fail)
            self.may_fail.append(node)
        for memory in changed:
            self.writers[memory] = self.writers.get(memory, 0) | self.behind[node]

    def _only_makes_a_view(self, node: torch.fx.Node, memory: int) -> bool:
        return memory in self.memories[node] or operator_of(node) in _ASK_FOR_SIZES

    def _fails_before(self, write: torch.fx.Node) -> bool:
        """Whether a write is never reached where something ahead of it fails, in whatever order a compiler runs them."""
        needed = self.behind[write]
        return all(needed >> bit & 1 or _fail_alike(one, write) for bit, one in enumerate(self.may_fail))


def _overwrites(node: torch.fx.Node) -> bool:
    """Whether what an operator writes does not depend on what was there."""
    name = operator_of(node)
    accumulates = name == "index_put_" and (len(node.args) > 3 or bool(node.kwargs))
    return name in _OVERWRITE and not accumulates


def _fail_alike(one: torch.fx.Node, write: torch.fx.Node) -> bool:
    """Whether the write raises where this one does: both to one place, by the same index, of which it has no more."""
    if not operator_of(one) == operator_of(write) == "index_copy_" or one.kwargs or write.kwargs:
        return False
    (first, dim, index, _), (second, other_dim, other_index, _) = one.args, write.args
    if index is not other_index or not isinstance(dim, int) or not isinstance(other_dim, int):
        return False
    places = [node.meta["example_value"] for node in (index, first, second) if isinstance(node, torch.fx.Node)]
    counts = places[0].numel(), places[1].shape[dim], places[2].shape[other_dim]
    return all(isinstance(count, int) for count in counts) and counts[0] == 1 and counts[2] <= counts[1]
