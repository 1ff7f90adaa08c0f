"""What the explorer in the browser is given: a recording as one tree of lists, strings and numbers.

Which idea lives here: the browser computes nothing about the capture, it only shows. So all that its panes need is
worked out here, once: source lines and listings per code object, frames with their graphs, guards, breaks and resume
functions, the states of the timeline as differences (whole stacks would make the data grow with the square of the
program), and the link table. Values and code objects occur often: each stands once in a table, and the rest points
into it by number.

What has several parts is an object, and whoever reads it names the part: a row of a table is no list whose places one has to
know. Where there are many of them the file states the names once (packing.py), and the objects cost no more than lists did.

In:  a Recording.
Out: `explorer_data(recording)`, which `json.dumps` takes as it is. widgets/static/explorer/ reads it; the shape of
     each part is said by the function that makes it.

PyTorch's counterpart: none; tlparse writes one text file per artifact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.bytecode.opcodes import OPCODES
from dynexplore.recording.recording import GraphView, Recording, resumed_at
from dynexplore.views import (
    anatomy,
    break_inspection,
    cache_timeline,
    groups,
    links,
    memory_picture,
    overview,
    real_run,
    story,
    text,
)
from dynexplore.views.annotated import Annotations
from dynexplore.views.modified_python import python_of_frame
from dynexplore.views.names import decorator_of, is_entry, module_name, module_path
from dynexplore.views.specializations import decisions, specialized_by
from dynexplore.views.timeline import Locals, Stack, State, Timeline, common

Plain = dict[str, Any]

Hand = tuple[int, tuple[int, ...]]
"""Which function is at hand in a state: the attempt, and the numbers of the inlined callees that lead to it."""

SCHEMA = 5
"""Version of this shape; main.js there refuses another one in a sentence."""


def explorer_data(recording: Recording, timeline: Timeline | None = None) -> Plain:
    """Return all that the explorer shows, without times and addresses: the same recording gives the same data. The `timeline` is
    that of the recording, where the caller has it already."""
    values = Values()
    timeline = timeline or Timeline(recording)
    states = timeline.by_frame()
    rules, table = rules_of(recording), real_run.RealTable(recording)
    shown = {entered.frame for entered in story.shown_frames(recording)}
    frames = [
        {
            **story.frame_story(recording, entered, shown, node_data),
            **_frame(recording, entered, states.get(entered.frame, []), values, rules),
            "real": real_run.frame_data(recording, entered.frame, table),
        }
        for entered in recording.frames
    ]
    return {
        **head_data(recording, states),
        "codes": codes_data(recording, sorted(recording.codes)),
        "rules": rules,
        "frames": frames,
        "real": real_run.page_data(recording, states, table),
        "anatomy": anatomy.anatomy_data(recording),
        "inspection": break_inspection.inspection_data(recording),
        "memory": memory_picture.memory_data(recording),
        **_artifacts(recording, 0),
        "values": values.rows,
        "links": _links(links.Links(recording)),
    }


def head_data(recording: Recording, states: Mapping[int, Sequence[State]]) -> Plain:
    """What is said of a recording as a whole: names, overview, headline and where to begin, calls, what opcodes do."""
    return {
        "schema": SCHEMA,
        "title": recording.title or "recording",
        "engine": recording.engine,
        "versions": recording.versions,
        "summary": text.summary(recording),
        "explanation": text.explanation(recording, width=0),
        "story": story.story_data(recording, states),
        "overview": overview.overview_data(recording, states),
        "cut": str(recording.cut or ""),
        "help": help_of(recording),
        "timeline": cache_timeline.timeline_data(recording),
    }


class Values:
    """The table of values: each ValueView once, by its fields of the same names."""

    def __init__(self) -> None:
        self.rows: list[Plain] = []
        self._numbers: dict[ev.ValueView, int] = {}

    def number(self, view: ev.ValueView | None) -> int:
        """The row of a value; -1 for none."""
        if view is None:
            return -1
        if view not in self._numbers:
            self._numbers[view] = len(self.rows)
            self.rows.append({"id": view.id, "kind": view.kind, "text": view.text, "source": view.source, "node": view.node})
        return self._numbers[view]

    def stack(self, stack: Stack) -> list[int]:
        return [self.number(view) for view in stack]

    def named(self, pairs: Iterable[tuple[str, ev.ValueView | None]]) -> list[list[Any]]:
        return [[name, self.number(view)] for name, view in pairs]


# -- code --------------------------------------------------------------------------------------------------------------


def codes_data(recording: Recording, numbers: Iterable[int]) -> Plain:
    """The original code objects of these numbers, with the marks of their lines."""
    annotations = Annotations(recording)
    return {
        str(number): {**_code(code), "marks": story.marks_of(annotations, code, links.break_key)}
        for number, code in ((number, recording.codes[number]) for number in numbers)
    }


def _code(code: ev.CodeView) -> Plain:
    """An original code object: its source lines, and its instructions with canonical steps and source spans."""
    lines = code.source.splitlines()
    rows = [_row(row) for row in code.rows]
    for plain, row in zip(rows, code.rows, strict=True):
        if [(step.op, step.arg) for step in row.steps] != [(row.op, row.arg)]:  # most are lowered to themselves
            plain["steps"] = [[step.op, step.arg] for step in row.steps]
        if row.line > 0:
            plain |= _span(row, lines, code.first_line)
    name = f"@{decorator}" if (decorator := decorator_of(code)) else code.qualname
    return {"name": name, "file": code.file, "first": code.first_line, "lines": lines, "rows": rows}


def _span(row: ev.ListingRow, lines: list[str], first: int) -> Plain:
    """What an instruction stands for in the source, from its line on: columns in characters, and in bytes as links name them."""

    def characters(number: int, column: int) -> int:
        inside = 0 <= number - first < len(lines)
        return ev.letters(lines[number - first], column) if inside and column >= 0 else -1

    return {
        "column": characters(row.line, row.column),
        "endLine": row.end_line,
        "endColumn": characters(row.end_line, row.end_column),
        "byteColumn": row.column,
        "endByteColumn": row.end_column,
    }


def _row(row: ev.ListingRow) -> Plain:
    """What listings of original and of emitted code have in common; what is empty is left out."""
    more = {"arg": row.arg, "line": max(row.line, 0), "mark": int(row.is_target)}
    return {"offset": row.offset, "op": row.op, **{name: value for name, value in more.items() if value}}


def _emitted(code: ev.CodeView | None) -> list[Plain] | None:
    """The rows of modified code or of a resume function: each with its role, and the original offset behind it."""
    if code is None:
        return None
    return [{**_row(row), "role": row.role, "origin": row.origin} for row in code.rows]


def help_of(recording: Recording) -> dict[str, list[str]]:
    """Canonical opcode -> [its stack effect in words, what it does in one sentence], of those that occur."""
    used = {step.op for code in recording.codes.values() for row in code.rows for step in row.steps}
    return {name: [OPCODES[name].effect, OPCODES[name].sentence] for name in sorted(used & OPCODES.keys())}


# -- frames ------------------------------------------------------------------------------------------------------------


def rules_of(recording: Recording) -> dict[str, str]:
    """Canonical opcode -> the handler that interpreted it, as a rule; a step that was interpreted by another one says so."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for step in recording.steps:
        if step.rule:
            seen[step.op][step.rule] += 1
    return {op: count.most_common(1)[0][0] for op, count in sorted(seen.items())}


