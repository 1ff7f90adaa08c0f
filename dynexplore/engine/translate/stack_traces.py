"""Stack traces of graph nodes: the frames and lines of the program that made each node, outermost first.

In: nodes, as they are made (`operations.describe`). Out: `node_locations(graph)`, by the node's name; `frames_at`, what a traceback
shows of the frames that were inlined. torch.fx keeps `stack_trace`, a text, in each node's meta."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

import torch.fx


class FrameLine(NamedTuple):
    """One entry of a traceback. It holds no code object: a graph that its own code keeps alive would never be freed."""

    file: str
    line: int
    name: str
    qualified_name: str

    @classmethod
    def of(cls, code: CodeType, line: int) -> FrameLine:
        """A line of a code object."""
        return cls(code.co_filename, line, code.co_name, code.co_qualname)


class NodeLocation(NamedTuple):
    """The location of a node in the program."""

    frames: tuple[FrameLine, ...]
    preceding_on_line: int
    """How many nodes of the same graph stand on the same line before it."""


def node_locations(graph: torch.fx.Graph) -> dict[str, NodeLocation]:
    """The place of each node that has one, by name."""
    locations: dict[str, NodeLocation] = {}
    counts: dict[FrameLine, int] = {}
    for node in graph.nodes:
        frames = node.meta.get("frames")
        if not frames or not node.op.startswith("call_") or node.meta.get("unpacked"):
            continue
        count = counts.get(frames[-1], 0)
        counts[frames[-1]] = count + 1
        locations[node.name] = NodeLocation(frames, count)
    return locations


def traceback_at(root: FrameType, location: NodeLocation, tail: TracebackType | None) -> TracebackType:
    """The traceback of an exception that a node raised: the root frame at the node's line, the frames inlined into it, the rest."""
    chain = tail
    for entry in reversed(location.frames[1:]):
        chain = TracebackType(chain, _frame_of(entry), -1, entry.line)
    return TracebackType(chain, root, -1, location.frames[0].line)  # -1: no column is known


def _frame_of(entry: FrameLine) -> FrameType:
    """A frame with the name and file of one that was inlined."""
    code = _raising.__code__.replace(
        co_filename=entry.file, co_name=entry.name, co_qualname=entry.qualified_name, co_firstlineno=entry.line
    )
    try:
        exec(code, {})
    except StopIteration as ended:
        innermost = ended.__traceback__.tb_next if ended.__traceback__ is not None else None
        assert innermost is not None
        return innermost.tb_frame
    raise AssertionError("it raises")


_raising = lambda: next(iter(()))  # noqa: E731 - one line, whatever formats this file


def definition_of(code: CodeType) -> tuple[str, str, int]:
    """Where the function of this code is written: the same for its modified code and its resume functions."""
    return code.co_filename, code.co_name, code.co_firstlineno


def traceback_from(traceback: TracebackType | None, codes: Sequence[CodeType]) -> TracebackType | None:
    """The part of a traceback that begins with a frame of one of these functions; None where there is none."""
    definitions = {definition_of(code) for code in codes}
    while traceback is not None and definition_of(traceback.tb_frame.f_code) not in definitions:
        traceback = traceback.tb_next
    return traceback
