"""Where a backend failed: the line of the program that raised, and the operator of the graph that it had in hand.

Which idea lives here: "the backend failed" helps nobody. A backend goes through the nodes of a graph one by one, and the node that
it stopped at came from a line of the user's function. Nobody is told which one; but the frames that the exception passed through
are still there, and the innermost that holds exactly one operator in its variables is the loop, or the interpreter, that had it in
hand. torch's own compilers work on graphs that were made from ours: each of their nodes knows from which (`meta["from_node"]`).

In:  the exception of a backend, and the graph that it was given.
Out: `raised_at(error)`, a line; `node_in_hand(error, graph)`, the name of a node. Neither guesses: None and "" say that
     it is not known.

PyTorch has no counterpart: BackendCompilerFailed holds the exception alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import shown_line
from dynexplore.engine.policy.trace_rules import OWN_FOLDER, rule_of
from dynexplore.engine.raw_attributes import is_a

_GENERATED = "<eval_with_key>"
"""What torch.fx calls the file of a graph's own code."""


def raised_at(error: BaseException) -> ev.UserFrame | None:
    """The innermost line of the program, that is neither the engine's nor a library's, which the error came through."""
    return next((shown_line(frame, number) for frame, number in _innermost_first(error) if _is_users(frame)), None)


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((OWN_FOLDER, _GENERATED)) and not rule_of(file).library


def node_in_hand(error: BaseException, graph: torch.fx.Graph) -> str:
    """The name of the operator that the backend was at: the only one that the innermost frame with any has in its variables."""
    for frame, _ in _innermost_first(error):
        names = {name for value in frame.f_locals.values() for name in _operators_behind(value, graph)}
        if names:
            return names.pop() if len(names) == 1 else ""
    return ""


def _innermost_first(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames and lines of an error, those of its cause before them: a compiler that wraps an error raises it anew."""
    if error.__cause__ is not None:
        yield from _innermost_first(error.__cause__)
    yield from reversed(list(traceback.walk_tb(error.__traceback__)))


def _operators_behind(value: Any, graph: torch.fx.Graph) -> Iterator[str]:
    """The operator of `graph` that a value is, or was made from."""
    if not is_a(value, torch.fx.Node) or not value.op.startswith("call_"):
        return
    if value.graph is graph:
        yield value.name
        return
    sources = list(value.meta.get("from_node") or ())
    while sources:
        source = sources.pop()
        sources += source.from_node
        if source.graph_id == id(graph):
            yield source.name
