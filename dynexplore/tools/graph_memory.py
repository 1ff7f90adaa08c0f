"""How much memory a graph needs: the bytes that live at each of its nodes, and what forward keeps for backward.

The idea: nobody has to run a graph to know its memory. The fake value of each node has a storage with a size, and views and
writes in place share it, as real ones do. A storage lives from the node that makes it to the last node that uses it or one of its
views; what goes in (inputs, parameters) belongs to the caller and lives all the while, what comes out lives to the end. Backward
begins with what forward kept and with the gradients of the results, each until its last use. Sizes that vary are summed as
expressions beside the bytes of the call that was recorded.

What an operator needs inside (a workspace, the parts of a composite one) is seen by nobody here: measured_memory.py measures it
where the graph runs on a GPU. What the allocator rounds up is seen by nobody.

In:  a graph as it was captured, or the two halves that AOTAutograd makes of it, with the fake values of their nodes.
Out: `MemoryPlanned` events, which `recording.memory` reads.

PyTorch's counterpart: torch/_inductor/memory.py (estimate_peak_memory), of Inductor's buffers.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.events import MemoryPlanned, NodeMemory, SavedStorage
from dynexplore.engine.graph.qualified_names import target_text
from dynexplore.engine.recorder import Recorder

_INPUTS = ("placeholder", "get_attr")
_PLACE = re.compile(r'File "(.*)", line (\d+), in ')

Storages = dict[int, Any]
"""Storages by identity. They are those of fake tensors, which have no bytes, and are held so that none takes another's place."""


def note_captured(recorder: Recorder, frame: int, name: str, module: torch.fx.GraphModule) -> None:
    """Tell the memory of a graph as it was captured: where autograd keeps something for backward, this does not know it."""
    plan = _Plan(module.graph)
    recorder.record(plan.event(frame, name, "captured"))


@dataclass(slots=True)
class Halves:
    """The forward and the backward graph of one captured graph, of which backward may come later or never."""

    recorder: Recorder
    frame: int
    name: str
    inputs: Storages = field(default_factory=dict)
    saved_for_backward: Storages = field(default_factory=dict)
    planned: dict[str, MemoryPlanned] = field(default_factory=dict)

    def forward(self, graph: torch.fx.Graph, results: int | None) -> None:
        """Tell the memory of forward, whose outputs after the first `results` are kept for backward (None: there is none)."""
        plan = _Plan(graph)
        self.inputs = plan.inputs
        saved = plan.keep(results) if results is not None else ()
        self.saved_for_backward = plan.saved_for_backward
        self._tell(plan.event(self.frame, self.name, "forward", saved))

    def backward(self, graph: torch.fx.Graph) -> None:
        """Tell the memory of backward. What forward was given lives on."""
        plan = _Plan(graph, self.inputs)
        plan.saved_for_backward = self.saved_for_backward
        self._tell(plan.event(self.frame, self.name, "backward"))

    def measured(self, stage: str, inside: Mapping[str, int]) -> None:
        """Tell the memory of a half again, with the bytes that each of its nodes took inside as it ran."""
        nodes = tuple(dataclasses.replace(node, inside=inside.get(node.name, 0)) for node in self.planned[stage].nodes)
        self._tell(dataclasses.replace(self.planned[stage], nodes=nodes, measured=True))

    def _tell(self, event: MemoryPlanned) -> None:
        self.planned[event.stage] = event
        self.recorder.record(event)


# -- sizes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A number of bytes: of this call, and as an expression in the sizes that vary (sympy's, or the same number)."""

    now: int = 0
    formula: Any = 0

    def __add__(self, other: _Bytes) -> _Bytes:
        return _Bytes(self.now + other.now, self.formula + other.formula)

    def __sub__(self, other: _Bytes) -> _Bytes:
        return _Bytes(self.now - other.now, self.formula - other.formula)

    @property
    def text(self) -> str:
        """The expression, "" where nothing varies."""
        return str(self.formula) if getattr(self.formula, "free_symbols", None) else ""


def _bytes_of(storage: Any) -> _Bytes:
    size = storage.nbytes()
    if isinstance(size, int):
        return _Bytes(size, size)
    hint = size.node.hint if size.node.has_hint() else 0  # a size that only the run knows
    return _Bytes(int(hint), size.node.expr.expand())


