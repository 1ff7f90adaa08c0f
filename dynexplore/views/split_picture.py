"""A picture of a function split by graph breaks: graphs on the left, the Python code between them on the right, and live values.

The idea: a graph break consists of three parts. A graph ends; Python runs one operation; a resume function continues with the
live values, which are its arguments. Read from top to bottom, the boxes are what ran, in order, and the labels of the arrows
are those arguments.

In: a recording. Out: `stations(recording)`, the boxes in order; `split_picture(recording)`, an SVG; `split_text(recording)`,
the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.break_places import own_line
from dynexplore.views.html_text import escape
from dynexplore.views.svg import fitting, labelled

WIDTH, BOX, ROW = 780, 430, 92
_LETTERS, _CODE_LETTERS = 58, 56
"""The picture's width, a box's width, the distance of boxes, and the most characters of a title and of code in a box."""

_STYLE = (
    "svg.split { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .split text { fill: currentColor }"
    " .split .code { font-family: monospace } .split .head { font-weight: 600 } .split .travels { font-style: italic }"
    " .split rect { stroke-width: 1.5 } .split .graph { fill: #0b63c522; stroke: #0b63c5 }"
    " .split .python { fill: #d1242f18; stroke: #d1242f }"
    " .split path { fill: none; stroke: #888; stroke-width: 1.5 } .split .tip { fill: #888; stroke: none }"
)


@dataclass(frozen=True)
class Station:
    """One box: a graph, or Python code. `travels` are the names of the live values that are passed to the next one."""

    is_graph: bool
    title: str
    detail: str
    travels: tuple[str, ...] = ()


def stations(recording: Recording) -> list[Station]:
    """The boxes in order: the graph of each frame, and the line at which it broke."""
    path: list[Station] = []
    for frame in (entered.frame for entered in recording.frames):
        for graph in recording.graphs:
            if graph.frame == frame:
                number = sum(station.is_graph for station in path) + 1
                names = [node.target.rpartition(".")[2] for node in graph.nodes if node.op.startswith("call_")]
                path.append(Station(True, f"graph {number}", ", ".join(names)))
        for broke in recording.breaks:
            if broke.frame == frame:
                path.append(_python(broke, recording))
    return path


def _python(broke: ev.GraphBroke, recording: Recording) -> Station:
    place = own_line(broke, recording) or broke.user_stack[-1]
    parameters = next((event.parameters for event in recording.resume_functions if event.frame == broke.frame), ())
    return Station(False, f"Python, line {place.line}: {broke.title}", place.code.strip(), tuple(map(_in_words, parameters)))


def _in_words(parameter: str) -> str:
    """A parameter of a resume function; those that were on the stack have no name in the program.

    >>> _in_words("x"), _in_words("___stack0")
    ('x', 'stack 0')
    """
    return f"stack {parameter.removeprefix('___stack')}" if parameter.startswith("___stack") else parameter


def split_text(recording: Recording) -> str:
    """The picture as text, a line per box."""
    lines = []
    for station in stations(recording):
        lines.append(f"{station.title}: {station.detail}")
        if station.travels:
            lines.append(f"  resumes with {', '.join(station.travels)}")
    return "\n".join(lines)


def split_picture(recording: Recording) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    shown = stations(recording)
    height = ROW * len(shown) - ROW + 60
    drawn = [_box(station, number) for number, station in enumerate(shown)]
    drawn += [_arrow(shown, number) for number in range(len(shown) - 1)]
    return labelled("split", split_text(recording), _STYLE, (WIDTH, height), drawn)


def _x_of(station: Station) -> int:
    return 4 if station.is_graph else WIDTH - BOX - 4


def _box(station: Station, number: int) -> str:
    x, top = _x_of(station), ROW * number + 4
    kind = "graph" if station.is_graph else "python"
    return (
        f'<rect class="{kind}" x="{x}" y="{top}" width="{BOX}" height="46" rx="5"/>'
        f'<text class="head" x="{x + 10}" y="{top + 18}">{escape(fitting(station.title, _LETTERS))}</text>'
        f'<text class="code" x="{x + 10}" y="{top + 37}">{escape(fitting(station.detail, _CODE_LETTERS))}</text>'
    )


def _arrow(shown: Sequence[Station], number: int) -> str:
    here, there = shown[number], shown[number + 1]
    start, end = (_x_of(station) + BOX // 2 for station in (here, there))
    top, bottom = ROW * number + 50, ROW * (number + 1) + 2
    middle = (top + bottom) // 2
    words = escape(", ".join(here.travels))
    label_x = (start + end) // 2 + 8 if start == end else min(start, end) + 8
    return (
        f'<path d="M{start} {top} V{middle + 8} H{end} V{bottom - 6}"/>'
        f'<path class="tip" d="M{end - 5} {bottom - 7} h10 l-5 7 z"/>'
        f'<text class="travels" x="{label_x}" y="{middle + 2}">{words}</text>'
    )
