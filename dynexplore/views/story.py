"""The data of the explorer's story view besides the panes: headline, initial state, source marks, nodes of abandoned attempts.

The idea: the explorer opens at an interesting state, in code that the user wrote. That is the first step whose real value
differs from the prediction; else the most expensive graph break, in the function that breaks (its callers break, too); else the
first operator that a line of the user's code added to the graph, in the frame that has most of them. A line that runs the whole
of a large model would be too late; then it is the first operator of the model. The engine's wrapper around a module is not a
frame that users look for: lists omit it if a frame of the user's code is present.

In: a Recording, its states by frame. Out: `story_data(recording, states)`, `frame_story(...)` and `marks_of(...)`, plain data
for widgets/static/explorer/. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.installed_files import is_torch
from dynexplore.recording.recording import Recording
from dynexplore.views.annotated import Annotations
from dynexplore.views.headline import headline, in_its_function, worst_break
from dynexplore.views.names import frame_name, input_names, is_entry, is_library
from dynexplore.views.timeline import State

Plain = dict[str, Any]
States = Mapping[int, Sequence[State]]

DRAWN = 40
"""The most nodes of the partial graph that are drawn (MOST in panes/growing.js)."""


def story_data(recording: Recording, states: States) -> Plain:
    """The headline with its location, the counts, the initial state, and graph names in the order of their numbers."""
    story = headline(recording)
    return {
        "lines": list(story.lines),
        "level": story.level,
        "place": place_of(recording, states, story.position),
        "opening": opening(recording, states),
        "graphs": len(recording.graphs),
        "breaks": len(recording.breaks),
        "recompiles": len(recording.of(ev.Recompiled)),
        "graphNames": [graph.name for graph in recording.graphs],
    }


def place_of(recording: Recording, states: States, position: int) -> list[int]:
    """Frame and number of the state that an event belongs to; [] if none shows it."""
    if position < 0:
        return []
    event = recording.events[position]
    if isinstance(event, ev.GraphBroke):
        event = in_its_function(recording, event)
    for number, state in enumerate(states.get(event.frame, ())):
        if state.event is event or event in state.caused:
            return [event.frame, number]
    step = recording.step_of(event) if isinstance(event, ev.DivergenceDetected) else None
    here = states.get(event.frame, ())
    at = next((number for number, state in enumerate(here) if step is not None and state.event is step), 0)
    return [event.frame, at] if here else []


def opening(recording: Recording, states: States) -> list[int]:
    """Frame and number of the initial state: the first wrong value, else the most expensive break, else the user's first operator,
    else the first step.
    """
    wrong = recording.divergences
    if wrong and recording.step_of(wrong[0]) is not None:
        return place_of(recording, states, recording.events.index(wrong[0]))
    broke = worst_break(recording)
    if broke is not None:
        return place_of(recording, states, recording.events.index(broke))
    frames = sorted(shown_frames(recording), key=lambda entered: -_work(recording, entered.frame))
    for entered in frames:
        if (number := _first_operator(recording, entered.frame, states.get(entered.frame, ()))) is not None:
            return [entered.frame, number]
    for entered in frames:
        for number, state in enumerate(states.get(entered.frame, ())):
            if isinstance(state.event, ev.InstructionStepped):
                return [entered.frame, number]
    return [frames[0].frame, 0] if frames else []


def _work(recording: Recording, frame: int) -> int:
    return sum(graph.op_count for graph in recording.graphs if graph.frame == frame)


def _first_operator(recording: Recording, frame: int, states: Sequence[State]) -> int | None:
    """The state in which the first operator of the last attempt was added, in the user's own code if possible. If all operators
    are in layers of torch, it is the model that calls these, after the first call returned, while the graph is small enough to be
    drawn whole.
    """
    last = recording.final_attempt(frame)

    def adds_an_operator(state: State) -> bool:
        # SubgraphCompiled adds the node that ends a block of no_grad, which has no source line
        return (
            state.attempt == last
            and not isinstance(state.event, ev.SubgraphCompiled)
            and any(node.op.startswith("call_") for node in state.nodes)
        )

    first = next((number for number, state in enumerate(states) if state.caused and adds_an_operator(state)), None)
    if first is None:
        return None
    near = list(enumerate(_drawn_whole(states[first:]), first))
    own = [
        number
        for number, state in near
        if state.caused and adds_an_operator(state) and state.code is not None and not is_library(state.code.file)
    ]
    calls = states[first].calls
    callers = [
        (number, near_state.code.file)
        for number, near_state in near
        if isinstance(near_state.event, ev.InstructionStepped) and near_state.code is not None
        and near_state.attempt == last and near_state.calls == calls[: len(near_state.calls)]
    ]  # fmt: skip
    is_one: tuple[Callable[[str], bool], ...] = (is_library, is_torch)
    outside = [number for not_wanted in is_one for number, file in callers if not not_wanted(file)]
    return next(iter((*own, *outside)), first)


def _drawn_whole(states: Sequence[State]) -> Iterator[State]:
    """The first of some states, and those after it up to which the graph is small enough to be drawn whole (values read from a
    module are not drawn).
    """
    size = 0
    for number, state in enumerate(states):
        if state.caused:
            size += sum(node.op != "get_attr" for node in state.nodes)
        if number and size > DRAWN:
            return
        yield state


def shown_frames(recording: Recording) -> list[ev.FrameEntered]:
    """The frames without the engine's wrappers, unless there are no others."""
    frames = list(recording.frames)
    return [entered for entered in frames if not is_entry(recording.original_code(entered.frame))] or frames


# -- frames ------------------------------------------------------------------------------------------------------------


def frame_story(recording: Recording, entered: ev.FrameEntered, shown: set[int], row: Callable[[ev.NodeAdded], Plain]) -> Plain:
    """The data of a frame besides its panes: its title, whether lists omit it, the numbers of its graphs, in `inputs` the
    program's names of graph inputs, and in `thrown`, by attempt, the nodes that are in no compiled graph or differ there (`row`
    creates the row of one).
    """
    graphs = [(number, graph) for number, graph in enumerate(recording.graphs, 1) if graph.frame == entered.frame]
    final_rows = {node.name: {**row(node), "reads": list(node.inputs)} for _, graph in graphs for node in graph.nodes}
    thrown: dict[str, list[Plain]] = {}
    for node in recording.of_frame(entered.frame, ev.NodeAdded):
        node_row = {**row(node), "reads": list(node.inputs)}
        if final_rows.get(node.name) != node_row:
            thrown.setdefault(str(node.attempt), []).append(node_row)
    more: Plain = {"title": frame_name(recording, entered), "numbers": [number for number, _ in graphs]}
    if named := input_names(recording, entered):
        more["inputs"] = named
    if entered.frame not in shown:
        more["hidden"] = 1
    if thrown:
        more["thrown"] = thrown
    return more


# -- source ------------------------------------------------------------------------------------------------------------


def marks_of(annotations: Annotations, code: ev.CodeView, key: Callable[[int], str]) -> Plain:
    """The marks of a function: line -> the numbers of the graphs that contain it, and its breaks (`key` creates the link of
    one).
    """
    marks: Plain = {}
    for line, (graphs, breaks) in annotations.of_code(code).items():
        break_marks = [{"key": key(mark.position), "cause": mark.cause, "remedy": mark.remedy} for mark in breaks]
        marks[str(line)] = {"graphs": graphs, **({"breaks": break_marks} if break_marks else {})}
    return marks