def _storages(value: Any) -> Iterator[tuple[int, Any]]:
    """The storages of the tensors in a fake value, by identity; those of a sparse tensor cannot be asked for."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            try:
                storage = leaf.untyped_storage()
            except (NotImplementedError, RuntimeError):  # a wrapper of tensors has none
                continue
            yield storage._cdata, storage


# -- one graph ---------------------------------------------------------------------------------------------------------


class _Plan:
    """The storages of one graph, and when each of them lives."""

    def __init__(self, graph: torch.fx.Graph, resident: Storages | None = None) -> None:
        self.graph = graph
        self.of: dict[torch.fx.Node, Storages] = {node: dict(_storages(_value(node))) for node in graph.nodes}
        inputs = _joined(self.of[node] for node in graph.nodes if node.op in _INPUTS)
        self.inputs = inputs if resident is None else resident
        self.start = {**self.inputs, **inputs}
        self.saved_for_backward: Storages = {}  # what forward keeps for backward, besides inputs
        self.sizes: dict[int, _Bytes] = {}
        self.last = self._last_uses()

    def _last_uses(self) -> dict[int, torch.fx.Node]:
        """The last node at which each storage is used, under whatever name."""
        last: dict[int, torch.fx.Node] = {}
        for node in self.graph.nodes:
            for used in (node, *node.all_input_nodes):
                last.update(dict.fromkeys(self.of[used], node))
        return last

    def _size(self, storages: Storages) -> _Bytes:
        total = _Bytes()
        for key, storage in storages.items():
            if key not in self.sizes:
                self.sizes[key] = _bytes_of(storage)
            total += self.sizes[key]
        return total

    def rows(self) -> Iterator[NodeMemory]:
        """The memory at each node that computes something."""
        live = dict(self.start)
        total = self._size(live)
        for node in self.graph.nodes:
            if node.op in ("output", *_INPUTS):
                continue
            allocated = {key: storage for key, storage in self.of[node].items() if key not in live}
            size = self._size(allocated)
            total += size
            live.update(allocated)
            saved = (
                self._size({key: live[key] for key in self.saved_for_backward if key in live})
                if self.saved_for_backward
                else _Bytes()
            )
            yield NodeMemory(node.name, target_text(node), total.now, size.now, saved.now, total.text, _place(node))
            ended = {key: live[key] for key in self._used_at(node) if self.last[key] is node and key not in self.inputs}
            total -= self._size(ended)
            for key in ended:
                del live[key]

    def _used_at(self, node: torch.fx.Node) -> Storages:
        return _joined(self.of[used] for used in (node, *node.all_input_nodes))

    def keep(self, results: int) -> tuple[SavedStorage, ...]:
        """The storages that the outputs after the first `results` have, each once: they are held for backward."""
        (output,) = self.graph.find_nodes(op="output")
        saved: dict[int, SavedStorage] = {}
        for node in output.args[0][results:]:
            for key in self.of.get(node, ()):
                size = self._size({key: self.of[node][key]})
                saved.setdefault(key, SavedStorage(node.name, size.now, size.text, key in self.inputs))
                if key not in self.inputs:
                    self.saved_for_backward[key] = self.of[node][key]
        return tuple(saved.values())

    def event(self, frame: int, name: str, stage: str, saved: tuple[SavedStorage, ...] = ()) -> MemoryPlanned:
        inputs = self._size(self.inputs).now
        return MemoryPlanned(frame=frame, graph=name, stage=stage, inputs=inputs, nodes=tuple(self.rows()), saved=saved)


def _joined(parts: Iterable[Storages]) -> Storages:
    joined: Storages = {}
    for part in parts:
        joined.update(part)
    return joined


def _value(node: torch.fx.Node) -> Any:
    """What a node gives, as a fake value; an attribute without one is asked for itself."""
    if node.op == "output":
        return None
    value = node.meta.get("val", node.meta.get("example_value"))
    if value is None and node.op == "get_attr" and node.graph.owning_module is not None:
        value = node.graph.owning_module
        for name in str(node.target).split("."):
            value = getattr(value, name, None)
    return value


def _place(node: torch.fx.Node) -> str:
    """File and line behind a node: noted by the engine, or handed on by AOTAutograd as text."""
    file, line = node.meta.get("line") or ("", 0)
    if not line:
        file, line = (_PLACE.findall(node.meta.get("stack_trace") or "") or [("", 0)])[-1]
    return f"{os.path.basename(shown_file(file))}:{line}" if line else ""
