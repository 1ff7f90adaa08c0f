"""The memory of the graphs of a recording: the peak, the operator at the peak, and the tensors saved for backward.

The idea: the engine records the live bytes at each node of each graph (`MemoryPlanned`). People ask three questions: how high
the peak is, where it is, and which tensors are saved between forward and backward. A graph that AOTAutograd partitioned answers
them for forward and backward; a graph that was only captured answers only for itself, and does not know what autograd saves at
run time. A stage that ran on a GPU is recorded again with measured values, which replace the planned ones.

In: a recording's events. Out: `memory_of(events)`, a `Memory`, which prints as a table and displays as a picture in a notebook.
PyTorch's counterpart: the memory snapshots of torch.cuda.memory, which show the allocator's actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dynexplore.engine import display_hooks
from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names

HALVES = ("forward", "backward")


def bytes_text(count: int) -> str:
    """A number of bytes in human-readable units.

    >>> bytes_text(96), bytes_text(16_777_216), bytes_text(1_500)
    ('96 B', '16 MiB', '1.46 KiB')
    """
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}" if size >= 1000 else f"{size:.3g} {unit}"


def with_size(count: int, size: str) -> str:
    """A number of bytes, with its expression if it is dynamic.

    >>> with_size(96, ""), with_size(96, "32*s0")
    ('96 B', '96 B (32*s0)')
    """
    return f"{bytes_text(count)} ({size})" if size else bytes_text(count)


def at_most(node: ev.NodeMemory) -> int:
    """The largest number of live bytes while a node runs: those after it ended, plus its temporaries.

    >>> at_most(ev.NodeMemory("y", "aten.convolution", live=96, inside=32))
    128
    """
    return node.live + node.inside


@dataclass(frozen=True, slots=True)
class Peak:
    """The node with the most live bytes."""

    stage: str
    node: ev.NodeMemory

    @property
    def bytes(self) -> int:
        """The live bytes while it runs, including its temporary memory if that was measured."""
        return at_most(self.node)

    @property
    def place(self) -> str:
        """The operator, and its source location, as text."""
        where = f" ({self.node.place})" if self.node.place else ""
        return f"{short(self.node.op)}{where}, {self.stage}" if self.stage in HALVES else f"{short(self.node.op)}{where}"


def short(op: str) -> str:
    """The target of a node without well-known module prefixes.

    >>> short("torch._ops.aten.mm.default"), short("torch.nn.functional.linear")
    ('aten.mm', 'linear')
    """
    name = op.removeprefix("torch._ops.").removesuffix(".default")
    return name if name.startswith("aten.") else name.removeprefix("torch.nn.functional.").removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """The memory of one graph. `stages` are "forward" and "backward" if AOTAutograd partitioned it, else only "captured"."""

    graph: str
    frame: int
    stages: tuple[ev.MemoryPlanned, ...]

    @property
    def inputs(self) -> int:
        """The bytes of inputs and parameters, which are live throughout."""
        return self.stages[0].inputs

    @property
    def nodes(self) -> tuple[ev.NodeMemory, ...]:
        """The nodes of all stages, in the order in which they run."""
        return tuple(node for stage in self.stages for node in stage.nodes)

    @property
    def peak(self) -> Peak | None:
        """The peak; None for a graph that computes nothing."""
        nodes = [Peak(stage.stage, node) for stage in self.stages for node in stage.nodes]
        return max(nodes, key=lambda peak: peak.bytes, default=None)

    @property
    def saved(self) -> tuple[ev.SavedStorage, ...]:
        """The storages that are saved for backward, including inputs and parameters."""
        return tuple(storage for stage in self.stages for storage in stage.saved)

    @property
    def saved_bytes(self) -> int:
        """The bytes saved for backward: what saved-tensor hooks see, each storage counted once."""
        return sum(storage.bytes for storage in self.saved)

    @property
    def extra_saved_bytes(self) -> int:
        """The saved bytes that would not be live anyway, unlike those of inputs and parameters."""
        return sum(storage.bytes for storage in self.saved if not storage.is_input)

    @property
    def knows_backward(self) -> bool:
        """Whether AOTAutograd's forward and backward graphs are known: only they show what is saved."""
        return self.stages[0].stage in HALVES

    @property
    def is_measured(self) -> bool:
        """Whether the temporary memory of operators was measured, in each stage that is known."""
        return all(stage.measured for stage in self.stages)

    def _peak_line(self, peak: Peak) -> str:
        size = f"{peak.node.size} + {peak.node.inside}" if peak.node.size and peak.node.inside else peak.node.size
        inside = f", {bytes_text(peak.node.inside)} of them only while it runs (measured)" if peak.node.inside else ""
        return f"peak {with_size(peak.bytes, size)} at {peak.place}{inside}"

    def lines(self) -> Iterator[str]:
        """The answers as text."""
        peak = self.peak
        if peak is None:
            yield f"inputs and parameters {bytes_text(self.inputs)}; nothing is computed"
            return
        yield self._peak_line(peak)
        yield f"inputs and parameters {bytes_text(self.inputs)} throughout"
        if not self.knows_backward:
            yield "saved for backward: decided by autograd at run time (known with backend aot_eager and the artifact memory)"
        elif self.saved:
            more = f"{bytes_text(self.extra_saved_bytes)} of them beyond" if self.extra_saved_bytes else "all of them"
            yield f"saved for backward {bytes_text(self.saved_bytes)}, {more} inputs and parameters"
        else:
            yield "nothing is saved for backward"
        yield from self._unmeasured_lines()

    def _unmeasured_lines(self) -> Iterator[str]:
        """A note if one stage ran on a GPU and the other did not: the other's peak lacks temporary memory."""
        unmeasured = [stage.stage for stage in self.stages if not stage.measured]
        if len(unmeasured) < len(self.stages):
            for stage in unmeasured:
                yield f"what operators take only while they run is not counted in {stage}, which did not run"


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of all graphs of a recording: prints as text, displays as a picture in a notebook. Indexed by graph number, from
    0.
    """

    graphs: tuple[GraphMemory, ...] = ()

    def __getitem__(self, number: int) -> GraphMemory:
        return self.graphs[number]

    def __len__(self) -> int:
        return len(self.graphs)

    def __iter__(self) -> Iterator[GraphMemory]:
        return iter(self.graphs)

    def __str__(self) -> str:
        if not self.graphs:
            return "no graph whose memory is known"
        return "\n".join(
            line for graph in self.graphs for line in (graph.graph, *(f"  {line_of_graph}" for line_of_graph in graph.lines()))
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return display_hooks.connected().memory(self)


def memory_of(events: Iterable[ev.MemoryPlanned]) -> Memory:
    """The memory according to the events: for each graph its stages, as far as they are known."""
    stages_of_graph: dict[str, dict[str, ev.MemoryPlanned]] = {}
    for event in events:
        stages_of_graph.setdefault(event.graph, {})[event.stage] = event
    return Memory(tuple(_graph(stages) for stages in stages_of_graph.values()))


def _graph(stages: dict[str, ev.MemoryPlanned]) -> GraphMemory:
    halves = tuple(stages[stage] for stage in HALVES if stage in stages)
    chosen = halves if HALVES[0] in stages else tuple(stages.values())
    return GraphMemory(chosen[0].graph, chosen[0].frame, chosen)


keep_old_names(globals())
