"""views/explorer_data.py: nothing of a recording is lost on its way to the browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from recorded import recorded

from dynexplore.engine.events import ArtifactEmitted, GraphPiece, SubgraphCompiled, ValueView
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.links import Links
from dynexplore.views.timeline import Timeline
from sample_recordings import SAMPLES, inlined, items_of, toy


def folded(data: dict[str, Any], frame: dict[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The stack and locals at each state of a frame, put together from the differences as the browser does it."""
    hands: dict[Any, tuple[list[Any], dict[str, Any]]] = {}
    for state in frame["states"]:
        hand = (state.get("attempt", 0), tuple(state.get("calls", ())))
        stack, names = ([], {}) if state.get("new") else hands[hand]
        stack = stack[: state.get("keep", 0)] + [data["values"][number] for number in state.get("push", ())]
        names = {**names, **{name: data["values"][number] for name, number in state.get("set", ()) if number >= 0}}
        for name, number in state.get("set", ()):
            if number < 0:
                del names[name]
        hands[hand] = stack, names
        yield stack, names


def fields_of(view: ValueView) -> dict[str, Any]:
    """What the browser is told of a value."""
    return {"id": view.id, "kind": view.kind, "text": view.text, "source": view.source, "node": view.node}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_differences_add_up_to_the_timeline(name: str) -> None:
    """Folding the states gives the stack and the locals of each state of the timeline."""
    recording = SAMPLES[name]()
    data = json.loads(json.dumps(explorer_data(recording)))
    for frame in data["frames"]:
        states = Timeline(recording).of_frame(frame["id"])
        assert len(states) == len(frame["states"]) > 0
        for state, (stack, names) in zip(states, folded(data, frame), strict=True):
            assert stack == [fields_of(view) for view in state.stack]
            assert names == {name: fields_of(view) for name, view in state.locals}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_link_table_says_what_links_says(name: str) -> None:
    """What shares a place with an item, and the instructions and spans there, are what Links.related gives."""
    recording = SAMPLES[name]()
    table, links = explorer_data(recording)["links"], Links(recording)
    for item in items_of(recording):
        places = set(table["items"][item])
        found = {other for other, its in table["items"].items() if places & set(its)}
        found |= {key for place in places for key in table["places"][place]}
        assert found - {item} == links.related(item)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_row_of_a_pane_has_its_links(name: str) -> None:
    """Nodes, guards, breaks and resume functions bear the keys of the link table; no pane is empty of them."""
    data = explorer_data(SAMPLES[name]())
    for frame in data["frames"]:
        rows = [*frame["guards"], *frame["breaks"], *frame["resume"], *(n for g in frame["graphs"] for n in g["nodes"])]
        assert rows and {row["key"] for row in rows} <= data["links"]["items"].keys()
        made = [key for state in frame["states"] for key in (*state.get("nodes", ()), *state.get("guards", ()))]
        assert {row["key"] for row in rows if row["key"].startswith(("node", "guard"))} <= set(made)


def span_of(row: dict[str, Any]) -> dict[str, int]:
    """Where the source of an instruction stands."""
    return {name: row[name] for name in ("line", "column", "endLine", "endColumn", "byteColumn", "endByteColumn")}


def test_a_frame_has_source_listings_and_roles() -> None:
    """The first frame of toy: source lines, canonical steps with their sentence, modified rows with role and origin."""
    data = explorer_data(toy())
    frame = data["frames"][0]
    code = data["codes"][str(frame["code"])]
    assert code["lines"][1] == "    x = a / (torch.abs(a) + 1)"
    (compare,) = [row for row in code["rows"] if row["offset"] == 28]
    assert (compare["op"], compare["arg"]) == ("COMPARE_OP", "<")
    assert span_of(compare) == {"line": 11, "column": 7, "endLine": 11, "endColumn": 18, "byteColumn": 7, "endByteColumn": 18}
    assert "steps" not in compare
    assert data["help"]["COMPARE_OP"][1].endswith(".")
    (jump,) = [row for row in frame["modified"] if row["origin"] == 30]
    assert (jump["role"], jump["op"]) == ("original", "POP_JUMP_IF_FALSE")
    assert [row["name"] for row in frame["resume"]] == ["__resume_at_32_1", "__resume_at_40_2"]
    assert (data["frames"][1]["parent"], data["frames"][1]["resumes"]) == (1, 32)
    called = [frame for call in data["timeline"]["calls"] for frame in call["frames"]]
    assert ("hit", 1) in [(frame["outcome"], frame["entry"]) for frame in called]


def test_a_real_recording_adds_up_too() -> None:
    """Of what the engine records the differences add up, and canonical steps stand where they say more than the opcode."""

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        total = a
        for part in (a, b):
            total = total + inner(part)
        print("a break")
        del part
        return total * 2

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.relu() + 1

    recording = recorded(program, (torch.ones(3), torch.ones(3)))
    data = json.loads(json.dumps(explorer_data(recording)))
    assert len(data["frames"]) == 2 and data["frames"][0]["resume"]
    for frame in data["frames"]:
        for state, (stack, names) in zip(Timeline(recording).of_frame(frame["id"]), folded(data, frame), strict=True):
            assert [value["id"] for value in stack] == [view.id for view in state.stack]
            assert {name: value["id"] for name, value in names.items()} == {name: view.id for name, view in state.locals}
    rows = [row for code in data["codes"].values() for row in code["rows"]]
    assert any("steps" in row for row in rows) and not all("steps" in row for row in rows)
    assert {op for row in rows for op, _ in row.get("steps", ())} <= data["help"].keys()


