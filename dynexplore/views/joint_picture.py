"""Training's two halves as a picture: forward on the left going down, backward on the right coming up, and what is kept between.

Which idea lives here: AOTAutograd writes forward and backward down as one graph, the joint graph, and a partitioner cuts it in two.
What backward needs of forward crosses the cut and is kept in memory until backward runs. So the picture is the joint graph with the
cut down its middle, and each arrow across it is a use of a tensor that is kept. What backward computes once more, instead of
having it kept, is marked.

In:  a recording of `inductor_artifacts`: the texts of the forward and the backward graph.
Out: `halves(recording)`, both graphs and what is kept; `joint_picture(recording)`, one SVG; `joint_text(recording)`, the same in
     words.

PyTorch's counterpart: torch/_functorch/partitioners.py draws the joint graph with pydot where it is told to.
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
"""The picture's width, a box's width and height, the height of a row, and that of the head."""

LEFT, RIGHT, CUT = 80, WIDTH - 80 - 170, WIDTH // 2
"""Where the boxes of both halves begin, and where the cut is."""

LETTERS = 24
"""How many letters of a name fit into a box."""

NOTHING = "No backward: nothing needs a gradient, or the graphs of AOTAutograd were not kept."

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
    """Both graphs; `kept` are the tensors that backward takes over from forward, `again` the nodes that it computes once more."""

    forward: PrintedGraph
    backward: PrintedGraph
    kept: tuple[str, ...]
    again: tuple[str, ...]


def halves(recording: Recording, graph: int = 0) -> Halves | None:
    """The two halves of a graph; None where there is no backward."""
    made = recording.of(ev.ArtifactMade)
    name = list(dict.fromkeys(one.graph for one in made))[graph : graph + 1]
    texts = {one.stage: one.text for one in made if [one.graph] == name and one.part == "graph"}
    if not {"forward", "backward"} <= set(texts):
        return None
    forward, backward = PrintedGraph(texts["forward"]), PrintedGraph(texts["backward"])
    kept = [name for name in backward.inputs if not name.startswith("tangents")]
    again = [node for node in backward.reads if node in forward.reads]
    return Halves(forward, backward, tuple(kept), tuple(again))


def joint_text(recording: Recording, graph: int = 0) -> str:
    """The picture in words."""
    both = halves(recording, graph)
    if both is None:
        return NOTHING
    once_more = f" ({', '.join(both.again)} once more)" if both.again else ""
    return (
        f"forward: {', '.join(both.forward.reads)}\nkept for backward: {_kept_words(both)}\n"
        f"backward: {', '.join(both.backward.reads)}{once_more}"
    )


def _kept_words(both: Halves) -> str:
    sizes = [both.backward.bytes[name] for name in both.kept if name in both.backward.bytes]
    total = f" ({bytes_text(sum(sizes))})" if len(sizes) == len(both.kept) and sizes else ""
    return f"{', '.join(both.kept) or 'nothing'}{total}"


def joint_picture(recording: Recording, graph: int = 0) -> str:
    """Return the picture as an SVG element with its style; for those who do not see it, its label says the same in words."""
    both = halves(recording, graph)
    if both is None:
        return f"<p>{NOTHING}</p>"
    down = [*both.forward.inputs, *both.forward.reads]
    up = [*(name for name in both.backward.inputs if name not in both.kept), *both.backward.reads]
    rows = max(len(down), len(up))
    height = TOP + ROW * rows + 6
    left = {name: TOP + ROW * place for place, name in enumerate(down)}
    right = {name: TOP + ROW * (rows - 1 - place) for place, name in enumerate(up)}
    drawn = [*_column(both.forward, left, LEFT, both), *_column(both.backward, right, RIGHT, both), *_crossing(both, left, right)]
    return labelled("joint", joint_text(recording, graph), _STYLE, (WIDTH, height), [*_heads(both, height), *drawn])


def _heads(both: Halves, height: int) -> Iterator[str]:
    kept = f"the cut: {plural(len(both.kept), 'tensor')} kept"
    for x, words in ((LEFT + BOX // 2, "forward, downwards"), (CUT, kept), (RIGHT + BOX // 2, "backward, upwards")):
        yield f'<text class="head" x="{x}" y="16" text-anchor="middle">{words}</text>'
    yield f'<path class="cut" d="M{CUT} 24 V{height - 2}"/>'


def _column(graph: PrintedGraph, tops: dict[str, int], left: int, both: Halves) -> Iterator[str]:
    """The boxes of one half, and a line from each to those that read it."""
    is_forward = graph is both.forward
    for name, top in tops.items():
        kind = "given" if name not in graph.reads else "forward" if is_forward else "again" if name in both.again else "backward"
        words = escape(fitting(f"{name} (once more)" if kind == "again" else name, LETTERS))
        yield f'<rect class="{kind}" x="{left}" y="{top}" width="{BOX}" height="{HIGH}" rx="5"/>'
        yield f'<text class="code" x="{left + BOX // 2}" y="{top + 16}" text-anchor="middle">{words}</text>'
    makers = {part: node for node in graph.reads for part in graph.results_of(node)}
    for node, read in graph.reads.items():
        for name in dict.fromkeys(makers.get(one, one) for one in read):
            if name in tops:
                yield _line(tops[name], tops[node], left if is_forward else left + BOX, -1 if is_forward else 1, is_forward)


def _line(source: int, target: int, edge: int, side: int, is_down: bool) -> str:
    """Straight to the next box, in a bow at the column's outer edge to those further away."""
    if abs(source - target) == ROW:
        middle = edge - side * BOX // 2
        start, end = (source + HIGH, target) if is_down else (source, target + HIGH)
        return f'<path d="M{middle} {start} V{end}"/>'
    bow = edge + side * min(12 + 8 * (abs(source - target) // ROW), 72)
    start, end = source + HIGH // 2, target + HIGH // 2
    return f'<path d="M{edge} {start} C{bow} {start} {bow} {end} {edge} {end}"/>'


def _crossing(both: Halves, left: dict[str, int], right: dict[str, int]) -> Iterator[str]:
    """What is kept, from where it was made to those that read it."""
    makers = {part: node for node in both.forward.reads for part in both.forward.results_of(node)}
    for name in both.kept:
        start = left.get(makers.get(name, name), TOP) + HIGH // 2
        readers: Sequence[str] = [node for node, read in both.backward.reads.items() if name in read]
        for node in readers:
            end = right[node] + HIGH // 2
            yield f'<path class="kept" d="M{LEFT + BOX} {start} C{CUT} {start} {CUT} {end} {RIGHT - 7} {end}"/>'
            yield f'<path class="tip" d="M{RIGHT - 1} {end} l-8 -4 v8 z"/>'
