"""The first view of a large recording: the data around the step where the explorer opens, without data of other tabs.

The idea: the full data of 18,000 steps takes seconds to create and send, but the first screen needs only a small part. So a
notebook receives this part first, and all data afterwards (widgets/explorer.py). It has the same format, and is created by the
same functions (explorer_data.py), but some data is missing: states a few hundred steps away, code and graphs of other
functions, guards, links and other tabs. The number of states and attempts, the breaks, and the size of the graph at each step
are complete: a missing state is represented by a sketch, and the numbers, timeline, headline and source are those of the whole
recording.

In: a Recording and its Timeline. Out: `first_view(recording, timeline)`, which `json.dumps` accepts as it is;
`is_large(timeline)`, whether it is worthwhile. static/explorer/sketched.js converts it to ordinary frames. PyTorch's
counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import links, real_run, story
from dynexplore.views.explorer_data import (
    CallPath,
    Plain,
    Values,
    call_path_of,
    codes_data,
    frame_facts,
    graph_facts,
    head_data,
    node_data,
    order_data,
    rules_of,
    states_data,
)
from dynexplore.views.timeline import State, Timeline

LARGE = 2_000
"""The number of states from which on the first view is sent separately: with fewer, all data arrives as quickly."""

BEFORE, BEHIND = 100, 300
"""The numbers of states included before and after the initial one."""

_SKETCHED = (ev.AttemptStarted, ev.AttemptRestarted, ev.GraphBroke)
"""The events whose kind and text the timeline needs."""


def is_large(timeline: Timeline) -> bool:
    """Whether a recording is so large that a separate first view is worthwhile."""
    return len(timeline) >= LARGE


def first_view(recording: Recording, timeline: Timeline) -> Plain:
    """Return the data that the explorer shows at its initial step, and the minimum about everything else."""
    states = timeline.by_frame()
    head, values, rules = head_data(recording, states), Values(), rules_of(recording)
    opened, position = head["overview"]["opens"]["place"] or head["story"]["opening"] or (0, 0)
    window = range(max(0, position - BEFORE), min(position + BEHIND, len(states.get(opened, ()))))
    shown = {entered.frame for entered in story.shown_frames(recording)}
    table = real_run.RealTable(recording)
    frames, codes = [], set()
    for entered in recording.frames:
        own = states.get(entered.frame, [])
        frame = {**story.frame_story(recording, entered, shown, node_data), **frame_facts(recording, entered)}
        frame |= _not_yet(recording, entered.frame)
        if entered.frame == opened:
            at = _shown_states(own, window)
            frame["states"] = states_data((own[number] for number in at), values, rules)
            frame["graphs"] = _graphs(recording, opened, own[: window.stop])
            frame["real"] = real_run.frame_data(recording, opened, table, own[: window.stop])
            frame["sketch"] = {"at": at, "told": [window.start, window.stop], **_runs(own, window.stop)}
            codes = {frame["code"], *(code.id for number in at if (code := own[number].code) is not None)}
        else:
            frame["sketch"] = {"at": [], "told": [0, 0], **_runs(own, 0)}
        frames.append({**frame, "order": order_data(own)})
    return {
        **head,
        "isFirstView": 1,
        "codes": codes_data(recording, sorted(codes)),
        "rules": rules,
        "frames": frames,
        "real": real_run.page_data(recording, states, table),
        "anatomy": {"entries": [], "calls": []},
        "inspection": {},
        "memory": [],
        "values": values.rows,
        "links": {"places": [], "items": {}},
    }


def _not_yet(recording: Recording, frame: int) -> Plain:
    """The parts of a frame that are missing so far; for its graphs and resume functions only their existence is included."""
    graphs = [graph for graph in recording.graphs if graph.frame == frame]
    return {
        "modified": None,
        "python": "",
        "graphs": [{**graph_facts(graph, ()), **_NO_GROUPS} for graph in graphs],
        "guards": [],
        "breaks": [],
        "resume": [
            {
                "key": links.resume_key(frame, resume.name),
                "name": resume.name,
                "parameters": [],
                "offset": resume.offset,
                "rows": [],
            }
            for resume in recording.of_frame(frame, ev.ResumeFunctionCreated)
        ],
        "states": [],
        "real": {},
    }


_NO_GROUPS: Plain = {"group": {"path": "", "title": "", "nodes": [], "inner": []}, "startClosed": [], "stayClosed": []}


def _graphs(recording: Recording, frame: int, states: Sequence[State]) -> list[Plain]:
    """The graphs of a frame, as far as they have grown in these states."""
    grown = {node.name for state in states for node in state.nodes}
    graphs = [graph for graph in recording.graphs if graph.frame == frame]
    return [{**graph_facts(graph, [node for node in graph.nodes if node.name in grown]), **_NO_GROUPS} for graph in graphs]


def _shown_states(states: Sequence[State], window: range) -> list[int]:
    """The numbers of the states to include: those of the range, and for each function that is current in it the last state before,
    which supplies its stack and locals, and the path to its caller.
    """
    paths = {path for number in window for path in _call_paths(states[number])}
    before: list[int] = []
    for number in range(window.start - 1, -1, -1):
        if not paths:
            break
        if call_path_of(states[number]) in paths:
            paths.remove(call_path_of(states[number]))
            before.append(number)
    return [*reversed(before), *window]


def _call_paths(state: State) -> Iterator[CallPath]:
    """The current function of a state, and its callers."""
    return ((state.attempt, state.calls[:depth]) for depth in range(len(state.calls) + 1))


def _runs(states: Iterable[State], grown: int) -> Plain:
    """All states of a frame as sketches, with runs of equal ones merged into one with a count. For the first `grown` states the
    sketch includes the added nodes.
    """
    counts: list[int] = []
    sketches: list[Plain] = []
    before: int | None = None  # the attempt of the last step that added no node: most sketches equal that step's
    for number, state in enumerate(states):
        plain = state.attempt if isinstance(state.event, ev.InstructionStepped) and not state.caused else None
        if plain is not None and plain == before:
            counts[-1] += 1
            continue
        before, sketch = plain, _sketch(state, number < grown)
        if sketches and sketch == sketches[-1]:
            counts[-1] += 1
        else:
            sketches.append(sketch)
            counts.append(1)
    return {"counts": counts, "sketches": sketches}


def _sketch(state: State, with_nodes: bool) -> Plain:
    """The sketch of a missing state: whether it is an instruction, and of which attempt."""
    sketch: Plain = {}
    if not isinstance(state.event, ev.InstructionStepped):
        sketch["kind"] = "Moment"
    if isinstance(state.event, _SKETCHED):
        sketch |= {"kind": type(state.event).__name__, "text": getattr(state.event, "reason", "")}
    if state.attempt:
        sketch["attempt"] = state.attempt
    if with_nodes and state.nodes:
        sketch["nodes"] = [links.node_key(node.frame, node.name) for node in state.nodes]
    return sketch