def test_the_facts_of_a_page() -> None:
    """Files, groups of nodes, what each call tried and missed, whether a break is fundamental, and why a frame was left alone."""
    data = explorer_data(toy())
    assert [code["file"] for code in data["codes"].values()] == ["example.py"] and data["cut"] == ""
    frame = data["frames"][0]
    (graph,) = frame["graphs"]
    assert graph["group"] == {"path": "", "title": "", "nodes": list(range(8)), "inner": []}
    assert graph["startClosed"] == graph["stayClosed"] == [] and frame["skipped"] == ""
    (broke, *_) = data["inspection"].values()
    assert (broke["fundamental"], broke["reason"], broke["facts"]) == (1, "`if` on a tensor value", [])
    assert data["anatomy"]["calls"][1] == {
        "label": "call 1: toy (plain Python)",
        "frame": 4,
        "tried": {"1": 0},
        "found": {"1": {"expected": "dtype float32", "actual": "dtype float64"}},
    }
    assert [guard["index"] for guard in frame["guards"]] == [0, 1, 2, 3] and data["versions"] == toy().versions
    assert frame["resume"][0]["parameters"] == list(toy().resume_functions[0].parameters)
    marked = [row["offset"] for row in data["codes"]["1"]["rows"] if row.get("mark")]
    assert marked == [row.offset for row in toy().codes[1].rows if row.is_target]
    (call,) = data["timeline"]["calls"]
    assert call["arguments"] == "" and call["frames"][-1]["missed"]["1"].endswith("expected dtype float32, found dtype float64")
    assert data["timeline"]["misses"]["4"]["reports"]["1"].startswith("Guard failed: local 'a' TENSOR_MATCH\n")
    called = [called for call in data["timeline"]["calls"] for called in call["frames"]]
    assert called[-1]["reason"] == "recompile limit (1) reached"


def test_what_a_compiler_made_stands_with_its_graph() -> None:
    """Each text with its title, the part that a button shows or hides, and its language."""
    recording = toy()
    name = recording.graphs[0].name
    recording.record(ArtifactEmitted(frame=1, graph=name, stage="forward", part="kernels", text="kernel()", language="cpp"))
    (made,) = explorer_data(recording)["frames"][0]["graphs"][0]["artifacts"]
    assert made == {"part": "kernels", "title": "forward kernels", "language": "cpp", "text": "kernel()"}


def test_columns_are_characters() -> None:
    """CPython counts the columns of a span in bytes; the browser gets characters, and the bytes for the link."""
    recording = toy()
    entered = recording.frames[0]
    source = entered.code.source.replace("    if b", "    é; b")
    again = Recording(title="toy")
    again.record(replace(entered, code=replace(entered.code, source=source)))
    (row,) = [row for row in explorer_data(again)["codes"]["1"]["rows"] if row["offset"] == 20]
    assert span_of(row) == {"line": 11, "column": 6, "endLine": 11, "endColumn": 7, "byteColumn": 7, "endByteColumn": 8}


def test_a_callee_has_its_own_function_at_hand() -> None:
    """Inside an inlined call the states name the callee's code, and the caller's stack is there again afterwards."""
    data = explorer_data(inlined())
    (frame,) = data["frames"]
    names = [data["codes"][str(state["code"])]["name"] for state in frame["states"] if "kind" not in state]
    assert names == ["outer"] * 3 + ["inner"] * 4 + ["outer"] * 2


def test_the_same_recording_gives_the_same_data() -> None:
    """Nothing of the moment gets in: the data of a recording that went to JSON and back is equal."""
    assert explorer_data(Recording.from_json(toy().to_json())) == explorer_data(toy())
    assert explorer_data(Recording())["frames"] == []


def split() -> Recording:
    """The sample `toy`, its first graph split into two pieces."""
    whole = toy()
    pieces = (
        GraphPiece(1, ("abs_1", "add"), (1,), ("first.weight",), 4096),
        GraphPiece(2, ("truediv", "sum_1", "lt"), (0,), ("last.weight", "last.bias"), 1028),
    )
    recording = Recording(title="split")
    for event in whole:
        first = isinstance(event, SubgraphCompiled) and event.graph == whole.graphs[0].name
        recording.record(replace(event, pieces=pieces) if first else event)
    return recording


def test_pieces_of_a_split_graph_are_said_in_words_and_by_number() -> None:
    """Each piece has a line, and each of its nodes the number of that line; a whole graph has neither."""
    recording = Recording.from_json(split().to_json())
    first, *others = [graph for frame in explorer_data(recording)["frames"] for graph in frame["graphs"]]
    assert first["pieces"] == [
        "piece 1 of 2: abs_1 .. add; gradients first.weight (4,096 bytes) -> bucket 1",
        "piece 2 of 2: truediv .. lt; gradients last.weight, last.bias (1,028 bytes) -> bucket 0",
    ]
    assert {node["name"]: node.get("piece") for node in first["nodes"]} == {
        "a": None, "b": None, "abs_1": 1, "add": 1, "truediv": 2, "sum_1": 2, "lt": 2, "output": None,
    }  # fmt: skip
    assert all("pieces" not in graph and not any("piece" in node for node in graph["nodes"]) for graph in others)
    assert text.graph(recording.graphs[0]).splitlines()[0].endswith(", 2 pieces)")


def test_functions_of_libraries_are_marked() -> None:
    """The lines of a library's file are not lines of the program: the diagram shows no numbers of such a function."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    codes = explorer_data(recorded(lambda x: model(x), (torch.ones(2),)))["codes"].values()
    marked = {code["name"] for code in codes if code.get("ofLibrary")}
    assert "Sequential.forward" in marked and not any("test_functions_of_libraries" in name for name in marked)
