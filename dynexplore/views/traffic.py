"""Reads and writes of memory: those of a graph's operators, each by itself, beside those of the kernels that hold them.

Which idea lives here: an operator that runs by itself reads its inputs from memory and writes its result there. A kernel holds
several operators, and what passes between them never leaves it: only what crosses its edge is read or written. So from the graph
and from which nodes each kernel holds, both counts follow, in tensors and in bytes, and no clock is needed.

A view costs nothing and is looked through. A node that two kernels hold is computed in both, so neither reads it. What a kernel
writes for itself alone (a partial sum) is not seen from here.

In:  a recording of `inductor_artifacts`: the texts of a graph in operators of ATen, and of the diagram of its kernels.
Out: `traffic(recording)`: of each graph the steps operator by operator, and those of Inductor.

torch/_inductor/scheduler.py (get_read_write_buffers_sizes) counts the bytes of its buffers to choose what to fuse.
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
    """One pass over memory: an operator by itself, or a kernel. `nodes` are those of the graph that it computes, in order."""

    name: str
    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Traffic:
    """A graph's passes over memory. `order` says for each node at which place it stood in the program, from 1; `bytes` has the
    tensors whose sizes are numbers.
    """

    operators: tuple[Step, ...] = ()
    kernels: tuple[Step, ...] = ()
    order: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)

    def moved(self, steps: Iterable[Step]) -> int | None:
        """How many bytes some steps read and write together; None where a size is not known."""
        names = [name for step in steps for name in (*step.reads, *step.writes)]
        return sum(self.bytes[name] for name in names) if all(name in self.bytes for name in names) else None


def traffic(recording: Recording, stage: str = "forward") -> list[Traffic]:
    """The reads and writes of one stage of each graph; nothing of those whose kernels have no diagram."""
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
    """Each kernel: what crosses its edge."""
    inside = [{name for node in nodes for name in graph.results_of(node)} for _, nodes in kernel_nodes]
    read = [
        list(dict.fromkeys(name for node in nodes for name in graph.reads[node] if name not in own))
        for (_, nodes), own in zip(kernel_nodes, inside, strict=True)
    ]
    needed = set(graph.results).union(*read)
    for (name, nodes), own, reads in zip(kernel_nodes, inside, read, strict=True):
        writes = [written_name for node in nodes for written_name in graph.results_of(node) if written_name in needed]
        needed -= own  # a node that a later kernel holds, too, is in memory already
        yield Step(name, tuple(nodes), tuple(reads), tuple(writes))


def _names(recording: Recording, graph: str, stage: str) -> Sequence[str]:
    """What the program calls the inputs of forward, in order; nothing where parameters of modules are among them."""
    nodes = [node for view in recording.graphs if view.name == graph and stage == "forward" for node in view.nodes]
    return [] if any(node.op == "get_attr" for node in nodes) else [node.name for node in nodes if node.op == "placeholder"]


_KERNEL = re.compile(r'^\t(\w+) \[label="\1: ([^"]*)"', re.MULTILINE)


def _kernels_of(diagram: str) -> Iterator[tuple[str, set[str]]]:
    """Each kernel of a diagram, and the nodes that it holds (see `fused_dot`)."""
    for name, nodes in _KERNEL.findall(diagram):
        yield name, set(nodes.split(", "))
