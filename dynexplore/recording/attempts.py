"""The attempts at a frame: the nodes that each translation attempt added, and how the attempt ended.

The idea: translation restarts from the top of the frame until it succeeds. An attempt that reaches a graph break, or
invalidates an assumption, is abandoned and another one begins; only the last attempt's graph is compiled. The abandoned
attempts show what happened before: for a function with a graph break, the break itself.

In: the events of one frame. Out: one `AttemptView` per attempt. PyTorch's counterpart: none; `RestartAnalysis` in
torch/_dynamo/exc.py restarts analysis, and nothing of the abandoned attempt is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from dynexplore.engine import events as ev
from dynexplore.engine.display_hooks import Displayable

Outcome = Literal["compiled", "given up", "plain Python", "failed"]
_OUTCOMES: dict[str, Outcome] = {"compiled": "compiled", "skipped": "plain Python", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class AttemptView(Displayable):
    """One attempt at a frame: `nodes` in the order in which they were added, including those that the final graph did not need.

    `outcome` is "compiled", "given up" (another attempt followed), "plain Python" or "failed"; `reason` is why it is not
    "compiled", as far as it is known.
    """

    frame: int
    number: int
    outcome: Outcome
    reason: str
    nodes: tuple[ev.NodeAdded, ...]
    breaks: tuple[ev.GraphBroke, ...]


def of_frame(frame: int, of: Callable[[int, type[Any]], tuple[Any, ...]]) -> tuple[AttemptView, ...]:
    """The attempts at a frame, in order; `of` returns the frame's events of a given class."""
    numbers = {event.attempt for kind in (ev.AttemptStarted, ev.NodeAdded, ev.GraphBroke) for event in of(frame, kind)} - {0}
    return tuple(_attempt(frame, number, number == max(numbers), of) for number in sorted(numbers))


def _attempt(frame: int, number: int, is_last: bool, of: Callable[[int, type[Any]], tuple[Any, ...]]) -> AttemptView:
    def here(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(event for event in of(frame, kind) if event.attempt == number)

    restarts = [event.reason for event in here(ev.AttemptRestarted)]
    finished = [event.outcome for event in of(frame, ev.FrameFinished)]
    outcome: Outcome = "given up" if restarts or not is_last else _OUTCOMES.get(" ".join(finished), "failed")
    if is_last and not finished and here(ev.SubgraphCompiled):
        outcome = "compiled"
    reasons = restarts or [event.reason for event in of(frame, ev.FrameSkipped)] or [event.error for event in _failures(frame, of)]
    return AttemptView(
        frame, number, outcome, "" if outcome == "compiled" else "; ".join(reasons), here(ev.NodeAdded), here(ev.GraphBroke)
    )


def _failures(frame: int, of: Callable[[int, type[Any]], tuple[Any, ...]]) -> tuple[Any, ...]:
    return (*of(frame, ev.EngineFailed), *of(frame, ev.BackendFailed))
