"""Stack traces of graph nodes: the frames and lines of the program that created each node, outermost first.

The idea: a compiled graph is one call, but an exception of one of its operators must have the traceback of eager. So each node
records its frames, and a traceback is built from the record.

In: nodes, as they are created (`operations.describe`). Out: `node_locations(graph)`, by the node's name; `traceback_at`, the
traceback with the frames that were inlined. PyTorch's counterpart: `stack_trace`, a text in each node's meta.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

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
    """How many earlier nodes of the same graph are on the same line."""


def node_locations(graph: torch.fx.Graph) -> dict[str, NodeLocation]:
    """The location of each node that has one, by the node's name."""
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
    """The traceback of an exception of a node: the root frame at the node's line, the frames inlined into it, then `tail`."""
    chain = tail
    for entry in reversed(location.frames[1:]):
        chain = TracebackType(chain, _frame_of(entry), -1, entry.line)
    return TracebackType(chain, root, -1, location.frames[0].line)  # -1: the column is unknown


def _frame_of(entry: FrameLine) -> FrameType:
    """A frame object with the name and file of an inlined frame."""
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


def code_of(callback: Any) -> CodeType | None:
    """The code object that runs when Python calls this function, bound method or object with a `__call__`; None for C code."""
    function = getattr(callback, "__func__", callback)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None


def definition_of(code: CodeType) -> tuple[str, str, int]:
    """The definition site of this code's function: the same for its modified code and its resume functions."""
    return code.co_filename, code.co_name, code.co_firstlineno


def traceback_from(traceback: TracebackType | None, codes: Sequence[CodeType]) -> TracebackType | None:
    """The part of a traceback that begins with a frame of one of these functions; None if there is none."""
    definitions = {definition_of(code) for code in codes}
    while traceback is not None and definition_of(traceback.tb_frame.f_code) not in definitions:
        traceback = traceback.tb_next
    return traceback
