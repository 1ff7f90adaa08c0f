"""The data of the explorer in the browser: a recording as one tree of lists, strings and numbers.

The idea: the browser computes nothing about the capture, it only displays. So all the data that its panes need is computed
here, once: source lines and listings per code object, frames with their graphs, guards, breaks and resume functions, the states
of the timeline as differences (whole stacks would take space quadratic in the program's length), and the link table. Values and
code objects occur often, so each is stored once in a table and referenced by index.

A value with several parts is an object with named fields, so that no reader depends on positions in a list. Where there are
many of them the file stores the names once (packing.py), so the objects are as compact as lists.

In: a Recording. Out: `explorer_data(recording)`, which `json.dumps` accepts as it is and widgets/static/explorer/ reads; the
function that creates a part documents its format. PyTorch's counterpart: none; tlparse writes one text file per artifact.
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
    stack_trie,
    story,
    text,
)
from dynexplore.views.annotated import Annotations
from dynexplore.views.guard_words import check_of
from dynexplore.views.modified_python import python_of_frame
from dynexplore.views.names import decorator_of, is_entry, is_library, module_name, module_path
from dynexplore.views.raising_operators import raising_operators
from dynexplore.views.specializations import decisions, specialized_by
from dynexplore.views.timeline import Locals, Stack, State, Timeline, common

Plain = dict[str, Any]

CallPath = tuple[int, tuple[int, ...]]
"""The current function of a state: the attempt, and the numbers of the inlined callees on the path to it."""

SCHEMA = 5
"""Version of this format; main.js rejects any other with an error message."""


def explorer_data(recording: Recording, timeline: Timeline | None = None) -> Plain:
    """Return all data of the explorer, without times and addresses: equal recordings yield equal data. `timeline` is the
    recording's, if the caller has already computed it.
    """
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
        **_stacks(recording),
        **_artifacts(recording, 0),
        "values": values.rows,
        "links": _links(links.Links(recording)),
    }


def head_data(recording: Recording, states: Mapping[int, Sequence[State]]) -> Plain:
    """The data about a recording as a whole: names, overview, headline and initial position, calls, descriptions of opcodes."""
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
    """The table of values: each ValueView once, with the same field names."""

    def __init__(self) -> None:
        self.rows: list[Plain] = []
        self._numbers: dict[ev.ValueView, int] = {}

    def number(self, view: ev.ValueView | None) -> int:
        """The index of a value's row; -1 for none."""
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


def _stacks(recording: Recording) -> Plain:
    """The trie of stacks, where a recording has any."""
    rows = stack_trie.trie_data(recording)
    return {"stacks": rows} if rows else {}


# -- code --------------------------------------------------------------------------------------------------------------


def codes_data(recording: Recording, numbers: Iterable[int]) -> Plain:
    """The original code objects with these numbers, and the marks of their lines."""
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
        if [(step.op, step.arg) for step in row.steps] != [(row.op, row.arg)]:  # most are lowered to a single identical instruction
            plain["steps"] = [[step.op, step.arg] for step in row.steps]
        if row.line > 0:
            plain |= _span(row, lines, code.first_line)
    name = f"@{decorator}" if (decorator := decorator_of(code)) else code.qualname
    of_library = {"ofLibrary": 1} if is_library(code.file) else {}
    return {"name": name, "file": code.file, "first": code.first_line, "lines": lines, "rows": rows, **of_library}


def _span(row: ev.ListingRow, lines: list[str], first: int) -> Plain:
    """The source span of an instruction, starting at its line: columns in characters, and in bytes as links name them."""

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
    """The fields that listings of original and of emitted code share; empty ones are omitted."""
    more = {"arg": row.arg, "line": max(row.line, 0), "mark": int(row.is_target)}
    return {"offset": row.offset, "op": row.op, **{name: value for name, value in more.items() if value}}


def _emitted(code: ev.CodeView | None) -> list[Plain] | None:
    """The rows of modified code or of a resume function: each with its role, and the original offset that it derives from."""
    if code is None:
        return None
    return [{**_row(row), "role": row.role, "origin": row.origin} for row in code.rows]


def help_of(recording: Recording) -> dict[str, list[str]]:
    """Canonical opcode -> [its stack effect in words, its description in one sentence], for those that occur."""
    used = {step.op for code in recording.codes.values() for row in code.rows for step in row.steps}
    return {name: [OPCODES[name].effect, OPCODES[name].sentence] for name in sorted(used & OPCODES.keys())}


# -- frames ------------------------------------------------------------------------------------------------------------


