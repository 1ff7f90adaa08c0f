"""Why a graph of torch.compile ended, in the words of this project's events.

Which idea lives here: torch raises an exception where it cannot go on, and its message has parts: a title, an explanation, hints, a
context, a link. Here the message becomes a `GraphBroke` with title, why and fix.

In:  exceptions and reasons of torch._dynamo.
Out: `Cause` with its `event`; `of_logged`, `of_error`, `matching`, `reached_limit`, `is_restart`.

PyTorch's counterpart: `format_graph_break_message` in torch/_dynamo/exc.py writes the message that is read here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.watching import private_torch


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a graph ended: torch's message, in parts, and the user's stack there."""

    message: str
    title: str
    why: str = ""
    fix: str = ""
    context: str = ""
    kind: str = "torch"
    fundamental: bool = False
    user_stack: tuple[ev.UserFrame, ...] = ()

    def event(self, **more: Any) -> ev.GraphBroke:
        """The break; `more` are its place and its values."""
        facts = (("context", ev.clip(self.context)),) if self.context else ()
        return ev.GraphBroke(
            kind=self.kind, title=self.title, reason=self._reason, why=self.why, fix=self.fix, facts=facts,
            user_stack=self.user_stack, fundamental=self.fundamental, **more,
        )  # fmt: skip

    @property
    def _reason(self) -> str:
        place = f" at {self.user_stack[-1].place}" if self.user_stack else ""
        return f"{self.title}{place}"


_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_LINK = re.compile(r"/gb/(gb\d+)\.html")
_FUNDAMENTAL = "fundamental - it is unlikely that Dynamo will ever be able to trace"


def parsed(message: str, stack: Any = ()) -> Cause:
    """The parts of torch's message.

    >>> cause = parsed("Data-dependent branching\\n  Explanation: An `if` on a tensor.\\n  Hint: Use `torch.cond`.\\n")
    >>> cause.title, cause.why, cause.fix
    ('Data-dependent branching', 'An `if` on a tensor.', 'Use `torch.cond`.')
    """
    first, _, after = message.partition(_ANOTHER)
    if after.strip():
        return _both(parsed(first, stack), parsed(after.strip()), message)
    title, _, rest = message.partition("\n")
    hints = [_joined(hint) for hint in re.findall(r"^  Hint: (.*?)(?=^  Hint:|^\s*$|\Z)", rest, re.M | re.S)]
    link = _LINK.search(message)
    return Cause(
        message=message,
        title=title.strip().rstrip(".") or "torch.compile cannot go on",
        why=_joined(_part(r"^  Explanation: (.*?)(?=^  Hint:|^\s*$|\Z)", rest)),
        fix=" ".join(hint for hint in hints if _FUNDAMENTAL not in hint and "Dynamo bug" not in hint),
        context=_joined(_part(r"Developer debug context: (.*?)(?=^\s*$|\Z)", rest)),
        kind=link[1].upper() if link else "torch",
        fundamental=_FUNDAMENTAL in message,
        user_stack=private_torch.user_frames(stack or ()),
    )


def _both(first: Cause, then: Cause, message: str) -> Cause:
    """A break where torch cannot resume: the whole frame is given up, and why that is so is said as well."""
    why = f"{first.why} {then.why}".strip()
    return dataclasses.replace(first, message=message, title=f"{first.title} ({then.title})", why=why)


def _part(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M | re.S)
    return match[1] if match else ""


def _joined(text: str) -> str:
    return " ".join(text.split())


def of_logged(error: Any, reason: str) -> Cause:
    """The cause that torch logs, when it decides that a graph ends here."""
    return parsed(str(getattr(error, "msg", None) or error or reason), getattr(error, "real_stack", None))


def of_error(error: BaseException) -> Cause | None:
    """The cause for which a whole frame is given up; None for errors that are no graph break."""
    if getattr(error, "gb_type", None) is None or not hasattr(error, "real_stack"):
        return None
    return of_logged(error, "")


def matching(causes: Sequence[Cause], reason: Any) -> Cause:
    """The logged cause that belongs to a `GraphCompileReason`, else the reason itself."""
    text = str(reason.reason)
    same = [cause for cause in causes if cause.message and (cause.message == text or text.endswith(cause.message))]
    if same or (causes and len(text.splitlines()) == 1):
        return (same or list(causes))[-1]
    return parsed(text, reason.user_stack)


def is_restart(error: BaseException) -> bool:
    """Whether torch goes on with another attempt."""
    return any(cls.__name__ in ("RestartAnalysis", "TensorifyScalarRestartAnalysis") for cls in type(error).__mro__)


_LIMIT = re.compile(r"\((?:currently )?set to (\d+)\)")


def reached_limit(error: BaseException) -> int:
    """The limit of entries that this error says was reached; 0 where it says something else."""
    causes = [one for one in (error, error.__cause__) if one is not None]
    told = next((str(one) for one in causes if getattr(one, "gb_type", "") == "Dynamo recompile limit exceeded"), "")
    limit = _LIMIT.search(told)
    return int(limit[1]) if limit else 0
