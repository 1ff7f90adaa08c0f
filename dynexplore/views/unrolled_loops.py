"""Long loops in a graph: capture runs a loop's body once per iteration, so the graph and its compile time grow with the iterations.

The idea: a program asks why one graph takes so long to compile. If most of its operators come from lines that occur a hundred times
or more, a loop was unrolled, and the report names the line.

In: a Recording. Out: `longest_loop(recording)`: an `UnrolledLoop`, or None. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dynexplore.recording.recording import Recording
from dynexplore.views.names import short_file

MANY = 100
"""The number of times that a line has to occur."""


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A line whose operators occur `times` times, and the part of the graph's operators that such lines have."""

    file: str
    line: int
    times: int
    operators: int

    @property
    def sentence(self) -> str:
        """What happened."""
        place = f"{short_file(self.file)}:{self.line}"
        return f"A loop is unrolled: {place} runs {self.times:,} times in one graph, which takes compile time."

    @property
    def remedy(self) -> str:
        """What to do."""
        return "To compile faster, compile a function with the loop's body, and call it in a plain loop."


def longest_loop(recording: Recording) -> UnrolledLoop | None:
    """The line that occurs most often, if lines like it have most operators of a graph."""
    loops = []
    for graph in recording.graphs:
        calls = [node for node in graph.nodes if node.op.startswith("call_") and node.line > 0]
        times = Counter((node.file, node.line, node.target) for node in calls)
        often = {key: count for key, count in times.items() if count >= MANY}
        operators = sum(often.values())
        if often and 2 * operators >= len(calls):
            file, line, _ = max(often, key=lambda key: often[key])
            loops.append(UnrolledLoop(file, line, max(often.values()), operators))
    return max(loops, key=lambda loop: loop.operators, default=None)
