"""Graph break causes of a running torch, from its exceptions and log calls.

The idea: torch raises an exception where it cannot continue tracing. traces/torch_words.py parses its message; this file extracts
the message from the exceptions and reasons of a running torch, with the user's stack.

In: exceptions and reasons of torch._dynamo.
Out: `LoggedCause`s, from `of_logged`, `of_error`, `matching`; `reached_limit`, `is_restart`.

PyTorch's counterpart: `format_graph_break_message` in torch/_dynamo/exc.py writes the message that is read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.traces.torch_words import is_consequence, parsed, with_consequence
from dynexplore.watching import private_torch


@dataclass(frozen=True, slots=True)
class LoggedCause:
    """torch's message, and the user's stack with its current source lines; parsed when the event is created."""

    message: str
    stack: tuple[ev.UserFrame, ...]

    def event(self, **more: Any) -> ev.GraphBroke:
        """The graph break event; `more` are its place and its values."""
        return parsed(self.message, self.stack).event(**more)


def of_logged(error: Any, reason: str) -> LoggedCause:
    """The cause that torch logs when it decides that a graph ends here."""
    stack = private_torch.user_frames(getattr(error, "real_stack", None) or ())
    return LoggedCause(str(getattr(error, "msg", None) or error or reason), stack)


def of_error(error: BaseException) -> LoggedCause | None:
    """The cause for which a whole frame is skipped; None for errors that are not graph breaks."""
    if getattr(error, "gb_type", None) is None or not hasattr(error, "real_stack"):
        return None
    return of_logged(error, "")


def with_earlier(cause: LoggedCause, causes: Sequence[LoggedCause]) -> LoggedCause:
    """A cause for which a frame is skipped, behind the break that torch could not end the graph at: the one to fix."""
    place = cause.stack[:1]
    earlier = [before for before in causes if not is_consequence(before.message) and before.stack[:1] == place]
    if not earlier or not is_consequence(cause.message):
        return cause
    return LoggedCause(with_consequence(earlier[-1].message, cause.message), earlier[-1].stack)


def matching(causes: Sequence[LoggedCause], reason: Any) -> LoggedCause:
    """The logged cause that belongs to a `GraphCompileReason`, or else the reason itself."""
    text = str(reason.reason)
    same = [cause for cause in causes if cause.message and (cause.message == text or text.endswith(cause.message))]
    if same or (causes and len(text.splitlines()) == 1):
        return (same or list(causes))[-1]
    return LoggedCause(text, private_torch.user_frames(reason.user_stack or ()))


def is_restart(error: BaseException) -> bool:
    """Whether torch restarts the analysis with another attempt."""
    return any(cls.__name__ in ("RestartAnalysis", "TensorifyScalarRestartAnalysis") for cls in type(error).__mro__)


_LIMIT = re.compile(r"\((?:currently )?set to (\d+)\)")


def reached_limit(error: BaseException) -> int:
    """The recompile limit that this error reports as reached; 0 if it reports something else."""
    causes = [cause for cause in (error, error.__cause__) if cause is not None]
    message = next((str(cause) for cause in causes if getattr(cause, "gb_type", "") == "Dynamo recompile limit exceeded"), "")
    limit = _LIMIT.search(message)
    return int(limit[1]) if limit else 0
