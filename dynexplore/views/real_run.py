"""The real run beside the symbolic one, as text and for the browser.

The idea: recorded real values are converted to what a person reads: one sentence on whether anything diverges, a row per run of
a graph, and for each symbolic value of each frame its real value or why there is none. The browser receives values as changes:
node -> the steps from which each value is valid.

In: a Recording. Out: `verdict(recording)`, `report(recording)` as text; `frame_data`, `page_data` for the explorer. PyTorch's
counterpart: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from dynexplore.engine import events as ev
from dynexplore.recording.real_values import Indexed, RealValue, elements
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.timeline import State

Plain = dict[str, Any]


def verdict(recording: Recording) -> str:
    """One sentence: that it matches eager, the first divergence, or that nothing was compared; "" if the real run was not
    recorded.
    """
    divergences = recording.divergences
    if divergences:
        more = f" ({len(divergences) - 1} more)" if len(divergences) > 1 else ""
        return f"The first divergence: {divergence_text(recording, divergences[0])}{more}"
    compared = recording.of(ev.RunCompared)
    if compared:
        nodes, outputs = sum(run.nodes for run in compared), sum(run.outputs for run in compared)
        runs = plural(len(compared), "run of a graph", "runs of graphs")
        missing = runs_not_compared(recording)
        more = f" {plural(missing, 'later run was', 'later runs were')} not compared." if missing else ""
        counts = f"{runs}, {plural(nodes, 'value')} and {plural(outputs, 'output')} compared"
        error = raised_in_the_end(recording)
        if error:
            return f"It ended in {error}; before that {counts}, all equal to eager.{more}"
        return f"Matches eager: {counts}.{more}"
    left_out = recording.of(ev.RunLeftOut)
    return f"No run was compared: {left_out[0].reason}." if left_out else ""


def raised_in_the_end(recording: Recording) -> str:
    """The exception type that the program, or else the latest call, ended with; "" if there was none."""
    programs = recording.of(ev.ProgramEnded)
    if programs:  # it may have caught an exception of a call
        return programs[-1].error.partition(":")[0]
    ends = recording.of(ev.CallEnded)
    return ends[-1].error if ends else ""


def runs_not_compared(recording: Recording) -> int:
    """The number of runs of observed graphs that were left out."""
    compared = {(event.frame, event.graph, event.run) for event in recording.of(ev.RunCompared)}
    ran = {(event.frame, event.graph, event.run) for event in recording.of(ev.GraphRan) if not event.error}
    return len(ran - compared)


def divergence_text(recording: Recording, divergence: ev.DivergenceDetected) -> str:
    """The location and the difference, in one sentence."""
    code = recording.code_of(divergence)
    row = (
        next((listing_row for listing_row in code.rows if listing_row.offset == divergence.offset), None)
        if code is not None
        else None
    )
    where = f" at {code.file}:{row.line} in {code.qualname}" if code is not None and row is not None and row.line > 0 else ""
    step = f"frame {divergence.frame}, step {divergence.step}" if divergence.step >= 0 else f"frame {divergence.frame}"
    return f"{step}{where}: {_KINDS.get(divergence.where, '')}{divergence.sentence}"


_KINDS = {
    "step": "the engine interpreted the instruction differently from CPython. ",
    "node": "the real value differs from what the symbolic one predicts. ",
    "output": "the backend's output differs from that of the graph. ",
    "input": "the backend mutates an input differently from the graph. ",
}


class Run(NamedTuple):
    """A run of a graph: its duration, and the result of its comparison with the replay."""

    frame: int
    graph: str
    run: int
    time: str
    compared: str


def runs(recording: Recording) -> list[Run]:
    """Every run of a graph, in order."""
    compared = {(event.frame, event.graph, event.run): _compared(event) for event in recording.of(ev.RunCompared)}
    left_out = {(event.frame, event.graph, event.run): f"not replayed: {event.reason}" for event in recording.of(ev.RunLeftOut)}
    silent = "not replayed" if compared or left_out else ""
    rows: list[Run] = []
    for ran in recording.of(ev.GraphRan):
        key = (ran.frame, ran.graph, ran.run)
        outcome = f"raised {ran.error}" if ran.error else compared.get(key) or left_out.get(key, silent)
        rows.append(Run(ran.frame, ran.graph, ran.run, milliseconds(ran.seconds), outcome))
    return rows


def _compared(run: ev.RunCompared) -> str:
    compared_values = f"{plural(run.nodes, 'value')}, {plural(run.outputs, 'output')}"
    verdict = "equal" if not run.divergences else plural(run.divergences, "divergence")
    return "; ".join([f"{compared_values} compared: {verdict}", *run.notes])


def milliseconds(seconds: float) -> str:
    """A duration in milliseconds."""
    return f"{seconds * 1e3:.3g} ms"


def report(recording: Recording) -> str:
    """Verdict, runs, and every divergence as text; "" when the real run was not recorded."""
    verdict_line = verdict(recording)
    if not verdict_line:
        return ""
    lines = [verdict_line]
    lines += [f"  {row.graph} run {row.run}, {row.time}: {row.compared}".rstrip(": ") for row in runs(recording)]
    lines += [f"  diverges: {divergence_text(recording, divergence)}" for divergence in recording.divergences[1:]]
    return "\n".join(lines)


# -- for the browser ---------------------------------------------------------------------------------------------------


class RealTable:
    """The table of real values: each once, as {provenance, text, elements, grad, why}."""

    def __init__(self, recording: Recording, run: int = 1) -> None:
        self.index = Indexed(recording.events, run)
        self.rows: list[dict[str, str]] = []
        self._numbers: dict[tuple[str, ...], int] = {}

    def number(self, value: RealValue) -> int:
        """The index of a value's row."""
        observed = value.observed
        grad = "requires grad" if observed is not None and observed.requires_grad else ""
        row = {
            "provenance": value.provenance,
            "text": value.text,
            "elements": elements(observed).strip(),
            "grad": grad,
            "why": value.why,
        }
        number = self._numbers.setdefault((*row.values(),), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number


def frame_data(recording: Recording, frame: int, table: RealTable, shown_states: Sequence[State] | None = None) -> Plain:
    """The real values of a frame: in all its states, or in those that are included.

    `nodes`: node -> [[first step of its attempt at which it is valid, real value], ...]; `unlike`: attempt -> its nodes that
    differ from those of the graph that ran; `names`: argument -> real value; `contents`: attempt -> id and kind of a container ->
    as `nodes`; `why`: why a node is missing here.
    """
    index = table.index
    if not index.is_recorded:
        return {}
    grown = None if shown_states is None else {node.name for state in shown_states for node in state.nodes}
    steps = (
        None
        if shown_states is None
        else Counter(state.attempt for state in shown_states if isinstance(state.event, ev.InstructionStepped))
    )
    names = [name for name in index.nodes_of(frame) if grown is None or name in grown]
    nodes = {name: [[since, table.number(value)] for since, value in index.history(frame, name)] for name in names}
    unlike: dict[str, list[str]] = {}
    for node in recording.of_frame(frame, ev.NodeAdded):
        if node.name in nodes and not index.is_same_node(frame, node.attempt, node.name):
            unlike.setdefault(str(node.attempt), []).append(node.name)
    return {
        "nodes": nodes,
        "unlike": unlike,
        "names": {name: table.number(value) for name, value in index.arguments_of(frame).items()},
        "contents": {
            str(attempt): {
                f"{value} {kind}": [[since, table.number(real)] for since, real in values]
                for (value, kind), values in contents.items()
            }
            for attempt, contents in index.contents_of(frame, steps).items()
        },
        "why": index.why_not(frame, ""),
        "ran": [{"moment": moment, "name": name, "value": table.number(value)} for moment, name, value in index.locals_of(frame)],
    }


def page_data(recording: Recording, states: dict[int, list[State]], table: RealTable) -> Plain:
    """The page's data about the real run as a whole: the verdict, the runs, each divergence with its state."""
    divergences = [
        {
            "frame": divergence.frame,
            "state": _state_of(states.get(divergence.frame, []), divergence),
            "where": divergence.where,
            "text": f"{_KINDS.get(divergence.where, '')}{divergence.sentence}",
        }
        for divergence in recording.divergences
    ]
    verdicts = [verdict(recording)] if table.index.is_recorded else []
    return {
        "verdict": "".join(verdicts),
        "divergences": divergences,
        "runs": [row._asdict() for row in runs(recording)],
        "values": table.rows,
    }


def _state_of(states: Sequence[State], divergence: ev.DivergenceDetected) -> int:
    """The state of a divergence, by its number within the frame."""
    steps = [
        number
        for number, state in enumerate(states)
        if isinstance(state.event, ev.InstructionStepped) and state.attempt == divergence.attempt
    ]
    return steps[max(divergence.step, 0)] if 0 <= max(divergence.step, 0) < len(steps) else (steps[-1] if steps else 0)
