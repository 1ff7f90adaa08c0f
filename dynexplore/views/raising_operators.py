"""The operators that raised when a compiled graph ran.

The idea: the exception of a graph at run time names no operator, because a backend may have fused it. What is known is the line of
the program at which the error surfaced: the original code runs again and raises there. So the operators of that line are the ones
in question, mostly one; of a graph with a single operator it is that one.

In: a Recording and the number of a frame. Out: `raising_operators(recording, frame)`. PyTorch's counterpart: none.
"""

from __future__ import annotations

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording


def raising_operators(recording: Recording, frame: int) -> list[ev.NodeAdded]:
    """The operators of this frame's graphs that may have raised; none if no run of them failed, or if nothing is known."""
    raised = {ran.graph for ran in recording.of_frame(frame, ev.GraphRan) if ran.error}
    operators = [
        node
        for graph in recording.graphs
        if graph.frame == frame and graph.name in raised
        for node in graph.nodes
        if node.op.startswith("call_")
    ]
    places = {(ended.file, ended.line) for ended in recording.of(ev.ProgramEnded) if ended.error and ended.line}
    return [node for node in operators if (node.file, node.line) in places] or (operators if len(operators) == 1 else [])
