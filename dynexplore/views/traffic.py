"""Memory traffic: reads and writes of a graph's operators run one by one, compared with those of its fused kernels.

The idea: an operator that runs separately reads its inputs from memory and writes its result there. A kernel fuses several
operators, and intermediate values stay inside: only values that cross its boundary are read or written. So both counts follow,
in tensors and in bytes, from the graph and from the assignment of nodes to kernels, without any measurement.

A view costs nothing and is replaced by its base. A node that two kernels contain is computed in both, so neither reads it.
Values that a kernel writes only for itself (a partial sum) are not visible here.

In: a recording of `inductor_artifacts`: the texts of a graph of ATen operators, and of the diagram of its kernels. Out:
`traffic(recording)`: for each graph the steps operator by operator, and those of Inductor. PyTorch's counterpart:
`get_read_write_buffers_sizes` in torch/_inductor/scheduler.py counts the bytes of its buffers to choose what to fuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.printed_graph import PrintedGraph


@dataclass(frozen=True)
class Step:
    """One pass over memory: a single operator, or a kernel. `nodes` are those of the graph that it computes, in order."""

    name: str
    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Traffic:
    """A graph's passes over memory. `order` is the position of each node in the program, from 1; `bytes` contains the tensors
    whose sizes are static.
    """

    operators: tuple[Step, ...] = ()
    kernels: tuple[Step, ...] = ()
    order: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)

    def moved(self, steps: Iterable[Step]) -> int | None:
        """The bytes that some steps read and write in total; None if a size is unknown."""
        names = [name for step in steps for name in (*step.reads, *step.writes)]
        return sum(self.bytes[name] for name in names) if all(name in self.bytes for name in names) else None


def traffic(recording: Recording, stage: str = "forward") -> list[Traffic]:
    """The reads and writes of one stage of each graph; graphs whose kernels have no diagram are omitted."""
    texts: dict[str, dict[str, str]] = {}
    for artifact in recording.of(ev.ArtifactEmitted):
        if artifact.stage == stage:
            texts.setdefault(artifact.graph, {})[artifact.part] = artifact.text
    return [_of(parts, _names(recording, graph, stage)) for graph, parts in texts.items() if {"graph", "diagram"} <= set(parts)]


def _of(parts: dict[str, str], names: Sequence[str]) -> Traffic:
    graph = PrintedGraph(parts["graph"], names)
    kernel_nodes = [(name, [node for node in graph.reads if node in nodes]) for name, nodes in _kernels_of(parts["diagram"])]
    operators = [Step(node, (node,), reads, graph.results_of(node)) for node, reads in graph.reads.items()]
    places = {node: place for place, node in enumerate(graph.reads, start=1)}
    return Traffic(tuple(operators), tuple(_kernels(graph, kernel_nodes)), places, graph.bytes)


def _kernels(graph: PrintedGraph, kernel_nodes: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Step]:
    """The values that cross each kernel's boundary."""
    inside = [{name for node in nodes for name in graph.results_of(node)} for _, nodes in kernel_nodes]
    read = [
        list(dict.fromkeys(name for node in nodes for name in graph.reads[node] if name not in own))
        for (_, nodes), own in zip(kernel_nodes, inside, strict=True)
    ]
    needed = set(graph.results).union(*read)
    for (name, nodes), own, reads in zip(kernel_nodes, inside, read, strict=True):
        writes = [written_name for node in nodes for written_name in graph.results_of(node) if written_name in needed]
        needed -= own  # a node that a later kernel also contains is already in memory
        yield Step(name, tuple(nodes), tuple(reads), tuple(writes))


def _names(recording: Recording, graph: str, stage: str) -> Sequence[str]:
    """The program's names of the inputs of forward, in order; nothing if parameters of modules are among them."""
    nodes = [node for view in recording.graphs if view.name == graph and stage == "forward" for node in view.nodes]
    return [] if any(node.op == "get_attr" for node in nodes) else [node.name for node in nodes if node.op == "placeholder"]


_KERNEL = re.compile(r'^\t(\w+) \[label="\1: ([^"]*)"', re.MULTILINE)


def _kernels_of(diagram: str) -> Iterator[tuple[str, set[str]]]:
    """Each kernel of a diagram, and the nodes that it contains (see `fused_dot`)."""
    for name, nodes in _KERNEL.findall(diagram):
        yield name, set(nodes.split(", "))
