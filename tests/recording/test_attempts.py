"""recording/attempts.py: what each attempt at a frame put into its graph, and what became of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.engine.events import NO_TENSORS
from dynexplore.recording.recording import Recording


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y


def recording_of(function: Callable[..., Any], *args: Any, **options: Any) -> Recording:
    with dynexplore.config.patch(log_level="ERROR"):
        recording: Recording = dynexplore.explain(function, *args, **options).recording
    return recording


def test_the_attempt_that_met_the_break_keeps_its_nodes() -> None:
    """The break is in the first attempt, with the nodes before it; the second one is compiled and has an output."""
    recording = recording_of(branches, torch.ones(2))
    first, second = recording.attempts(1)
    assert (first.outcome, second.outcome) == ("given up", "compiled")
    assert "if" in first.reason and second.reason == ""
    assert [broke.kind for broke in first.breaks] == ["DX104"] and not second.breaks
    names = [node.name for node in first.nodes]
    assert "add" in names and "output" not in names
    assert [node.name for node in second.nodes] == [*names, "output"]
    assert recording.attempts(99) == ()


def test_a_frame_without_operators_is_plain_python() -> None:
    """An attempt that ends in plain Python says why."""
    recording = recording_of(lambda n: [n, n + 1], 3)
    (attempt,) = recording.attempts(1)
    assert attempt.outcome == "plain Python" and attempt.reason == NO_TENSORS and not attempt.nodes


def test_a_failed_attempt_keeps_its_nodes(caplog: pytest.LogCaptureFixture) -> None:
    """What the backend refused is there: the nodes of the attempt, and the error as its reason."""

    def refuses(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no kernel today")

    recording = Recording(title="refused")
    with caplog.at_level(logging.CRITICAL), pytest.raises(BackendCompilerError, match="no kernel today"):
        recorded(lambda x: x * 3, (torch.ones(2),), backend=refuses, recording=recording)
    (attempt,) = recording.attempts(1)
    assert attempt.outcome == "failed" and "no kernel today" in attempt.reason
    assert [node.op for node in attempt.nodes] == ["placeholder", "call_function"]
