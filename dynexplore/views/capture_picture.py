"""A picture of bytecode capture: each instruction, the stack after it, and the node that it added to the graph.

The idea: capture is symbolic interpretation. The instructions are executed one by one, as CPython does it, but on symbolic
values; most of them only move values, and those that compute add a node. Read downwards, the left side is the program, the
right side the growing graph.

In: a recording. Out: `steps_and_nodes(recording)`, the steps of its first frame; `capture_picture(recording)`, an SVG;
`capture_text(recording)`, the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.html_text import escape
from dynexplore.views.svg import fitting, labelled

WIDTH, STACK, GRAPH, BOX, ROW, TOP = 720, 176, 430, 286, 32, 30
"""The width, the positions of the stack and the graph, the width of a node's box, the height of a row, and that of the headers."""

_IN_STEP, _IN_STACK, _IN_NODE = 24, 34, 40
"""The most characters of an instruction, a stack and a node."""

_STYLE = (
    "svg.capture { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .capture text { fill: currentColor }"
    " .capture .code { font-family: monospace; font-size: 11px } .capture .head { font-weight: 600 }"
    " .capture rect { fill: #0b63c522; stroke: #0b63c5; stroke-width: 1.5 } .capture .rule { stroke: #8884; stroke-width: 1 }"
    " .capture .arrow { stroke: #888; stroke-width: 1.5 } .capture .tip { fill: #888; stroke: none }"
)


@dataclass(frozen=True)
class Step:
    """One instruction, the stack after it (the top last), and the nodes that it added; nearly always none or one."""

    instruction: str
    stack: tuple[str, ...]
    nodes: tuple[str, ...]


def steps_and_nodes(recording: Recording) -> list[Step]:
    """The steps of the first frame that has a graph, in order. The output node belongs to the last step."""
    graph = next(iter(recording.graphs), None)
    if graph is None:
        return []
    final_nodes = {node.name: node for node in graph.nodes}
    steps: list[Step] = []
    waiting: list[str] = []
    for event in (candidate for candidate in recording if (candidate.frame, candidate.attempt) == (graph.frame, graph.attempt)):
        if isinstance(event, ev.NodeAdded) and event.name in final_nodes:
            waiting.append(_in_words(final_nodes[event.name]))
        if isinstance(event, ev.InstructionStepped):
            stack = tuple(value.node or value.text for value in event.stack)
            steps.append(Step(f"{event.op} {event.arg}".strip(), stack, tuple(waiting)))
            waiting = []
    if waiting and steps:
        steps[-1] = Step(steps[-1].instruction, steps[-1].stack, (*steps[-1].nodes, *waiting))
    return steps


def _in_words(node: ev.NodeAdded) -> str:
    if node.op == "placeholder":
        return f"{node.name}: input"
    if node.op == "output":
        return f"output {node.args}"
    return f"{node.name} = {node.target}{node.args}"


def capture_text(recording: Recording) -> str:
    """The picture as text, a line per step."""
    return "\n".join(_line(step) for step in steps_and_nodes(recording))


def _line(step: Step) -> str:
    line = f"{step.instruction}: [{', '.join(step.stack)}]"
    return f"{line}; new node {'; '.join(step.nodes)}" if step.nodes else line


def capture_picture(recording: Recording) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    shown = steps_and_nodes(recording)
    height = TOP + ROW * sum(max(1, len(step.nodes)) for step in shown) + 4
    heads = (("instruction", 4), ("stack after it, the top at the right", STACK), ("graph", GRAPH))
    drawn = [f'<text class="head" x="{x}" y="18">{words}</text>' for words, x in heads]
    top = TOP
    for step in shown:
        drawn.append(_step(step, top))
        top += ROW * max(1, len(step.nodes))
    return labelled("capture", capture_text(recording), _STYLE, (WIDTH, height), drawn)


def _step(step: Step, top: int) -> str:
    stack = " | ".join(step.stack) or "(empty)"
    return (
        f'<path class="rule" d="M0 {top} H{GRAPH - 40}"/>'
        f'<text class="code" x="4" y="{top + 20}">{escape(fitting(step.instruction, _IN_STEP))}</text>'
        f'<text class="code" x="{STACK}" y="{top + 20}">{escape(fitting(stack, _IN_STACK))}</text>'
    ) + "".join(_node(node, top + ROW * place) for place, node in enumerate(step.nodes))


def _node(node: str, top: int) -> str:
    middle = top + ROW // 2
    return (
        f'<path class="arrow" d="M{GRAPH - 34} {middle} H{GRAPH - 6}"/>'
        f'<path class="tip" d="M{GRAPH - 8} {middle - 5} v10 l7 -5 z"/>'
        f'<rect x="{GRAPH}" y="{top + 4}" width="{BOX}" height="{ROW - 8}" rx="5"/>'
        f'<text class="code" x="{GRAPH + 9}" y="{top + 20}">{escape(fitting(node, _IN_NODE))}</text>'
    )
