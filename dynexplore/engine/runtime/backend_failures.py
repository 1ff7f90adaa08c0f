"""The location of a backend failure: the user's line that raised, and the graph operator that was being compiled.

The idea: "the backend failed" does not help a user. A backend processes the nodes of a graph one by one, and the node at which it
failed came from a line of the user's function. The exception does not say which; but its traceback still holds the frames, and the
innermost one with exactly one operator among its local variables is the loop, or the interpreter, that was processing it. Torch's
own compilers work on graphs derived from the captured one: each of their nodes refers to its origin (`meta["from_node"]`).

In: the exception of a backend, and the graph passed to it. Out: `cause_of(error)`, the exception without torch's wrapper;
`raised_at(error)`, a line; `node_in_hand(error, graph)`, the name of a node. Neither of these guesses: they return None and "" if
unknown. PyTorch's counterpart: none; BackendCompilerFailed holds only the exception.
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
"""The file name that torch.fx gives to a graph's code."""


def cause_of(error: Exception) -> Exception:
    """The exception that a backend raised: torch wraps it in BackendCompilerFailed."""
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, Exception) else error


def raised_at(error: BaseException) -> ev.UserFrame | None:
    """The innermost line of user code in the traceback, in neither the engine nor a library."""
    return next((shown_line(frame, number) for frame, number in _innermost_first(error) if _is_users(frame)), None)


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((OWN_FOLDER, _GENERATED)) and not rule_of(file).library


def node_in_hand(error: BaseException, graph: torch.fx.Graph) -> str:
    """The name of the operator being processed: the only one among the locals of the innermost frame that has any."""
    for frame, _ in _innermost_first(error):
        names = {name for value in frame.f_locals.values() for name in _operators_behind(value, graph)}
        if names:
            return names.pop() if len(names) == 1 else ""
    return ""


def _innermost_first(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames and lines of an exception, those of its cause first: a compiler may wrap an exception and raise the wrapper."""
    if error.__cause__ is not None:
        yield from _innermost_first(error.__cause__)
    yield from reversed(list(traceback.walk_tb(error.__traceback__)))


def _operators_behind(value: Any, graph: torch.fx.Graph) -> Iterator[str]:
    """The operator of `graph` that a value is or was derived from."""
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
