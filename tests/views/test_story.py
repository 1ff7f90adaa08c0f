"""views/story.py: where the explorer begins, what stands beside the panes, and that nothing of an attempt is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynexplore import explain, override_handler
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.headline import headline
from sample_recordings import inlined, toy

X = torch.ones(2, 4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


class Chatty(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        print("between")
        return y.relu()


def opening(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Frame and state that the explorer begins with."""
    frame, position = data["story"]["opening"]
    (found,) = [one for one in data["frames"] if one["id"] == frame]
    return found, found["states"][position]


def line_of(data: dict[str, Any], state: dict[str, Any]) -> int:
    rows = data["codes"][str(state["code"])]["rows"]
    return next(int(row["line"]) for row in rows if row["offset"] == state["offset"])


def test_the_headline_is_that_of_the_text() -> None:
    """Lines, level and counts come from one place, and the place leads to the break."""
    told = explorer_data(toy())["story"]
    assert (told["lines"], told["level"]) == (list(headline(toy()).lines), "break")
    assert (told["graphs"], told["breaks"], told["recompiles"]) == (2, 1, 1)
    assert told["place"] == told["opening"] and told["graphNames"] == ["__compiled_fn_0", "__compiled_fn_3"]


def test_it_begins_at_the_first_break() -> None:
    """In the function that breaks, not in the engine's wrapper that called it."""
    frame, state = opening(explorer_data(explain(Chatty())(X).recording))
    assert frame["title"] == "Chatty.forward" and state["kind"] == "GraphBroke"


def test_a_wrong_value_comes_before_everything() -> None:
    """The headline's first line is about it, so the explorer opens at the step that made it, and not at an earlier operator."""

    def gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 3 - b

    def swapped(frame: Any, step: Any, ctx: Any) -> None:
        if step.arg == "-":
            frame.stack[-1], frame.stack[-2] = frame.stack[-2], frame.stack[-1]
        original(frame, step, ctx)

    with override_handler("BINARY_OP", swapped) as original:
        data = explorer_data(explain(gap)(X, X * 2).recording)
    _, state = opening(data)
    assert data["story"]["level"] == "bad" and data["story"]["opening"] == data["story"]["place"]
    assert state["nodes"] == ["node:1:sub"]


def test_else_it_begins_at_the_users_first_operator() -> None:
    """The forward of a module is the user's code; the wrapper and torch's own layers are not."""
    data = explorer_data(explain(Model())(X).recording)
    frame, state = opening(data)
    assert frame["title"] == "Model.forward" and data["codes"][str(state["code"])]["name"] == "Model.forward"
    assert any(key.endswith(":relu") or "relu" in key for key in state["nodes"])
    assert opening(explorer_data(inlined()))[1]["nodes"] == ["node:1:relu"]


LIBRARY = nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def calls_a_library(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return LIBRARY(x)


def test_what_ends_a_block_is_no_operator_to_begin_with() -> None:
    """Where only layers of torch compute, it begins at the line that calls the first, in the user's code and not in torch's, and
    not at the end, where no_grad leaves its node."""
    data = explorer_data(explain(calls_a_library)(X).recording)
    _, state = opening(data)
    name, line = data["codes"][str(state["code"])]["name"], line_of(data, state)
    assert (name, line) == ("calls_a_library", calls_a_library.__code__.co_firstlineno + 2)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Conv2d(1, 1, 1)), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.second(x)


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize("engine", ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)])
def test_a_model_of_torchs_layers_begins_where_it_calls_the_first(engine: str) -> None:
    """The file that opens is the model's, where it calls its first layer, whose operator has just come into the graph."""
    data = explorer_data(explain(Blocks(), torch.ones(1, 1, 2, 2), engine=engine).recording)
    frame, state = opening(data)
    assert (frame["title"], line_of(data, state)) == ("Blocks.forward", Blocks.forward.__code__.co_firstlineno + 1)


DEEP = nn.Sequential(*(nn.Linear(4, 4) for _ in range(50)))


def test_a_line_that_runs_a_whole_large_model_comes_too_late_to_begin_at() -> None:
    """When the user's line has run, most of the graph is there, and nothing is left to be seen growing: it begins in the model."""
    _, state = opening(explorer_data(explain(lambda x: DEEP(x))(X).recording))
    assert state["nodes"] == ["node:1:linear"]
    _, state = opening(explorer_data(explain(lambda x: DEEP[:20](x))(X).recording))
    assert state["text"] == "RETURN_VALUE" or state["text"].startswith("CALL"), "a graph that is drawn whole: the user's line"


def test_wrappers_are_hidden_where_others_are() -> None:
    """A module that is one graph is its wrapper, by the name of its forward; with a break the frames of forward are listed."""
    assert [frame.get("hidden", 0) for frame in explorer_data(explain(Model())(X).recording)["frames"]] == [0]
    frames = explorer_data(explain(Chatty())(X).recording)["frames"]
    line = Chatty.forward.__code__.co_firstlineno + 2
    assert [frame["title"] for frame in frames if not frame.get("hidden")] == [
        "Chatty.forward",
        f"Chatty.forward, from line {line} on",
    ]
    assert len(frames) == 4


def test_guards_of_a_module_are_paths() -> None:
    """Not `closure target.layer.weight`, which nobody wrote."""
    data = explorer_data(explain(Model())(X).recording)
    sources = [guard["source"] for frame in data["frames"] for guard in frame["guards"]]
    assert any(source.startswith("module") for source in sources) and not any("target" in source for source in sources)


def test_nodes_of_discarded_attempts_are_there() -> None:
    """Each node that a state made stands in a compiled graph, or among those of its attempt that do not."""
    for recording in (toy(), explain(Chatty())(X).recording):
        for frame in explorer_data(recording)["frames"]:
            kept = {node["key"] for graph in frame["graphs"] for node in graph["nodes"]}
            for state in frame["states"]:
                thrown = {node["key"] for node in frame.get("thrown", {}).get(str(state.get("attempt", 0)), [])}
                assert set(state.get("nodes", ())) <= kept | thrown
    assert "thrown" not in explorer_data(toy())["frames"][0]  # the second attempt has the same nodes


def test_a_node_that_was_thrown_away_says_what_it_read() -> None:
    """It stands in no graph, so its inputs are names and not places there."""
    recording = toy()
    recording.record(
        ev.NodeAdded(frame=1, attempt=1, offset=28, graph="g", op="call_function", name="lost", target="f", inputs=("a", "lt"))
    )
    (lost,) = explorer_data(recording)["frames"][0]["thrown"]["1"]
    assert (lost["name"], lost["reads"]) == ("lost", ["a", "lt"])


def test_lines_have_graphs_and_breaks() -> None:
    """A line names its graphs by number; a break its cause, its remedy and its link."""
    data = explorer_data(toy())
    marks = data["codes"]["1"]["marks"]
    assert [marks[line]["graphs"] for line in ("10", "12", "13")] == [[1], [2], [2]]
    (broke,) = marks["11"]["breaks"]
    assert broke["cause"] == "`if` on a tensor value" and broke["remedy"].startswith("Use torch.where")
    assert broke["key"] in data["links"]["items"]
    assert [frame["numbers"] for frame in data["frames"]] == [[1], [2]]


def test_an_empty_recording_has_no_place() -> None:
    """There is nothing to begin with."""
    told = explorer_data(Recording(title="f"))["story"]
    assert told["opening"] == told["place"] == [] and told["lines"][0] == "f: nothing was captured."