def _frame(recording: Recording, entered: ev.FrameEntered, states: list[State], values: Values, rules: dict[str, str]) -> Plain:
    """A translated frame: where it stands in the tree of frames, and the rows of each of its panes."""
    frame, wraps = entered.frame, is_entry(recording.original_code(entered.frame))
    decided = decisions(recording, frame)
    return {
        **frame_facts(recording, entered),
        "modified": _emitted(recording.modified_code(frame)),
        "python": python_of_frame(recording, frame),
        "graphs": [_graph(graph, recording) for graph in recording.graphs if graph.frame == frame],
        "guards": [_guard(guard, decided, wraps=wraps) for guard in recording.guards if guard.frame == frame],
        "breaks": [
            _break(recording, state.position, state.event, values) for state in states if isinstance(state.event, ev.GraphBroke)
        ],
        "resume": [_resume(resume) for resume in recording.of_frame(frame, ev.ResumeFunctionCreated)],
        **_artifacts(recording, frame),
        "states": states_data(states, values, rules),
        "order": order_data(states),
    }


def frame_facts(recording: Recording, entered: ev.FrameEntered) -> Plain:
    """Where a frame stands in the tree of frames, and what became of it."""
    frame = entered.frame
    return {
        "id": frame,
        "parent": entered.parent,
        "name": entered.code.qualname,
        "code": recording.original_code(frame).id,
        "resumes": resumed_at(entered.code),
        "outcome": " ".join(event.outcome for event in recording.of_frame(frame, ev.FrameFinished)),
        "skipped": " ".join(event.reason for event in recording.of_frame(frame, ev.FrameSkipped)),
    }


