"""Wrong handlers and rules are planted, and the first divergence must stand at their step: what the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.rules import METHODS
from dynexplore.recording.recording import Recording

Flagged = tuple[ev.DivergenceDetected, ev.InstructionStepped]
Handler = Callable[[Any, Any, Any], None]


def toy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A model with a graph, a break and a branch on data, in which wrong handlers are planted."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def recorded(fn: Callable[..., Any], *args: Any, **options: Any) -> Recording:
    """The recording of one call."""
    dynexplore.reset()
    return dynexplore.explain(fn, **options)(*args).recording  # type: ignore[no-any-return]


@contextmanager
def rule_for_method(python_type: type[Any], name: str, rule: Callable[..., Any]) -> Iterator[None]:
    """In this block a method of a builtin type is answered by another rule."""
    right = METHODS[python_type, name]
    METHODS[python_type, name] = rule
    try:
        yield
    finally:
        METHODS[python_type, name] = right


def flagged_by_handler(
    op: str, handler: Handler, fn: Callable[..., Any], *args: Any
) -> tuple[ev.DivergenceDetected, ev.InstructionStepped]:
    """The first divergence and its step, with a wrong handler for `op`; without it there must be none."""
    assert recorded(fn, *args).divergences == ()
    with dispatch.override(op, handler):
        return first_of(recorded(fn, *args))


def first_of(recording: Recording) -> Flagged:
    """The first divergence and its step."""
    assert recording.divergences, "nothing is flagged"
    divergence = recording.divergences[0]
    step = recording.step_of(divergence)
    assert step is not None
    return divergence, step


def assert_clean(recording: Recording) -> None:
    """Nothing diverges, nothing went wrong in the checks, and something was compared."""
    assert recording.divergences == ()
    assert recording.of(ev.RunLeftOut) == ()
    assert sum(run.nodes for run in recording.of(ev.RunCompared))
