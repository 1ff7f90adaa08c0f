"""Memory planning: the live bytes at each node of a graph, and the tensors that forward saves for backward.

The idea: memory can be computed without running the graph. The fake value of each node has a storage with a size, and views and
in-place writes share it, as real ones do. A storage is live from the node that creates it to the last node that uses it or one of
its views; inputs (including parameters) belong to the caller and are always live, outputs are live to the end. Backward begins with
the saved tensors and with the gradients of the results, each live until its last use. Dynamic sizes are summed as expressions, next
to the bytes of the recorded call.

The temporary memory of an operator (a workspace, the parts of a composite operator) is not visible here: measured_memory.py
measures it for graphs that run on a GPU. The allocator's rounding is not included either.

In: a graph as it was captured, or the forward and backward graphs of AOTAutograd, with the fake values of their nodes.
Out: `MemoryPlanned` events, which `recording.memory` reads.

PyTorch's counterpart: `estimate_peak_memory` in torch/_inductor/memory.py, for Inductor's buffers.
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
"""Storages by identity. They belong to fake tensors, have no data, and are kept alive so that no id is reused."""


def note_captured(recorder: Recorder, frame: int, name: str, module: torch.fx.GraphModule) -> None:
    """Record the memory of a captured graph, without the tensors that autograd would save for backward, which are unknown here."""
    plan = _Plan(module.graph)
    recorder.record(plan.event(frame, name, "captured"))


@dataclass(slots=True)
class Halves:
    """The forward and the backward graph of one captured graph; backward may be compiled later or never."""

    recorder: Recorder
    frame: int
    name: str
    inputs: Storages = field(default_factory=dict)
    saved_for_backward: Storages = field(default_factory=dict)
    planned: dict[str, MemoryPlanned] = field(default_factory=dict)

    def forward(self, graph: torch.fx.Graph, results: int | None) -> None:
        """Record the memory of forward, whose outputs after the first `results` are saved for backward (None: there is no
        backward).
        """
        plan = _Plan(graph)
        self.inputs = plan.inputs
        saved = plan.keep(results) if results is not None else ()
        self.saved_for_backward = plan.saved_for_backward
        self._tell(plan.event(self.frame, self.name, "forward", saved))

    def backward(self, graph: torch.fx.Graph) -> None:
        """Record the memory of backward. The inputs of forward stay live."""
        plan = _Plan(graph, self.inputs)
        plan.saved_for_backward = self.saved_for_backward
        self._tell(plan.event(self.frame, self.name, "backward"))

    def measured(self, stage: str, inside: Mapping[str, int]) -> None:
        """Record the memory of one graph again, with the temporary bytes measured at each of its nodes."""
        nodes = tuple(dataclasses.replace(node, inside=inside.get(node.name, 0)) for node in self.planned[stage].nodes)
        self._tell(dataclasses.replace(self.planned[stage], nodes=nodes, measured=True))

    def _tell(self, event: MemoryPlanned) -> None:
        self.planned[event.stage] = event
        self.recorder.record(event)


# -- sizes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A number of bytes: for this call, and as an expression in the dynamic sizes (sympy's, or the same number)."""

    now: int = 0
    formula: Any = 0

    def __add__(self, other: _Bytes) -> _Bytes:
        return _Bytes(self.now + other.now, self.formula + other.formula)

    def __sub__(self, other: _Bytes) -> _Bytes:
        return _Bytes(self.now - other.now, self.formula - other.formula)

    @property
    def text(self) -> str:
        """The expression, "" if nothing is dynamic."""
        return str(self.formula) if getattr(self.formula, "free_symbols", None) else ""


def _bytes_of(storage: Any) -> _Bytes:
    size = storage.nbytes()
    if isinstance(size, int):
        return _Bytes(size, size)
    hint = size.node.hint if size.node.has_hint() else 0  # an unbacked size, known only at run time
    return _Bytes(int(hint), size.node.expr.expand())


def _storages(value: Any) -> Iterator[tuple[int, Any]]:
    """The storages of the tensors in a fake value, by identity; sparse tensors have none."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            try:
                storage = leaf.untyped_storage()
            except (NotImplementedError, RuntimeError):  # wrapper tensors have none
                continue
            yield storage._cdata, storage


# -- one graph ---------------------------------------------------------------------------------------------------------


class _Plan:
    """The storages of one graph, and their live ranges."""

    def __init__(self, graph: torch.fx.Graph, resident: Storages | None = None) -> None:
        self.graph = graph
        self.of: dict[torch.fx.Node, Storages] = {node: dict(_storages(_value(node))) for node in graph.nodes}
        inputs = _joined(self.of[node] for node in graph.nodes if node.op in _INPUTS)
        self.inputs = inputs if resident is None else resident
        self.start = {**self.inputs, **inputs}
        self.saved_for_backward: Storages = {}  # saved tensors, excluding inputs
        self.sizes: dict[int, _Bytes] = {}
        self.last = self._last_uses()

    def _last_uses(self) -> dict[int, torch.fx.Node]:
        """The last node that uses each storage, through any view."""
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
        """The storages of the outputs after the first `results`, each once: they are saved for backward."""
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
    """The fake value of a node; an attribute without one is looked up."""
    if node.op == "output":
        return None
    value = node.meta.get("val", node.meta.get("example_value"))
    if value is None and node.op == "get_attr" and node.graph.owning_module is not None:
        value = node.graph.owning_module
        for name in str(node.target).split("."):
            value = getattr(value, name, None)
    return value


def _place(node: torch.fx.Node) -> str:
    """File and line of a node: recorded by the engine, or propagated by AOTAutograd as text."""
    file, line = node.meta.get("line") or ("", 0)
    if not line:
        file, line = (_PLACE.findall(node.meta.get("stack_trace") or "") or [("", 0)])[-1]
    return f"{os.path.basename(shown_file(file))}:{line}" if line else ""
