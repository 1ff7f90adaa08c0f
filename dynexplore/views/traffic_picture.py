"""A picture of fusion: reads and writes of single operators on the left, those of the fused kernels on the right.

The idea: memory is a bar at either edge, and each arrow is a whole tensor that is read or written. Between the bars are the
operators, and beside them the kernels that contain them; a value inside a kernel has no arrow. So a well-fused graph has few
arrows on the right.

In: a recording of `inductor_artifacts`. Out: `traffic_picture(recording)`, an SVG per graph; `traffic_text(recording)`, the
same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynexplore.recording.memory import bytes_text
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.html_text import escape
from dynexplore.views.svg import fitting, labelled
from dynexplore.views.traffic import Step, Traffic, traffic

WIDTH, TOP, ARROW, GAP = 760, 46, 17, 9
"""The width of the picture, the height of its header, that of one arrow, and the gap between two boxes."""

LEFT_BOX, RIGHT_BOX, BOX, BAR = 166, 402, 192, 14
"""The left edges of the boxes of operators and of kernels, the width of a box, and of the memory bars."""

_LETTERS = 15
_STYLE = (
    "svg.traffic { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .traffic text { fill: currentColor }"
    " .traffic .code { font-family: monospace; font-size: 11px } .traffic .head { font-weight: 600 }"
    " .traffic .memory { fill: #8885 } .traffic .operator { fill: #8881; stroke: #888 }"
    " .traffic .kernel { fill: #1a7f3722; stroke: #1a7f37; stroke-width: 1.5 }"
    " .traffic path { fill: none; stroke-width: 1.5 } .traffic .read { stroke: #0b63c5 } .traffic .write { stroke: #d1242f }"
    " .traffic .read-tip { fill: #0b63c5; stroke: none } .traffic .write-tip { fill: #d1242f; stroke: none }"
)

NOTHING = "No kernels: Inductor generated none, or their diagram was not recorded."


def traffic_text(recording: Recording, stage: str = "forward") -> str:
    """The pictures as text: for each graph a line per operator, and one per kernel."""
    return "\n".join(map(_words, traffic(recording, stage))) or NOTHING


def _words(graph_traffic: Traffic) -> str:
    lines = [f"one operator at a time: {_sums(graph_traffic, graph_traffic.operators)}", *map(_line, graph_traffic.operators)]
    lines.append(f"{plural(len(graph_traffic.kernels), 'kernel')}: {_sums(graph_traffic, graph_traffic.kernels)}")
    return "\n".join(lines + [_line(step, number) for number, step in enumerate(graph_traffic.kernels, start=1)])


def _line(step: Step, number: int = 0) -> str:
    name = f"kernel {number} ({', '.join(step.nodes)})" if number else step.name
    return f"  {name} reads {', '.join(step.reads) or 'nothing'}; writes {', '.join(step.writes) or 'nothing'}"


def _sums(graph_traffic: Traffic, steps: Sequence[Step]) -> str:
    """The number of tensors and bytes: `2 reads, 1 write, 3.0 MiB`."""
    reads, writes = (sum(map(len, each)) for each in ([s.reads for s in steps], [s.writes for s in steps]))
    moved = graph_traffic.moved(steps)
    counted = f"{plural(reads, 'read')}, {plural(writes, 'write')}"
    return counted if moved is None else f"{counted}, {bytes_text(moved)}"


def traffic_picture(recording: Recording, stage: str = "forward") -> str:
    """Return an SVG element per graph, with its style; its label for screen readers contains the same text."""
    return "".join(map(_picture, traffic(recording, stage))) or f"<p>{NOTHING}</p>"


def _picture(graph_traffic: Traffic) -> str:
    drawn, bottom = _rows(graph_traffic)
    size = f'y="{TOP - 6}" width="{BAR}" height="{bottom - TOP + 6}"'
    bars = "".join(f'<rect class="memory" x="{x}" {size} rx="3"/>' for x in (2, WIDTH - BAR - 2))
    return labelled("traffic", _words(graph_traffic), _STYLE, (WIDTH, bottom + 4), [*_head(graph_traffic), bars, *drawn])


def _head(graph_traffic: Traffic) -> Iterator[str]:
    for x, anchor, title, steps in (
        (2, "start", "memory", ()),
        (LEFT_BOX, "start", "one operator at a time", graph_traffic.operators),
        (RIGHT_BOX, "start", f"Inductor: {plural(len(graph_traffic.kernels), 'kernel')}", graph_traffic.kernels),
        (WIDTH - 2, "end", "memory", ()),
    ):
        yield f'<text class="head" x="{x}" y="14" text-anchor="{anchor}">{title}</text>'
        yield f'<text x="{x}" y="30">{_sums(graph_traffic, steps)}</text>' if steps else ""


def _rows(graph_traffic: Traffic) -> tuple[list[str], int]:
    """Each kernel beside the operators that it contains first; and the end of the last one."""
    steps = {step.name: step for step in graph_traffic.operators}
    drawn: list[str] = []
    top, waiting = TOP, dict(steps)
    for number, kernel in enumerate(graph_traffic.kernels, start=1):
        own = [waiting.pop(node) for node in kernel.nodes if node in waiting]
        below = top
        for step in own:
            drawn.append(_operator(step, graph_traffic.order[step.name], below))
            below += _height(step) + GAP
        bottom = max(below - GAP, top + _height(kernel))
        drawn.append(_kernel(kernel, number, top, bottom - top))
        top = bottom + 2 * GAP
    for step in waiting.values():
        drawn.append(_operator(step, graph_traffic.order[step.name], top))
        top += _height(step) + GAP
    return drawn, top - GAP


def _height(step: Step) -> int:
    return max(ARROW * (len(step.reads) + len(step.writes)) + 4, 38 if len(step.nodes) > 1 else 24)


def _operator(step: Step, place: int, top: int) -> str:
    height = _height(step)
    return (
        f'<rect class="operator" x="{LEFT_BOX}" y="{top}" width="{BOX}" height="{height}" rx="5"/>'
        f'<text class="code" x="{LEFT_BOX + 10}" y="{top + height / 2 + 4:g}">{place}  {escape(fitting(step.name, 22))}</text>'
        f"{''.join(_arrows(step, BAR + 4, LEFT_BOX, top + 2))}"
    )


def _kernel(step: Step, number: int, top: int, height: int) -> str:
    words = escape(fitting(", ".join(step.nodes), 26))
    middle = top + height / 2
    return (
        f'<rect class="kernel" x="{RIGHT_BOX}" y="{top}" width="{BOX}" height="{height}" rx="5"/>'
        f'<text class="head" x="{RIGHT_BOX + 10}" y="{middle - 3:g}">kernel {number}</text>'
        f'<text class="code" x="{RIGHT_BOX + 10}" y="{middle + 12:g}">{words}</text>'
        f"{''.join(_arrows(step, WIDTH - BAR - 4, RIGHT_BOX + BOX, top + (height - _arrows_height(step)) // 2))}"
    )


def _arrows_height(step: Step) -> int:
    return ARROW * (len(step.reads) + len(step.writes))


def _arrows(step: Step, memory: int, box: int, top: int) -> Iterator[str]:
    """Arrows from memory to the box for each read, from the box to memory for each write, with the tensor's name."""
    ends = [("read", name, memory, box) for name in step.reads] + [("write", name, box, memory) for name in step.writes]
    for number, (kind, name, start, end) in enumerate(ends):
        y = top + ARROW * number + 13
        back = 7 if end > start else -7
        yield f'<path class="{kind}" d="M{start} {y} H{end - back}"/>'
        yield f'<path class="{kind}-tip" d="M{end} {y} l{-back} -4 v8 z"/>'
        words = escape(fitting(name, _LETTERS))
        yield f'<text class="code" x="{(memory + box) // 2}" y="{y - 3}" text-anchor="middle">{words}</text>'