def _graph(graph: GraphView, recording: Recording) -> Plain:
    """A compiled graph: the rows of its table, keyed as links.py keys nodes; `inputs` are numbers of rows.

    `group` is the tree of groups that the diagram draws; `startClosed` the paths of those that are closed at first,
    `stayClosed` of those that are closed when all are opened that fit. Where DistributedDataParallel's buckets split it,
    `pieces` says so in words, one line each, and `piece` of a node is the number of its line, counted from 1. Where
    `config.artifacts` asked for what the compiler makes, `artifacts` has each text.
    """
    piece_of = graph.piece_of
    facts = graph_facts(graph, graph.nodes)
    for row in facts["nodes"]:
        if row["name"] in piece_of:
            row["piece"] = piece_of[row["name"]]
    numbers = {node.name: number for number, node in enumerate(graph.nodes)}
    more: Plain = {"pieces": text.piece_lines(graph)} if graph.pieces else {}
    artifacts = [_artifact(event) for event in recording.of_frame(graph.frame, ev.ArtifactEmitted) if _is_of(event, graph)]
    if artifacts:
        more["artifacts"] = artifacts
    root = groups.grouped(graph.nodes)
    more |= {
        "group": _group(root, numbers),
        "startClosed": sorted(groups.start_closed(root)),
        "stayClosed": sorted(groups.start_closed(root, groups.MOST)),
    }
    return {**facts, **more}


def graph_facts(graph: GraphView, nodes: Sequence[ev.NodeAdded]) -> Plain:
    """What a graph is called, and the rows of these nodes of it."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    rows = [node_data(node) for node in nodes]
    for row, node in zip(rows, nodes, strict=True):
        if node.inputs:
            row["inputs"] = [numbers[name] for name in dict.fromkeys(node.inputs) if name in numbers]
    return {
        "name": graph.name,
        "backend": graph.compiled.backend if graph.compiled else "",
        **_skip(graph.skipped),
        "calls": graph.op_count,
        "nodes": rows,
    }


def _skip(reason: ev.SkipReason | None) -> Plain:
    """Why the backend of a graph was skipped, in one line, and what to do; nothing where it was not."""
    return {} if reason is None else {"skipped": reason.line, "why": reason.why, "fix": reason.fix}


def node_data(node: ev.NodeAdded) -> Plain:
    """A node as a row of the table of its graph."""
    return {
        "key": links.node_key(node.frame, node.name),
        "op": node.op,
        "name": node.name,
        "target": node.target,
        "args": node.args,
        "kwargs": node.kwargs,
        "result": f"{node.dtype}{node.shape}",
        "module": module_name(node.module),
        "line": node.line,
    }


def _group(group: groups.Group, numbers: Mapping[str, int]) -> Plain:
    """A group of nodes, which are numbers of rows, and the groups inside it."""
    inner = [_group(child, numbers) for child in group.inner]
    return {"path": group.path, "title": group.title, "nodes": [numbers[node.name] for node in group.nodes], "inner": inner}


def _is_of(artifact: ev.ArtifactEmitted, graph: GraphView) -> bool:
    """Whether a compiler made it of this graph, or of a piece of it (`__compiled_fn_0 (piece 1 of 2)`)."""
    return artifact.graph.partition(" ")[0] == graph.name


def _artifacts(recording: Recording, frame: int) -> Plain:
    """The artefacts of a frame that belong to none of its compiled graphs; of frame 0, those of the whole recording."""
    graphs = [graph for graph in recording.graphs if graph.frame == frame]
    others = [
        _artifact(event)
        for event in recording.of_frame(frame, ev.ArtifactEmitted)
        if not any(_is_of(event, graph) for graph in graphs)
    ]
    return {"artifacts": others} if others else {}


def _artifact(artifact: ev.ArtifactEmitted) -> Plain:
    """One text of the pane of artefacts; `part` is what can be switched on and off."""
    piece = artifact.graph.partition(" ")[2]
    title = f"{text.artifact_title(artifact)} {piece}".strip()
    return {"part": artifact.part, "title": title, "language": artifact.language, "text": artifact.text}


def _guard(guard: ev.GuardInstalled, decided: Mapping[str, ev.Specialized], *, wraps: bool) -> Plain:
    """A guard as a row, with the decisions behind it; in the engine's wrapper around a module (`wraps`) sources are paths in it."""
    return {
        "key": links.guard_key(guard.frame, guard.index),
        "index": guard.index,
        "source": module_path(guard.source) if wraps else f"{guard.scope} {guard.source}".strip(),
        "kind": guard.kind,
        "expected": guard.expected,
        "check": guard.expression,
        "reason": "; ".join([guard.reason, *specialized_by(guard, decided)]),
    }


