"""Graphs as SVG: drawn by the `dot` program if it is installed, else by a simple layered layout.

The idea: a picture must not depend on a program that may be missing. graphviz is used if available, because it draws better,
and the fallback has no dependencies: a node is placed one layer below the lowest of its inputs, ordered by the mean position of
its inputs. Both keep the ids of dot.py, so that a click can be mapped to the node, and the background of the page.

In: the graphs of a recording. Out: `svg(graphs)`, one document with all graphs; `drawing(graph)` of one; `labelled`, the SVG
element of the other pictures in this package. PyTorch's counterpart: torch/fx/passes/graph_drawer.py, which needs pydot and the
program.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dynexplore.recording.recording import GraphView
from dynexplore.views import groups
from dynexplore.views.dot import COLOURS, OTHER, dot
from dynexplore.views.html_text import escape
from dynexplore.views.packages import MissingPackage

LONGEST_SECONDS = 60
"""The time limit of the program; a graph that takes longer is drawn by the fallback."""

_LETTER, _LINE, _PADDING = 6.6, 14, 8
_BETWEEN, _BELOW, _TITLE = 16, 34, 24

_STYLE = """
.title, .plain text { font: 11px Courier, monospace; fill: #111827; } .title.title { font-weight: bold; fill: #64748b; }
.plain path { fill: none; stroke: #64748b; } .plain rect { stroke: #64748b; }
.plain .flow { font-size: 9px; fill: #64748b; text-anchor: middle; }
""".strip()


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn graph: the content of its svg element, and its size in pixels."""

    body: str
    width: float
    height: float


def svg(graphs: Sequence[GraphView], *, note: str = "") -> str:
    """Return one SVG document of the graphs, each with its name as heading; `note` is its description.

    >>> svg([], note="no graph").splitlines()[1][-23:]
    '"><desc>no graph</desc>'
    """
    drawn = list(zip((graph.name for graph in graphs), drawings([(graph, (), {}) for graph in graphs]), strict=True))
    width = max((drawing.width for _, drawing in drawn), default=0)
    parts, top = [], 0.0
    for name, drawing in drawn:
        title = f'<text class="title" x="{_PADDING}" y="16">{_escaped(name)}</text>'
        inner = f'<svg y="{_TITLE}" width="{drawing.width:g}" height="{drawing.height:g}" {drawing.body}</svg>'
        parts.append(f'<g transform="translate(0 {top:g})">{title}{inner}</g>')
        top += drawing.height + 2 * _TITLE
    size = f'width="{width:g}" height="{top:g}" viewBox="0 0 {width:g} {top:g}"'
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<svg {names} {size}><desc>{_escaped(note)}</desc>'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def labelled(name: str, words: str, style: str, size: tuple[int, int], drawn: Iterable[str]) -> str:
    """Return a picture as an SVG element of class `name` with its style; `words` are its label for screen readers.

    >>> labelled("dot", "a dot", "", (2, 2), ['<path d="M0 0h1"/>'])[:52]
    '<svg class="dot" role="img" aria-label="a dot" viewB'
    """
    label = escape(words.replace("\n", "; "))
    width, height = size
    return (
        f'<svg class="{name}" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}"><style>{style}</style>{"".join(drawn)}</svg>'
    )


def fitting(text: str, letters: int) -> str:
    """The text, cut to this many characters.

    >>> fitting("BINARY_OP", 7)
    'BINARY…'
    """
    return text if len(text) <= letters else text[: letters - 1] + "…"


DrawingRequest = tuple[GraphView, Collection[str], Mapping[str, str]]
"""A graph, its collapsed groups, and the program's names of its inputs."""


def drawing(graph: GraphView, closed: Collection[str] = (), inputs: Mapping[str, str] | None = None) -> Drawing:
    """Draw one graph, by the program or by the fallback; the groups whose paths are `closed` are one box each."""
    (drawn,) = drawings([(graph, closed, inputs or {})])
    return drawn


def drawings(requests: Sequence[DrawingRequest], *, across: bool = False) -> list[Drawing]:
    """Draw several graphs, each with its collapsed groups: the program is started once, which dominates the time of small graphs.

    `across`: from left to right if the program draws them, for wide and low places.
    """
    drawn = _by_program(requests, across)
    if drawn is not None:
        return drawn
    if len(requests) == 1:
        return [_in_layers(*requests[0])]
    # if the program cannot draw one, it can still draw the others
    return [drawing for each in requests for drawing in drawings([each], across=across)]


# -- by graphviz -------------------------------------------------------------------------------------------------------

_OUTER = re.compile(r'<svg width="([\d.]+)pt" height="([\d.]+)pt"\s+(viewBox="[^"]*")[^>]*>(.*?)</svg>', re.DOTALL)

_PAGE = re.compile(r'id="page\d+,\d+_graph\d+"')
"""The id of later graphs in the program's output; a drawing must not depend on those before it."""


def _by_program(requests: Sequence[DrawingRequest], across: bool) -> list[Drawing] | None:
    program = shutil.which("dot")
    if program is None or not requests:
        return None
    try:
        text = "".join(
            dot(graph.nodes, name=graph.name, horizontal=across, closed=closed, piece_of=graph.piece_of, inputs=inputs)
            for graph, closed, inputs in requests
        )
        done = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError, MissingPackage):
        return None  # it does not work, or the package for its input is missing: treat it as not installed
    pictures = _OUTER.findall(_PAGE.sub('id="graph0"', done.stdout))
    if len(pictures) != len(requests):
        return None
    # points to pixels
    return [Drawing(f"{box}>{body}", float(width) * 4 / 3, float(height) * 4 / 3) for width, height, box, body in pictures]


# -- the layered fallback ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Box:
    content: groups.Box
    inputs: dict[str, str]  # its operands, and the label of each edge
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.content.lines)) * _LETTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.content.lines) * _LINE + _PADDING

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def _in_layers(graph: GraphView, closed: Collection[str], inputs: Mapping[str, str]) -> Drawing:
    shown, arrows = groups.drawn(groups.grouped(graph.nodes), closed, graph.piece_of, inputs)
    order = {node.name: number for number, node in enumerate(graph.nodes)}
    boxes = {name: _Box(shown[name], {}) for name in sorted(shown, key=lambda name: order.get(name, shown[name].first))}
    for source, target, flow in arrows:
        if source in boxes:
            boxes[target].inputs[source] = flow
    top, width = 4.0, 0.0
    for layer in _layers(boxes):
        _place(layer, boxes, top)
        width = max(width, layer[-1].x + layer[-1].width)
        top += max(box.height for box in layer) + _BELOW
    edges = [_edge(boxes[source], box, flow) for box in boxes.values() for source, flow in box.inputs.items()]
    body = "".join([*edges, *map(_drawn, boxes.values())])
    width, height = width + 4, max(top - _BELOW + 4, 0)
    return Drawing(f'viewBox="0 0 {width:g} {height:g}" class="plain">{body}', width, height)


