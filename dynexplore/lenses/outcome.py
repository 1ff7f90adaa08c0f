"""The outcome of a capture method on a function, as plain frozen records.

The idea: a comparison is plain data, like a recording. Graphs are rows (in the format of a recording), verdicts are strings,
and nothing keeps the program alive, so records are passed between processes and to JSON unchanged.

In: the results of examination.py. Out: `Outcome` per method, with its `Graph`s, `Verdict`s and differences; `Compared`, all of
them. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine.events import NodeAdded
from dynexplore.engine.old_names import keep_old_names
from dynexplore.views import dot, text

SAME, WRONG, REFUSES, LOSES = "same", "wrong", "refuses", "loses side effects"
"""Verdicts: eager's answer; silently a different one; an exception instead; the answer, but without all side effects."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One captured graph: its rows, in the format of a recording.

    `operators` are those on tensors, in order, by canonical name: `add` for `operator.add`, `aten::add` and `aten.add.Tensor`
    alike. `in_order` says whether the rows are in program order.
    """

    name: str
    nodes: tuple[NodeAdded, ...]
    operators: tuple[str, ...] = ()
    in_order: bool = True

    @property
    def call_count(self) -> int:
        """The number of call nodes."""
        return sum(node.op.startswith("call_") for node in self.nodes)

    def dot(self) -> str:
        """The graph as DOT text."""
        return dot.dot(self.nodes, name=self.name)

    def __str__(self) -> str:
        return f"{self.name}\n{text.node_table(self.nodes)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The behavior of the captured program on one call: `outcome` is one of "same", "wrong", "refuses", "loses side effects".

    `call` is the name of the call, `words` describe the difference, `captured_anew` says that the method recaptured for it.
    """

    call: str
    outcome: str
    words: str = ""
    captured_anew: bool = False


@dataclass(frozen=True, slots=True)
class OperatorDifference:
    """A place where the operators of a method differ from this engine's: `engine_side` are this engine's, `method_side` the
    method's.

    `at` is the index of this engine's operator; -1 for a graph that is not in program order.
    """

    at: int
    engine_side: tuple[str, ...]
    method_side: tuple[str, ...]

    def __str__(self) -> str:
        def listed(names: Sequence[str]) -> str:
            return ", ".join(names) or "nothing"

        place = f" (operator {self.at + 1})" if self.at >= 0 else ""
        return f"{listed(self.method_side)} where dynexplore has {listed(self.engine_side)}{place}"


@dataclass(frozen=True, slots=True)
class Probe:
    """A call on which the captured programs are tried: "as given", "negated", ...

    `takes_another_path` says that eager runs other operators than for the given call, `has_other_constants` that operators get
    other constants: a number or a size that was passed, or one that the program chose. `seconds` is eager's time.
    """

    name: str
    takes_another_path: bool = False
    seconds: float = 0.0
    has_other_constants: bool = False

    @property
    def mark(self) -> str:
        """What stands behind its name, and before the words of the legend."""
        return "*" if self.takes_another_path else "**" if self.has_other_constants else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one method. Times are in seconds, and None if the method did not get that far."""

    key: str
    name: str
    works_on: str
    how: str
    purpose: str
    graphs: tuple[Graph, ...] = ()
    failure: str = ""
    message: str = ""
    verdicts: tuple[Verdict, ...] = ()
    breaks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    capture_seconds: float | None = None
    call_seconds: float | None = None
    differences: tuple[OperatorDifference, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether nothing was captured; `failure` is the reason in one sentence, `message` the method's error message."""
        return bool(self.failure)

    @property
    def graph(self) -> Graph:
        """The (first) graph. Raises LookupError if there is none."""
        if not self.graphs:
            raise LookupError(f"{self.name} captured no graph: {self.failure or 'nothing on tensors happens'}")
        return self.graphs[0]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of all its graphs, by canonical name."""
        return tuple(name for graph in self.graphs for name in graph.operators)

    @property
    def agrees(self) -> bool:
        """Whether the answer to the given call equals eager's, side effects included."""
        return bool(self.verdicts) and self.verdicts[0].outcome == SAME

    @property
    def sound(self) -> bool:
        """Whether every answer equals eager's: an exception is sound, a silently wrong answer is not."""
        return not self.failed and all(verdict.outcome in (SAME, REFUSES) for verdict in self.verdicts)

    def verdict(self, call: str) -> Verdict:
        """The verdict on the call of this name. Raises KeyError, which lists the names, for an unknown call."""
        for verdict in self.verdicts:
            if verdict.call == call:
                return verdict
        raise KeyError(f"no call {call!r}: {self.name} was tried on {[verdict.call for verdict in self.verdicts]}")


@dataclass(frozen=True, slots=True)
class Compared:
    """One function, the calls that were tried, the outcome of each method, and remarks for the reader."""

    title: str
    probes: tuple[Probe, ...]
    outcomes: tuple[Outcome, ...]
    note: str = ""


keep_old_names(globals())
