"""A picture of a graph's memory: live bytes over its nodes as a step line, with the peak, and tensors saved for backward shaded.

The idea: a line over the nodes shows at once where memory peaks. Inputs and parameters, which are live throughout, are the base
of the line; if the graph has forward and backward, a bar separates them. The explorer draws the same picture from the same
data, and adds the values at the pointer and at the current step.

In: the memory of a recording (`recording.memory`). Out: `html(memory)` for a notebook; `memory_data(recording)` for the
explorer; `picture(graph)`, an SVG. PyTorch's counterpart: https://pytorch.org/memory_viz, which draws the allocator's history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynexplore.recording.memory import GraphMemory, Memory, at_most, bytes_text, short, with_size
from dynexplore.recording.recording import Recording
from dynexplore.views import html_report
from dynexplore.views.counts import plural
from dynexplore.views.html_text import escape

Plain = dict[str, Any]

WIDTH, HEIGHT = 720, 172
LEFT_EDGE, RIGHT, TOP, BOTTOM = 8, 8, 20, 34
_LETTER = 6
"""The picture's size in its own units, and the margins around the line; the explorer's pane reads them from `memory_data`."""

_STYLE = (
    "svg.mem { max-width: 100%; height: auto; font: 11px system-ui, sans-serif } .mem text { fill: currentColor }"
    " .mem .live { fill: none; stroke: #0b63c5; stroke-width: 1.5 } .mem .inputs { fill: #8884 } .mem .kept { fill: #e08a0055 }"
    " .mem .inside { fill: none; stroke: #d1242f }"
    " .mem .axis, .mem .divide { stroke: #888; fill: none } .mem .divide { stroke-dasharray: 4 3 } .mem .peak { fill: #d1242f }"
)


def html(memory: Memory) -> str:
    """Return the pictures of all graphs, each with its summary and the tensors saved for backward."""
    parts = [f"<style>{_STYLE}</style>"]
    for graph in memory:
        parts.append(html_report.line(f"Memory of {graph.graph}: {'; '.join(graph.lines())}"))
        parts.append(picture(graph) if graph.nodes else "")
        parts.append(html_report.rows(("saved for backward", "bytes", ""), saved_rows(graph)) if graph.saved else "")
    return html_report.report(*parts) if memory.graphs else html_report.report(html_report.line(str(memory)))


def saved_rows(graph: GraphMemory) -> list[tuple[str, str, str]]:
    """The tensors saved for backward, the largest first."""
    storages = sorted(graph.saved, key=lambda storage: -storage.bytes)
    words = {True: "an input or a parameter: there anyway", False: ""}
    return [(storage.name, with_size(storage.bytes, storage.size), words[storage.is_input]) for storage in storages]


def picture(graph: GraphMemory) -> str:
    """Return the picture as an SVG element. The embedding page styles its classes; all of its texts are escaped."""
    live = [node.live for node in graph.nodes]
    most = [at_most(node) for node in graph.nodes]
    peak = graph.peak
    if peak is None:
        return ""
    ground = _ground(graph, peak.bytes)
    scale = _Scale(len(live), max(peak.bytes, 1), ground)
    shapes = [scale.area("inputs", [graph.inputs] * len(live), 0)]
    if graph.saved:
        shapes.append(scale.area("kept", [graph.inputs + node.saved for node in graph.nodes], graph.inputs))
    if most != live:
        shapes.append(f'<path class="inside" d="{scale.line(most)}"/>')
    shapes.append(f'<path class="live" d="{scale.line(live)}"/>')
    shapes.append(f'<path class="axis" d="M{LEFT_EDGE} {scale.y(0):g}H{WIDTH - RIGHT}"/>')
    if ground:
        shapes.append(f'<text x="{LEFT_EDGE}" y="{HEIGHT - 5}">from {bytes_text(ground)} up</text>')
    shapes += _halves(graph, scale)
    at = most.index(peak.bytes)
    shapes.append(f'<ellipse class="peak" cx="{scale.x(at + 0.5):g}" cy="{scale.y(peak.bytes):g}" rx="4" ry="4"/>')
    words = f"{bytes_text(peak.bytes)} at {peak.place}"
    half = len(words) * _LETTER / 2
    x = min(max(scale.x(at + 0.5), LEFT_EDGE + half), WIDTH - RIGHT - half)
    shapes.append(f'<text class="said" x="{x:g}" y="{TOP - 8:g}" text-anchor="middle">{escape(words)}</text>')
    shapes += _legend(graph)
    title = f"{graph.graph}: {'; '.join(graph.lines())}"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    named = f'role="img" aria-label="{escape(title)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="mem" {size} {named}>{"".join(shapes)}</svg>'


def _ground(graph: GraphMemory, most: int) -> int:
    """The lower end of the axis: zero, unless parameters would leave no room for the variation above them."""
    comes_and_goes = most - graph.inputs
    return graph.inputs - comes_and_goes // 2 if 0 < 4 * comes_and_goes < graph.inputs else 0


def _legend(graph: GraphMemory) -> list[str]:
    """The legend of the shades and the thin line."""
    shapes, x = [], WIDTH - RIGHT
    for name, words, is_drawn in (
        ("inside", "only while an operator runs", any(node.inside for node in graph.nodes)),
        ("kept", "saved for backward", bool(graph.saved)),
        ("inputs", "inputs and parameters", True),
    ):
        if is_drawn:
            shapes.append(f'<text x="{x}" y="{HEIGHT - 5}" text-anchor="end">{words}</text>')
            x -= len(words) * _LETTER + 16
            shapes.append(f'<rect class="{name}" x="{x}" y="{HEIGHT - 14}" width="10" height="10"/>')
            x -= 12
    return shapes


def _halves(graph: GraphMemory, scale: _Scale) -> list[str]:
    """The bar between forward and backward, and their names."""
    if len(graph.stages) < 2:
        return []
    at, shapes = 0, []
    for stage in graph.stages:
        words = f"{stage.stage}, {plural(len(stage.nodes), 'node')}"
        shapes.append(f'<text x="{scale.x(at) + 3:g}" y="{HEIGHT - BOTTOM + 13}">{words}</text>')
        if at:
            shapes.append(f'<path class="divide" d="M{scale.x(at):g} {TOP}V{HEIGHT - BOTTOM + 14}"/>')
        at += len(stage.nodes)
    return shapes


class _Scale:
    """Coordinates: nodes from left to right, bytes from bottom to top; values below the base are drawn at the base."""

    def __init__(self, nodes: int, most: int, ground: int) -> None:
        self.step = (WIDTH - LEFT_EDGE - RIGHT) / max(nodes, 1)
        self.most, self.ground = most, ground

    def x(self, at: float) -> float:
        return round(LEFT_EDGE + at * self.step, 1)

    def y(self, count: int) -> float:
        part = max(count - self.ground, 0) / (self.most - self.ground)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 1)

    def line(self, counts: Sequence[int]) -> str:
        """A step line over the nodes; runs of equal values are merged."""
        path, last = "", None
        for at, count in enumerate(counts):
            if count != last:
                path += f"H{self.x(at):g}V{self.y(count):g}" if path else f"M{self.x(at):g} {self.y(count):g}"
            last = count
        return f"{path}H{self.x(len(counts)):g}"

    def area(self, name: str, counts: Sequence[int], ground: int) -> str:
        return f'<path class="{name}" d="{self.line(counts)}V{self.y(ground):g}H{LEFT_EDGE}Z"/>'


# -- for the explorer --------------------------------------------------------------------------------------------------


def memory_data(recording: Recording) -> list[Plain]:
    """For each graph its picture, its summary, the saved tensors, and a row per node."""
    return [_graph(graph) for graph in recording.memory if graph.nodes]


def _graph(graph: GraphMemory) -> Plain:
    rows = [
        {
            "name": node.name,
            "op": short(node.op),
            "stage": stage.stage,
            "live": with_size(node.live, node.size),
            "made": bytes_text(node.allocated) if node.allocated else "",
            "inside": bytes_text(node.inside) if node.inside else "",
            "place": node.place,
        }
        for stage in graph.stages
        for node in stage.nodes
    ]
    most = [at_most(node) for node in graph.nodes]
    edges = {"left": LEFT_EDGE, "right": RIGHT, "width": WIDTH, "top": TOP, "bottom": HEIGHT - BOTTOM}
    saved = [{"name": name, "bytes": size, "what": remark} for name, size, remark in saved_rows(graph)]
    return {
        "graph": graph.graph,
        "frame": graph.frame,
        "lines": list(graph.lines()),
        "picture": picture(graph),
        "edges": edges,
        "peak": most.index(max(most)),
        "rows": rows,
        "kept": saved,
    }