def _layers(boxes: dict[str, _Box]) -> list[list[_Box]]:
    """The boxes by depth: a node is below all of its inputs; nodes are ordered topologically."""
    depth: dict[str, int] = {}
    layers: list[list[_Box]] = []
    for name, box in boxes.items():
        depth[name] = max((depth[source] + 1 for source in box.inputs if source in depth), default=0)
        layers += [[] for _ in range(depth[name] + 1 - len(layers))]
        layers[depth[name]].append(box)
    return layers


def _place(layer: list[_Box], boxes: dict[str, _Box], top: float) -> None:
    """Place boxes from left to right, each as close to the mean position of its inputs as its neighbor allows."""

    def target_x(box: _Box) -> float:
        inputs = [boxes[source].middle for source in box.inputs]
        return sum(inputs) / len(inputs) if inputs else 0.0

    layer.sort(key=target_x)
    free = 4.0
    for box in layer:
        box.x, box.y = max(free, target_x(box) - box.width / 2), top
        free = box.x + box.width + _BETWEEN


def _edge(source: _Box, target: _Box, flow: str) -> str:
    """A curve, with its label just above its end, where few other edges are."""
    start, end = source.y + source.height, target.y
    start_x, end_x, half = source.middle, target.middle, (start + end) / 2
    path = f"M{start_x:g} {start:g}C{start_x:g} {half:g} {end_x:g} {half:g} {end_x:g} {end:g}"
    drawn = f'<path id="edge-{_escaped(source.content.name)}-{_escaped(target.content.name)}" d="{path}"/>'
    label = f'<text class="flow" x="{(start_x + 3 * end_x) / 4:g}" y="{end - 6:g}">{_escaped(flow)}</text>' if flow else ""
    return drawn + label


def _drawn(box: _Box) -> str:
    size = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="5"'
    fill = COLOURS.get(box.content.kind, OTHER)
    lines = "".join(
        f'<text x="{box.x + _PADDING:g}" y="{box.y + _LINE * (number + 1):g}">{_escaped(line)}</text>'
        for number, line in enumerate(box.content.lines)
    )
    name = _escaped(box.content.name)
    kind, ident = _escaped(box.content.kind), _escaped(box.content.ident)
    return f'<g id="{ident}" class="node {kind}"><title>{name}</title><rect {size} fill="{fill}"/>{lines}</g>'


def _escaped(text: str) -> str:
    return html.escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