def rules_of(recording: Recording) -> dict[str, str]:
    """Canonical opcode -> its usual handler; a step with another handler names it itself."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for step in recording.steps:
        if step.rule:
            seen[step.op][step.rule] += 1
    return {op: count.most_common(1)[0][0] for op, count in sorted(seen.items())}


def _frame(recording: Recording, entered: ev.FrameEntered, states: list[State], values: Values, rules: dict[str, str]) -> Plain:
    """A translated frame: its position in the tree of frames, and the rows of each of its panes."""
    frame, wraps = entered.frame, is_entry(recording.original_code(entered.frame))
    decided = decisions(recording, frame)
    return {
        **frame_facts(recording, entered),
        "modified": _emitted(recording.modified_code(frame)),
        "python": python_of_frame(recording, frame),
        "graphs": [_graph(graph, recording) for graph in recording.graphs if graph.frame == frame],
        **_failed_graph(recording, frame),
        **_raised(recording, frame),
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
    """The position of a frame in the tree of frames, and its outcome."""
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
    """A compiled graph: the rows of its table, with the keys of links.py; `inputs` are row numbers.

    `group` is the tree of groups that the diagram draws; `startClosed` are the paths of those that are initially collapsed,
    `stayClosed` of those that remain collapsed when as many as fit are expanded. If DistributedDataParallel's buckets split it,
    `pieces` has one line of text per piece, and `piece` of a node is the number of its line, counted from 1. If `config.artifacts`
    requested compiler artifacts, `artifacts` contains each text.
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
    more |= _times(graph, recording)
    root = groups.grouped(graph.nodes)
    more |= {
        "group": _group(root, numbers),
        "startClosed": sorted(groups.start_closed(root)),
        "stayClosed": sorted(groups.start_closed(root, groups.MOST)),
    }
    return {**facts, **more}


def _times(graph: GraphView, recording: Recording) -> Plain:
    """The seconds of each node in the real run, the mean of the `runs` in which it was measured; empty if it was not."""
    measured: dict[str, list[float]] = {}
    for value in recording.of_frame(graph.frame, ev.ValueObserved):
        if value.role == "node" and value.graph == graph.name and value.seconds:
            measured.setdefault(value.name, []).append(value.seconds)
    means = [sum(own) / len(own) if (own := measured.get(node.name)) else 0.0 for node in graph.nodes]
    seconds = [float(f"{mean:.3g}") for mean in means]
    return {"seconds": seconds, "runs": max(map(len, measured.values()))} if measured else {}


def _failed_graph(recording: Recording, frame: int) -> Plain:
    """The graph that a backend failed to compile, and the key of the operator at which it stopped ("" if unknown)."""
    failed = next(iter(recording.of_frame(frame, ev.BackendFailed)), None)
    if failed is None:
        return {}
    attempt = failed.attempt or recording.final_attempt(frame)
    nodes = tuple(node for node in recording.of_frame(frame, ev.NodeAdded) if node.attempt == attempt)
    at = links.node_key(frame, failed.node) if failed.node else ""
    graph = _graph(GraphView(failed.graph, frame, attempt, nodes, None), recording)
    return {"failed": {**graph, "backend": failed.backend, "at": at}}


def _raised(recording: Recording, frame: int) -> Plain:
    """The error of a graph that raised when it ran, and the keys of the operators in question."""
    errors = [ran.error for ran in recording.of_frame(frame, ev.GraphRan) if ran.error]
    at = [links.node_key(frame, node.name) for node in raising_operators(recording, frame)]
    return {"raised": {"error": errors[-1], "at": at}} if errors else {}


def graph_facts(graph: GraphView, nodes: Sequence[ev.NodeAdded]) -> Plain:
    """The name of a graph, and these nodes as rows."""
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
    """Why the backend of a graph was skipped, in one line, and what to do; empty if it was not skipped."""
    return {} if reason is None else {"skipped": reason.line, "why": reason.why, "fix": reason.fix}


def node_data(node: ev.NodeAdded) -> Plain:
    """A node as a row of its graph's table."""
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
    """A group of nodes, which are row numbers, and its nested groups."""
    inner = [_group(child, numbers) for child in group.inner]
    return {"path": group.path, "title": group.title, "nodes": [numbers[node.name] for node in group.nodes], "inner": inner}


def _is_of(artifact: ev.ArtifactEmitted, graph: GraphView) -> bool:
    """Whether an artifact was compiled from this graph, or from a piece of it (`__compiled_fn_0 (piece 1 of 2)`)."""
    return artifact.graph.partition(" ")[0] == graph.name


