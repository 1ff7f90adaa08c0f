"""views/first_view.py: what is painted first is a small part of the data, and no word of it is another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import first_view as first_views
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.first_view import first_view
from dynexplore.views.packing import packed
from dynexplore.views.timeline import Timeline
from sample_recordings import ORIGINAL, SAMPLES


@pytest.fixture(autouse=True)
def _few_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_views, "BEFORE", 2)
    monkeypatch.setattr(first_views, "BEHIND", 3)


def both(recording: Recording) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first view and the whole, as the browser gets them."""
    timeline = Timeline(recording)
    return json.loads(json.dumps(first_view(recording, timeline))), json.loads(json.dumps(explorer_data(recording, timeline)))


def hand(state: dict[str, Any]) -> tuple[Any, ...]:
    return state.get("attempt", 0), *state.get("calls", ())


def held(data: dict[str, Any], states: list[dict[str, Any]]) -> list[Any]:
    """Stack and locals after each of some states, each of which stands on the one before it of the same function."""
    hands: dict[Any, Any] = {}
    found = []
    for state in states:
        stack, names = ([], {}) if state.get("new") else hands[hand(state)]
        stack = [*stack[: state.get("keep", 0)], *(data["values"][number]["text"] for number in state.get("push", ()))]
        names = names | {name: data["values"][number]["text"] if number >= 0 else None for name, number in state.get("set", ())}
        hands[hand(state)] = stack, names
        found.append((stack, {name: value for name, value in names.items() if value is not None}))
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_headline_numbers_and_strip_are_those_of_the_whole(name: str) -> None:
    """Of each frame is known how many states it has, of which attempts, and where it broke; one opens at the same place."""
    view, whole = both(SAMPLES[name]())
    for part in ("story", "summary", "timeline", "title", "rules", "help"):
        assert view[part] == whole[part]
    for shown, frame in zip(view["frames"], whole["frames"], strict=True):
        sketch = shown["sketch"]
        sketches = [one for count, one in zip(sketch["counts"], sketch["sketches"], strict=True) for _ in range(count)]
        told = ("AttemptStarted", "AttemptRestarted", "GraphBroke")
        kinds = [state.get("kind") if state.get("kind") in (None, *told) else "Moment" for state in frame["states"]]
        assert [one.get("kind") for one in sketches] == kinds
        assert [one.get("attempt") for one in sketches] == [state.get("attempt") for state in frame["states"]]
        assert all(shown[part] == frame[part] for part in ("order", "title", "numbers", "outcome", "code"))
        assert [graph["calls"] for graph in shown["graphs"]] == [graph["calls"] for graph in frame["graphs"]]


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_told_is_what_the_whole_tells(name: str) -> None:
    """Around the step where it opens stack, locals, source and the graph so far are those of the whole, and so are its callers."""
    view, whole = both(SAMPLES[name]())
    opened, position = view["story"]["opening"]
    shown, frame = (next(one for one in data["frames"] if one["id"] == opened) for data in (view, whole))
    places, (start, end) = shown["sketch"]["at"], shown["sketch"]["told"]
    assert start <= position < end and places[-(end - start) :] == list(range(start, end))
    assert held(view, shown["states"]) == [held(whole, frame["states"])[place] for place in places]
    for state, place in zip(shown["states"], places, strict=True):
        same = frame["states"][place]
        assert {key: state.get(key) for key in ("text", "offset", "nodes", "code")} == {
            key: same.get(key) for key in ("text", "offset", "nodes", "code")
        }
        assert view["codes"][str(same["code"])] == whole["codes"][str(same["code"])]
        for depth in range(len(same.get("calls", ()))) if place >= start else ():
            caller = (same.get("attempt", 0), *same["calls"][:depth])
            last = max(at for at in range(place) if hand(frame["states"][at]) == caller)
            assert last in places  # the way back leads there
    grown = {key for state in frame["states"][:end] for key in state.get("nodes", ())}
    rows = {node["key"]: node for graph in frame["graphs"] for node in graph["nodes"]}
    assert {node["key"] for graph in shown["graphs"] for node in graph["nodes"]} == grown & rows.keys()


def real_values(data: dict[str, Any], frame: dict[str, Any], steps: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of the real values of nodes, and of containers in the first steps of the first attempt."""
    rows, real = data["real"]["values"], frame["real"]
    nodes, contents = (
        {name: [[since, rows[number]] for since, number in values if since <= steps] for name, values in part.items()}
        for part in (real["nodes"], real["contents"]["1"])
    )
    return nodes, {name: values for name, values in contents.items() if values}


def test_real_values_are_told_as_far_as_the_graph_has_grown() -> None:
    """In the states that are told each tensor and each list has the real value that the whole tells; later ones are not made."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        parts = [x]
        for _ in range(6):
            parts.append(parts[-1] + 1)
        return torch.stack(parts)

    view, whole = both(dynexplore.explain(fn, torch.ones(2)).recording)
    opened, _ = view["story"]["opening"]
    shown, frame = (next(one for one in data["frames"] if one["id"] == opened) for data in (view, whole))
    told = frame["states"][: shown["sketch"]["told"][1]]
    steps = sum("kind" not in state for state in told)
    grown = {key for state in told for key in state.get("nodes", ())}
    (nodes, contents), (all_nodes, all_contents) = real_values(view, shown, steps), real_values(whole, frame, steps)
    assert nodes == {name: values for name, values in all_nodes.items() if f"node:{opened}:{name}" in grown}
    assert contents == all_contents and contents
    assert len(nodes) < len(all_nodes) and len(view["real"]["values"]) < len(whole["real"]["values"])


def test_it_is_small_however_long_the_recording_is() -> None:
    """Ten thousand steps behind the one that is opened cost nearly nothing."""
    recording = Recording()
    recording.record(ev.FrameEntered(frame=1, parent=None, code=ORIGINAL))
    recording.record(ev.AttemptStarted(frame=1, attempt=1))
    for number in range(10_000):
        slot = ev.ValueView(number, "TensorVariable", f"value {number}")
        recording.record(ev.InstructionStepped(frame=1, attempt=1, offset=2, step=1, op="LOAD_FAST", stack=(slot,)))
    view, whole = both(recording)
    sizes = [len(json.dumps(packed(data))) for data in (view, whole)]
    assert sizes[0] < 10_000 < sizes[1] / 20
    assert first_views.is_large(Timeline(recording)) and not first_views.is_large(Timeline(SAMPLES["toy"]()))
