"""A picture of the joint graph: forward on the left going down, backward on the right going up, saved tensors in between.

The idea: AOTAutograd traces forward and backward as one joint graph, and a partitioner splits it. Activations that backward
needs cross the cut and stay in memory until backward runs. The picture shows the joint graph with the cut in the middle; each
arrow across it is a use of a saved tensor. Nodes that backward recomputes, instead of having them saved, are marked.

In: a recording of `inductor_artifacts`: the texts of the forward and the backward graph. Out: `halves(recording)`, both graphs
and the saved tensors; `joint_picture(recording)`, an SVG; `joint_text(recording)`, the same as text. PyTorch's counterpart:
torch/_functorch/partitioners.py, which can draw the joint graph with pydot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.memory import bytes_text
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.html_text import escape
from dynexplore.views.printed_graph import PrintedGraph
from dynexplore.views.svg import fitting, labelled

WIDTH, BOX, HIGH, ROW, TOP = 700, 170, 24, 38, 34
"""The picture's width, a box's width and height, the height of a row, and that of the header."""

LEFT, RIGHT, CUT = 80, WIDTH - 80 - 170, WIDTH // 2
"""The left edges of the boxes of both halves, and the position of the cut."""

LETTERS = 24
"""The most characters of a name in a box."""

NOTHING = "No backward: no input requires grad, or AOTAutograd's graphs were not saved."

_STYLE = (
    "svg.joint { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .joint text { fill: currentColor }"
    " .joint .code { font-family: monospace; font-size: 11px } .joint .head { font-weight: 600 } .joint rect { stroke-width: 1.5 }"
    " .joint .forward { fill: #0b63c522; stroke: #0b63c5 } .joint .backward { fill: #8250df22; stroke: #8250df }"
    " .joint .again { fill: #8250df22; stroke: #8250df; stroke-dasharray: 4 3 } .joint .given { fill: none; stroke: #888 }"
    " .joint path { fill: none; stroke: #888 } .joint .kept { stroke: #c06a00; stroke-width: 2 }"
    " .joint .tip { fill: #c06a00; stroke: none } .joint .cut { stroke-dasharray: 6 4; stroke-width: 1.5 }"
)


@dataclass(frozen=True)
class Halves:
    """Both graphs; `saved` are the tensors saved for backward, `again` the nodes that backward recomputes."""

    forward: PrintedGraph
    backward: PrintedGraph
    saved: tuple[str, ...]
    again: tuple[str, ...]


def halves(recording: Recording, graph: int = 0) -> Halves | None:
    """The two halves of a graph; None if there is no backward."""
    artifacts = recording.of(ev.ArtifactEmitted)
    name = list(dict.fromkeys(artifact.graph for artifact in artifacts))[graph : graph + 1]
    texts = {artifact.stage: artifact.text for artifact in artifacts if [artifact.graph] == name and artifact.part == "graph"}
    if not {"forward", "backward"} <= set(texts):
        return None
    forward, backward = PrintedGraph(texts["forward"]), PrintedGraph(texts["backward"])
    saved = [name for name in backward.inputs if not name.startswith("tangents")]
    again = [node for node in backward.reads if node in forward.reads]
    return Halves(forward, backward, tuple(saved), tuple(again))


def joint_text(recording: Recording, graph: int = 0) -> str:
    """The picture as text."""
    graph_halves = halves(recording, graph)
    if graph_halves is None:
        return NOTHING
    recomputed = f" ({', '.join(graph_halves.again)} recomputed)" if graph_halves.again else ""
    return (
        f"forward: {', '.join(graph_halves.forward.reads)}\nsaved for backward: {_saved_words(graph_halves)}\n"
        f"backward: {', '.join(graph_halves.backward.reads)}{recomputed}"
    )


def _saved_words(graph_halves: Halves) -> str:
    sizes = [graph_halves.backward.bytes[name] for name in graph_halves.saved if name in graph_halves.backward.bytes]
    total = f" ({bytes_text(sum(sizes))})" if len(sizes) == len(graph_halves.saved) and sizes else ""
    return f"{', '.join(graph_halves.saved) or 'nothing'}{total}"


def joint_picture(recording: Recording, graph: int = 0) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    graph_halves = halves(recording, graph)
    if graph_halves is None:
        return f"<p>{NOTHING}</p>"
    down = [*graph_halves.forward.inputs, *graph_halves.forward.reads]
    up = [*(name for name in graph_halves.backward.inputs if name not in graph_halves.saved), *graph_halves.backward.reads]
    rows = max(len(down), len(up))
    height = TOP + ROW * rows + 6
    left = {name: TOP + ROW * place for place, name in enumerate(down)}
    right = {name: TOP + ROW * (rows - 1 - place) for place, name in enumerate(up)}
    drawn = [
        *_column(graph_halves.forward, left, LEFT, graph_halves),
        *_column(graph_halves.backward, right, RIGHT, graph_halves),
        *_crossing(graph_halves, left, right),
    ]
    return labelled("joint", joint_text(recording, graph), _STYLE, (WIDTH, height), [*_heads(graph_halves, height), *drawn])


def _heads(graph_halves: Halves, height: int) -> Iterator[str]:
    saved = f"the cut: {plural(len(graph_halves.saved), 'tensor')} saved"
    for x, words in ((LEFT + BOX // 2, "forward, downwards"), (CUT, saved), (RIGHT + BOX // 2, "backward, upwards")):
        yield f'<text class="head" x="{x}" y="16" text-anchor="middle">{words}</text>'
    yield f'<path class="cut" d="M{CUT} 24 V{height - 2}"/>'


def _column(graph: PrintedGraph, tops: dict[str, int], x: int, graph_halves: Halves) -> Iterator[str]:
    """The boxes of one half, and a line from each to its users."""
    is_forward = graph is graph_halves.forward
    for name, top in tops.items():
        kind = (
            "given"
            if name not in graph.reads
            else "forward"
            if is_forward
            else "again"
            if name in graph_halves.again
            else "backward"
        )
        words = escape(fitting(f"{name} (recomputed)" if kind == "again" else name, LETTERS))
        yield f'<rect class="{kind}" x="{x}" y="{top}" width="{BOX}" height="{HIGH}" rx="5"/>'
        yield f'<text class="code" x="{x + BOX // 2}" y="{top + 16}" text-anchor="middle">{words}</text>'
    makers = {part: node for node in graph.reads for part in graph.results_of(node)}
    for node, read in graph.reads.items():
        for name in dict.fromkeys(makers.get(input_name, input_name) for input_name in read):
            if name in tops:
                yield _line(tops[name], tops[node], x if is_forward else x + BOX, -1 if is_forward else 1, is_forward)


def _line(source: int, target: int, edge: int, side: int, is_down: bool) -> str:
    """A straight line to the next box, an arc along the column's outer edge to others."""
    if abs(source - target) == ROW:
        middle = edge - side * BOX // 2
        start, end = (source + HIGH, target) if is_down else (source, target + HIGH)
        return f'<path d="M{middle} {start} V{end}"/>'
    bow = edge + side * min(12 + 8 * (abs(source - target) // ROW), 72)
    start, end = source + HIGH // 2, target + HIGH // 2
    return f'<path d="M{edge} {start} C{bow} {start} {bow} {end} {edge} {end}"/>'


def _crossing(graph_halves: Halves, left: dict[str, int], right: dict[str, int]) -> Iterator[str]:
    """The saved tensors: lines from the nodes that compute them to their users."""
    makers = {part: node for node in graph_halves.forward.reads for part in graph_halves.forward.results_of(node)}
    for name in graph_halves.saved:
        start = left.get(makers.get(name, name), TOP) + HIGH // 2
        readers: Sequence[str] = [node for node, read in graph_halves.backward.reads.items() if name in read]
        for node in readers:
            end = right[node] + HIGH // 2
            yield f'<path class="kept" d="M{LEFT + BOX} {start} C{CUT} {start} {CUT} {end} {RIGHT - 7} {end}"/>'
            yield f'<path class="tip" d="M{RIGHT - 1} {end} l-8 -4 v8 z"/>'