def _artifacts(recording: Recording, frame: int) -> Plain:
    """The artifacts of a frame that belong to none of its compiled graphs; for frame 0, those of the whole recording."""
    graphs = [graph for graph in recording.graphs if graph.frame == frame]
    others = [
        _artifact(event)
        for event in recording.of_frame(frame, ev.ArtifactEmitted)
        if not any(_is_of(event, graph) for graph in graphs)
    ]
    return {"artifacts": others} if others else {}


def _artifact(artifact: ev.ArtifactEmitted) -> Plain:
    """One text of the artifacts pane; `part` is the unit that can be shown or hidden."""
    piece = artifact.graph.partition(" ")[2]
    title = f"{text.artifact_title(artifact)} {piece}".strip()
    return {"part": artifact.part, "title": title, "language": artifact.language, "text": artifact.text}


def _guard(guard: ev.GuardInstalled, decided: Mapping[str, ev.Specialized], *, wraps: bool) -> Plain:
    """A guard as a row, with the decisions behind it; in a module wrapper (`wraps`) sources are paths in the module."""
    return {
        "key": links.guard_key(guard.frame, guard.index),
        "index": guard.index,
        "source": module_path(guard.source) if wraps else f"{guard.scope} {guard.source}".strip(),
        "kind": guard.kind,
        "checks": check_of(guard.kind),
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
    """The states of one frame, each as its difference from the previous state in the same function and attempt."""
    before: dict[CallPath, State] = {}
    moments = []
    for state in states:
        if isinstance(state.event, ev.InlineEntered):
            before.pop(call_path_of(state), None)  # a callee that is entered again starts empty
        moments.append(_state(state, before.get(call_path_of(state)), values, rules))
        before[call_path_of(state)] = state
    return moments


def order_data(states: Sequence[State]) -> list[list[int]]:
    """The positions of a frame's states among those of all frames: [number in the frame, number among all], at the start of each
    run.
    """
    return [
        [place, state.number]
        for place, state in enumerate(states)
        if not place or states[place - 1].number != state.number - 1
    ]  # fmt: skip


def call_path_of(state: State) -> CallPath:
    """The current function of a state."""
    return state.attempt, state.calls


def _state(state: State, before: State | None, values: Values, rules: dict[str, str]) -> Plain:
    """One state: `keep` stack slots remain and `push` are pushed, `set` locals change (-1: is deleted).

    `kind` is omitted for an instruction; `new` says that there is no previous state to differ from. `made` describes new items,
    `nodes` and `guards` are the links of those that the panes show, `item` is the link of the state itself, `rule` the handler if
    it differs from that in `rules`. `line` is set if there is no instruction to take it from.
    """
    keep = 0 if before is None else common(before.stack, state.stack)
    full = {
        "kind": "" if isinstance(state.event, ev.InstructionStepped) else type(state.event).__name__,
        "text": text.step_row(state)[2].strip(),
        "attempt": state.attempt,
        "code": state.code.id if state.code else None,  # omitted for a frame that has not been entered yet
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
    offset = -1 if isinstance(state.event, ev.InlineEntered) else state.offset  # the offset of an entered callee is its caller's
    if offset < 0:
        full["line"] = state.line
    return {"offset": offset, **{name: value for name, value in full.items() if value}}


def _other_rule(event: ev.Event, rules: dict[str, str]) -> str:
    return event.rule if isinstance(event, ev.InstructionStepped) and event.rule != rules.get(event.op, "") else ""


def _item(state: State) -> str:
    if isinstance(state.event, ev.InstructionStepped):
        return links.step_key(state.position)
    if isinstance(state.event, ev.NodeAdded):
        return links.node_key(state.frame, state.event.name)
    return links.break_key(state.position) if isinstance(state.event, ev.GraphBroke) else ""


def _changed(before: Locals, after: Locals) -> list[tuple[str, ev.ValueView | None]]:
    if before == after:  # true of most steps
        return []
    old, new = dict(before), dict(after)
    changed = [(name, view) for name, view in after if name not in old or old[name] != view]
    return [*changed, *((name, None) for name in old if name not in new)]


# -- links -------------------------------------------------------------------------------------------------------------


def _links(table: links.Links) -> Plain:
    """The link table: `places` as [instruction and span keys], `items` as the indices of the places they come from.

    Two items are related if they share a place, which is more specific than an instruction: a callee that is inlined twice has
    each of its instructions at two places.
    """
    numbers: dict[links.Place, int] = {}
    items = {
        item: [numbers.setdefault(place, len(numbers)) for place in dict.fromkeys(places)] for item, places in table.places.items()
    }
    return {"places": [table.keys(place) for place in numbers], "items": items}
