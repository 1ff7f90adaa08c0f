"""What the views make of real recordings: golden printouts, and what must hold for any program.

Bytecode differs between Python versions, so each has golden files of its own; the rest of this file is the same on all.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded import recorded
from torch import nn

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import html_text, text
from dynexplore.views.annotated import Annotations
from dynexplore.views.dot import dot
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.links import Links
from dynexplore.views.timeline import Timeline
from golden_files import Golden
from sample_recordings import items_of, look_at, watched

VERSION = f"py{sys.version_info.major}{sys.version_info.minor}"

SOURCE = """\
import torch
def fn(a, b):
    x = a + b
    x = x / 2.0
    if x.sum() < 0:
        return x * -1.0
    return x

def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

def chatty(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b

def inner(x, scale=2):
    return x.relu() * scale

def calls(a, b):
    return inner(a) + inner(b, scale=3)

def loop(a, b):
    total = a
    for i in range(3):
        total = total + b * i
        print(i)
    return total

def keeps(a, b):
    seen = []
    for part in (a, b):
        seen.append(part.sin())
    kept["last"] = seen[-1]
    return {"seen": seen, "both": a + b}

def guarded(a, b):
    with torch.no_grad():
        c = a @ b
        try:
            c = c.reshape(99)
        except RuntimeError:
            c = c + 1
    return c

kept = {}
"""


@pytest.fixture
def example() -> Any:
    """The programs, as if they stood in a file example.py, so that printouts hold no folder of this machine."""
    linecache.cache["example.py"] = (len(SOURCE), None, SOURCE.splitlines(True), "example.py")
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, "example.py", "exec"), namespace)
    yield namespace
    del linecache.cache["example.py"]


A, B = torch.ones(3), torch.full((3,), 2.0)
CALLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "fn": ((-A, -B),),
    "toy": ((A, -B), (A, B), (A, -B), (A.double(), -B.double())),
    "chatty": ((A, -B),),
    "calls": ((A, B),),
    "loop": ((A, B),),
    "keeps": ((A, B),),
    "guarded": ((A, B),),
}


class Block(nn.Module):
    """A model with a submodule, a list of them, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.norm = nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.norm(x)


def recording_of(example: dict[str, Any], name: str) -> Recording:
    torch.manual_seed(0)
    if name == "module":
        return recorded(Block(), (A,))
    return recorded(example[name], *CALLS[name])


NAMES = [*CALLS, "module"]


# -- golden ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fn", "toy", "chatty"])
def test_the_printout_of_a_reference_program(example: dict[str, Any], name: str, golden: Golden) -> None:
    """Explanation, tree of frames, and per frame graph table, original and modified bytecode, guards and breaks."""
    recording = recorded(example[name], CALLS[name][0])
    parts = [text.explanation(recording), text.frames(recording)]
    parts += [text.debug_printout(recording, entered.frame) for entered in recording.frames]
    golden(f"printout/{VERSION}/{name}.txt", "\n\n".join(parts))


@pytest.mark.parametrize("name", ["toy", "calls", "keeps"])
def test_the_steps_of_a_program(example: dict[str, Any], name: str, golden: Golden) -> None:
    """Every step of the first frame: instruction, symbolic stack, what changed."""
    golden(f"printout/{VERSION}/{name}.steps.txt", text.steps(recording_of(example, name), 1))


def test_chatty_is_explained_as_people_know_it(example: dict[str, Any]) -> None:
    """Three graphs, two breaks and seven ops, with the reasons."""
    lines = text.explanation(recording_of(example, "chatty")).splitlines()
    assert lines[5] == "3 graphs, 2 graph breaks, 7 operators"
    assert "1. printing or logging (function: print)" in lines and '     print("woo")' in lines
    assert '   File "example.py", line 18, in chatty' in lines


# -- what holds for any program --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_json_and_back(example: dict[str, Any], name: str) -> None:
    """A real recording goes to JSON and back unchanged, also redacted."""
    recording = recording_of(example, name)
    assert Recording.from_json(recording.to_json()) == recording
    redacted = Recording.from_json(recording.to_json(redact=True))
    assert len(redacted) == len(recording) and [type(e) for e in redacted] == [type(e) for e in recording]


@pytest.mark.parametrize("name", NAMES)
def test_no_item_is_a_dead_end(example: dict[str, Any], name: str) -> None:
    """Each node, guard, break, resume function, modified instruction, step and slot has an instruction and a span."""
    recording = recording_of(example, name)
    links = Links(recording)
    for item in items_of(recording):
        assert links.instructions(item) and links.spans(item), item
        assert all(item in links.related(other) for other in links.related(item)), item


@pytest.mark.parametrize("name", NAMES)
def test_every_view_can_be_made(example: dict[str, Any], name: str) -> None:
    """Report, steps, guards, breaks, page and DOT of every frame and graph are made, in this process or another."""
    for recording in (recording_of(example, name), Recording.from_json(recording_of(example, name).to_json())):
        assert text.report(recording) and html_text.page(recording)
        for entered in recording.frames:
            assert text.steps(recording, entered.frame) and text.guard_anatomy(recording, entered.frame)
        for broke in recording.breaks:
            assert text.break_details(recording, broke).startswith(f"Graph break {broke.kind}: ")
        for failed in recording.of(ev.GuardFailed):
            assert "used by" in text.recompile_report(recording, failed)
        for graph in recording.graphs:
            assert dot(graph.nodes).count(' id="node-') == len(graph.nodes)


@pytest.mark.parametrize("name", NAMES)
def test_every_view_can_be_made_without_steps(example: dict[str, Any], name: str) -> None:
    """Steps, roles and rules may be absent, as in a recording of torch.compile: every view is made, and the graph still grows."""
    recording = watched(recording_of(example, name))
    assert not recording.steps and recording.engine == "torch.compile"
    for view in (recording, Recording.from_json(recording.to_json())):
        look_at(view)
    data = explorer_data(recording)
    shown = next(frame for frame in data["frames"] if frame["id"] == data["story"]["opening"][0])
    assert data["engine"] == "torch.compile" and 0 <= data["story"]["opening"][1] < len(shown["states"])
    for graph in recording.graphs:
        events = [state.event for state in Timeline(recording).of_frame(graph.frame)]
        assert {node.name for node in graph.nodes} <= {event.name for event in events if isinstance(event, ev.NodeAdded)}


def test_without_steps_lines_are_marked_all_the_same(example: dict[str, Any]) -> None:
    """Nodes and breaks that name a line but no instruction are marked at that line, and lead there."""
    full = recording_of(example, "chatty")
    recording = watched(full)
    frame = recording.frames[0].frame
    code = recording.original_code(frame)
    assert Annotations(recording).of_code(code).keys() == Annotations(full).of_code(full.original_code(frame)).keys()
    states = explorer_data(recording)["frames"][0]["states"]
    lines = [state.get("line", 0) for state in states if state.get("kind") == "NodeAdded" and state["nodes"]]
    assert code.first_line + 1 in lines
    broke = [state for state in states if state.get("kind") == "GraphBroke"]
    assert [state["line"] for state in broke] == [code.first_line + 2]


@pytest.mark.parametrize("name", NAMES)
def test_all_frames_have_one_order(example: dict[str, Any], name: str) -> None:
    """From the rows of numbers of its frames the explorer knows the one order of all moments."""
    recording = recording_of(example, name)
    numbers: dict[int, tuple[int, str]] = {}
    data = explorer_data(recording)
    for frame in data["frames"]:
        begins = dict(frame["order"])
        number = -1
        for place, state in enumerate(frame["states"]):
            number = begins.get(place, number + 1)
            assert number not in numbers
            numbers[number] = (frame["id"], state["text"])
    for state in Timeline(recording):
        if state.number in numbers:
            assert numbers[state.number][0] == state.frame
    assert len(numbers) == sum(len(frame["states"]) for frame in data["frames"]) > 0


@pytest.mark.parametrize("name", NAMES)
def test_offsets_are_instructions(example: dict[str, Any], name: str) -> None:
    """Every offset of an event is a row of the code that it counts in, every step a step of its row."""
    recording = recording_of(example, name)
    for event in recording:
        if isinstance(event, ev.InstructionEvent) and event.offset >= 0:
            code = recording.code_of(event)
            assert code is not None
            row = text.row_at(code, event.offset)
            assert row is not None, event
            if isinstance(event, ev.InstructionStepped):
                assert (event.step, event.op, event.arg) in {(step.index, step.op, step.arg) for step in row.steps}


@pytest.mark.parametrize("name", NAMES)
def test_the_fold_follows_the_program(example: dict[str, Any], name: str) -> None:
    """Each state's locals hold what the steps stored; each node and guard is reached from its name."""
    recording = recording_of(example, name)
    timeline = Timeline(recording)
    for state in timeline:
        if isinstance(state.event, ev.InstructionStepped) and state.event.op == "STORE_FAST":
            assert state.event.arg in dict(state.locals)
    for graph in recording.graphs:
        for node in graph.nodes:
            state = timeline.step_of_node(graph.frame, node.name)
            assert state is not None and state.attempt == graph.attempt
    for guard in recording.guards:
        assert timeline.step_of_guard(guard.frame, guard.index) is not None


@pytest.mark.parametrize("name", NAMES)
def test_the_recording_shows_the_graphs_that_were_compiled(example: dict[str, Any], name: str) -> None:
    """Names, order, opcodes and arguments of the nodes are those of the GraphModules that the backend got."""
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        seen.append(graph)
        return graph.forward

    recording = recorded_with(backend, example, name)
    assert len(seen) == len(recording.graphs)
    for module, view in zip(seen, recording.graphs, strict=True):
        nodes = list(module.graph.nodes)
        assert [(n.name, n.op, str(n.args)) for n in nodes] == [(n.name, n.op, n.args) for n in view.nodes]
        assert view.compiled is not None and view.compiled.node_count == len(nodes)
        assert [node.name for node in view.nodes[-1:]] == ["output"]


def recorded_with(backend: Callable[..., Any], example: dict[str, Any], name: str) -> Recording:
    if name == "module":
        return recorded(Block(), (A,), backend=backend)
    return recorded(example[name], CALLS[name][0], backend=backend)


@pytest.mark.parametrize("name", NAMES)
def test_being_watched_changes_nothing(example: dict[str, Any], name: str) -> None:
    """With and without a recorder the same graphs are captured, with the same breaks and counts."""

    def graphs_of(watched: bool) -> tuple[list[str], dict[str, int]]:
        dynexplore.reset()
        torch.manual_seed(0)
        seen: list[str] = []

        def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
            seen.append(graph.code)
            return graph.forward

        function, arguments = (Block(), (A,)) if name == "module" else (example[name], CALLS[name][0])
        if watched:
            recorded(function, arguments, backend=backend)
        else:
            dynexplore.optimize(backend)(function)(*arguments)
        return seen, dynexplore.graph_breaks()

    assert graphs_of(True) == graphs_of(False)


def test_a_module_path_stands_with_its_nodes(example: dict[str, Any]) -> None:
    """Nodes made in a submodule carry its path, and DOT groups them by it."""
    nodes = recording_of(example, "module").graphs[0].nodes
    paths = [node.module for node in nodes if node.op.startswith("call_")]
    assert any("layers" in path for path in paths) and any(path.endswith("norm") for path in paths)
    assert "cluster_" in dot(nodes)


def test_values_are_plain_and_short(example: dict[str, Any]) -> None:
    """A huge constant, a value whose repr raises and a name with HTML in it are cut or told, never fatal."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        def __bool__(self) -> bool:
            return True

    def program(x: torch.Tensor, text: str, broken: object) -> torch.Tensor:
        if text and broken:
            return x + len(text)
        return x

    recording = recorded(program, (A, "<b>" * 1_000_000, Broken()))
    assert len(recording.to_json()) < 200_000
    assert "<b><b>" not in html_text.page(recording)
