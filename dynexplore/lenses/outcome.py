"""What a capture method made of a function, as plain frozen records.

Which idea lives here: a comparison is plain data, as a recording is. The graphs are rows (the same that a recording has),
verdicts are words, nothing keeps the program alive; records go from process to process and to JSON unchanged.

In:  the results of examination.py.
Out: `Outcome` per method, with its `Graph`s, `Verdict`s and differences; `Compared`, all of them.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine.events import NodeAdded
from dynexplore.engine.old_names import keep_old_names
from dynexplore.views import dot, text

SAME, WRONG, REFUSES, LOSES = "same", "wrong", "refuses", "loses side effects"
"""Verdicts: eager's answer; another answer without a word; an exception instead; the answer without what else happens."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One captured graph: its rows, as a recording has them.

    `operators` are those on tensors, in order, under names that all methods share: `add` for `operator.add`, `aten::add` and
    `aten.add.Tensor` alike. `in_order` says that the rows are in the order of the program.
    """

    name: str
    nodes: tuple[NodeAdded, ...]
    operators: tuple[str, ...] = ()
    in_order: bool = True

    @property
    def call_count(self) -> int:
        """How many call nodes it has."""
        return sum(node.op.startswith("call_") for node in self.nodes)

    def dot(self) -> str:
        """The graph as DOT text."""
        return dot.dot(self.nodes, name=self.name)

    def __str__(self) -> str:
        return f"{self.name}\n{text.node_table(self.nodes)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the captured program did with one call: `outcome` is one of "same", "wrong", "refuses", "loses side effects".

    `call` names the call, `words` say what differs, `captured_anew` that the method captured again for it.
    """

    call: str
    outcome: str
    words: str = ""
    captured_anew: bool = False


@dataclass(frozen=True, slots=True)
class OperatorDifference:
    """A place where a method has other operators than this engine: `engine_side` is what it has, `method_side` what the method has.

    `at` is the number of our operator there; -1 for a graph that is not in the order of the program.
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
    """A call that the captured programs are tried on: "as given", "negated", ...

    `takes_another_path` says that eager runs other operators, or other constants in them, than for the call as given.
    `seconds` is how long eager takes.
    """

    name: str
    takes_another_path: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one method made of the function. Times are in seconds, and None if the method did not get that far."""

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
        """Whether it captured nothing; `failure` says why in one sentence, `message` is the method's own."""
        return bool(self.failure)

    @property
    def graph(self) -> Graph:
        """The (first) graph. LookupError where there is none."""
        if not self.graphs:
            raise LookupError(f"{self.name} captured no graph: {self.failure or 'nothing on tensors happens'}")
        return self.graphs[0]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of all its graphs, under names that all methods share."""
        return tuple(name for graph in self.graphs for name in graph.operators)

    @property
    def agrees(self) -> bool:
        """Whether the call as given has eager's answer, side effects included."""
        return bool(self.verdicts) and self.verdicts[0].outcome == SAME

    @property
    def sound(self) -> bool:
        """Whether no call got an answer that is not eager's: to refuse is sound, to be silently wrong is not."""
        return not self.failed and all(verdict.outcome in (SAME, REFUSES) for verdict in self.verdicts)

    def verdict(self, call: str) -> Verdict:
        """The verdict on one call, by its name. KeyError, with the names there are, for another."""
        for verdict in self.verdicts:
            if verdict.call == call:
                return verdict
        raise KeyError(f"no call {call!r}: {self.name} was tried on {[verdict.call for verdict in self.verdicts]}")


@dataclass(frozen=True, slots=True)
class Compared:
    """One function, the calls that it was tried on, what each method made of it, and what the reader must know besides."""

    title: str
    probes: tuple[Probe, ...]
    outcomes: tuple[Outcome, ...]
    note: str = ""


keep_old_names(globals())