def _break(recording: Recording, position: int, broke: ev.GraphBroke, values: Values) -> Plain:
    """A graph break: its report, and the symbolic stack and live locals there."""
    return {
        "key": links.break_key(position),
        "title": f"{broke.kind}: {broke.title}",
        "report": text.break_report(recording, broke, width=0),
        "stack": values.stack(broke.stack),
        "locals": values.named(broke.live_locals),
    }


def _resume(resume: ev.ResumeFunctionCreated) -> Plain:
    key = links.resume_key(resume.frame, resume.name)
    return {
        "key": key,
        "name": resume.name,
        "parameters": list(resume.parameters),
        "offset": resume.offset,
        "rows": _emitted(resume.code),
    }


# -- states ------------------------------------------------------------------------------------------------------------


def states_data(states: Iterable[State], values: Values, rules: dict[str, str]) -> list[Plain]:
    """The moments of one frame, each as its difference to the moment before in the same function and attempt."""
    before: dict[Hand, State] = {}
    moments = []
    for state in states:
        if isinstance(state.event, ev.InlineEntered):
            before.pop(hand_of(state), None)  # a callee that is entered anew begins with nothing
        moments.append(_state(state, before.get(hand_of(state)), values, rules))
        before[hand_of(state)] = state
    return moments


def order_data(states: Sequence[State]) -> list[list[int]]:
    """Where the moments of a frame stand among those of all frames: [number in the frame, number among all], where a row begins."""
    return [
        [place, state.number]
        for place, state in enumerate(states)
        if not place or states[place - 1].number != state.number - 1
    ]  # fmt: skip


def hand_of(state: State) -> Hand:
    """Which function is at hand in a state."""
    return state.attempt, state.calls


def _state(state: State, before: State | None, values: Values, rules: dict[str, str]) -> Plain:
    """One moment: `keep` slots of the stack stay and `push` come on top, `set` locals change (-1: is deleted).

    `kind` is left out for an instruction; `new` says that there is nothing before to differ from. `made` is what came
    into being, in words, `nodes` and `guards` are the links to what of it the panes show, `item` is the link of the
    moment itself, `rule` the handler where it is not the one of `rules`. `line` is said where no instruction says it.
    """
    keep = 0 if before is None else common(before.stack, state.stack)
    full = {
        "kind": "" if isinstance(state.event, ev.InstructionStepped) else type(state.event).__name__,
        "text": text.step_row(state)[2].strip(),
        "attempt": state.attempt,
        "code": state.code.id if state.code else None,  # left out: of a frame that is not entered yet
        "new": int(before is None),
        "calls": list(state.calls),
        "keep": keep,
        "push": values.stack(state.stack[keep:]),
        "set": values.named(_changed(before.locals if before else (), state.locals)),
        "made": text.changes(state),
        "nodes": [links.node_key(node.frame, node.name) for node in state.nodes],
        "guards": [links.guard_key(guard.frame, guard.index) for guard in state.guards],
        "item": _item(state),
        "rule": _other_rule(state.event, rules),
    }
    if state.offset < 0:
        full["line"] = state.line
    return {"offset": state.offset, **{name: value for name, value in full.items() if value}}


def _other_rule(event: ev.Event, rules: dict[str, str]) -> str:
    return event.rule if isinstance(event, ev.InstructionStepped) and event.rule != rules.get(event.op, "") else ""


def _item(state: State) -> str:
    if isinstance(state.event, ev.InstructionStepped):
        return links.step_key(state.position)
    if isinstance(state.event, ev.NodeAdded):
        return links.node_key(state.frame, state.event.name)
    return links.break_key(state.position) if isinstance(state.event, ev.GraphBroke) else ""


def _changed(before: Locals, after: Locals) -> list[tuple[str, ev.ValueView | None]]:
    if before == after:  # as most steps leave them
        return []
    old, new = dict(before), dict(after)
    changed = [(name, view) for name, view in after if name not in old or old[name] != view]
    return [*changed, *((name, None) for name in old if name not in new)]


# -- links -------------------------------------------------------------------------------------------------------------


def _links(table: links.Links) -> Plain:
    """The link table: `places` as [instruction and span keys], `items` as the numbers of the places they come from.

    Two items belong together when they share a place, which says more than a shared instruction: a callee that is
    inlined twice has each of its instructions at two places.
    """
    numbers: dict[links.Place, int] = {}
    items = {
        item: [numbers.setdefault(place, len(numbers)) for place in dict.fromkeys(places)] for item, places in table.places.items()
    }
    return {"places": [table.keys(place) for place in numbers], "items": items}
