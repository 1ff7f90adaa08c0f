"""Memory as a picture, of events written by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from dataclasses import replace

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.memory import memory_of
from dynexplore.recording.recording import Recording
from dynexplore.views.memory_picture import html, memory_data, picture

NASTY = '<img src=x onerror="alert(1)">'
FORWARD = ev.MemoryPlanned(
    frame=1, graph="g", stage="forward", inputs=100,
    nodes=(ev.NodeMemory("mm", "aten.mm", 300, 200, 200, place=NASTY), ev.NodeMemory("sum", "aten.sum", 304, 4, 200)),
    saved=(ev.SavedStorage("mm", 200), ev.SavedStorage(NASTY, 100, is_input=True)),
)  # fmt: skip
LAST = ev.NodeMemory("mul", "aten.mul", 500, 200, 200)
BACKWARD = ev.MemoryPlanned(frame=1, graph="g", stage="backward", inputs=100, nodes=(LAST,))


def shapes(text: str) -> list[str]:
    return [element.get("class", "") for element in tree.fromstring(text)]


def test_the_line_the_peak_and_what_is_kept_are_drawn() -> None:
    """One step line over the nodes of both halves, a mark at the peak, shades for inputs and for what is kept."""
    (graph,) = memory_of([FORWARD, BACKWARD])
    drawn = picture(graph)
    assert {"inputs", "kept", "live", "peak", "divide", "axis"} <= set(shapes(drawn))
    line = next(element.get("d", "") for element in tree.fromstring(drawn) if element.get("class") == "live")
    assert line.count("V") == 2  # three nodes, three heights
    assert "500 B at aten.mul, backward" in drawn and "forward, 2 nodes" in drawn and "backward, 1 node<" in drawn


def test_without_kept_storages_nothing_is_shaded_for_them() -> None:
    """A captured graph has a line and a peak."""
    (graph,) = memory_of([replace(FORWARD, stage="captured", saved=())])
    assert "kept" not in shapes(picture(graph)) and "divide" not in shapes(picture(graph))


def test_what_an_operator_takes_while_it_runs_is_a_thin_line() -> None:
    """Measured on a GPU: the peak is its top, and a row says how much; where nothing was taken there is no line."""
    first, second = FORWARD.nodes
    (graph,) = memory_of([replace(FORWARD, nodes=(first, replace(second, inside=96)), measured=True)])
    drawn = picture(graph)
    assert "inside" in shapes(drawn) and "400 B at aten.sum, forward" in drawn and "only while an operator runs" in drawn
    recording = Recording()
    recording.record(graph.stages[0])
    (data,) = memory_data(recording)
    assert data["peak"] == 1 and [row["inside"] for row in data["rows"]] == ["", "96 B"]
    assert "inside" not in shapes(picture(memory_of([FORWARD])[0]))


def test_parameters_leave_room_for_what_comes_and_goes() -> None:
    """Where parameters are nearly all, the picture begins below their top, and says so; what lives above them takes most of it."""
    nodes = tuple(ev.NodeMemory(f"n{at}", "aten.mm", live, 10, 0) for at, live in enumerate((100_050, 100_100)))
    (graph,) = memory_of([replace(FORWARD, stage="captured", inputs=100_000, nodes=nodes, saved=())])
    drawn = picture(graph)
    assert "from 97.6 KiB up" in drawn
    low, high = (float(one) for one in re.findall(r"M8 ([\d.]+)H360V([\d.]+)", drawn)[0])
    assert low - high > 30
    (usual,) = memory_of([FORWARD])
    assert " up</text>" not in picture(usual)


@pytest.mark.parametrize("events", ([], [FORWARD], [replace(FORWARD, nodes=(), saved=())]))
def test_html_holds_no_markup_of_a_recording(events: list[ev.MemoryPlanned]) -> None:
    """Names and places are text, also where there is nothing to draw."""
    made = html(memory_of(events))
    assert "<img" not in made and made.startswith("<div")


def test_the_explorer_gets_a_row_for_each_node() -> None:
    """Rows in the order of both halves, the peak by its number, graphs without nodes left out."""
    recording = Recording()
    for event in (FORWARD, BACKWARD, replace(FORWARD, graph="empty", nodes=())):
        recording.record(event)
    (graph,) = memory_data(recording)
    assert [(row["name"], row["stage"], row["live"], row["made"]) for row in graph["rows"]] == [
        ("mm", "forward", "300 B", "200 B"),
        ("sum", "forward", "304 B", "4 B"),
        ("mul", "backward", "500 B", "200 B"),
    ]
    assert [(row["op"], row["place"]) for row in graph["rows"][:2]] == [("aten.mm", NASTY), ("aten.sum", "")]
    assert (graph["graph"], graph["frame"], graph["lines"][0]) == ("g", 1, "peak 500 B at aten.mul, backward")
    assert [row["bytes"] for row in graph["kept"]] == ["200 B", "100 B"] and "there anyway" in graph["kept"][1]["what"]
    left, right, width, top, bottom = (graph["edges"][name] for name in ("left", "right", "width", "top", "bottom"))
    assert f"H{width - right}" in graph["picture"] and 0 < left < width and 0 < top < bottom
    assert graph["peak"] == 2 and [row["name"] for row in graph["kept"]] == ["mm", NASTY]
