"""Two recordings compared: verdict, first difference, table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import dynexplore
from dynexplore.cli import main
from dynexplore.recording.recording import Recording
from dynexplore.views.recording_diff import RecordingDiff


def with_print(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("between")
    return y * 2


def without(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y * 2


def recorded(fn: object, name: str) -> Recording:
    """What explain records of a call."""
    recording: Recording = dynexplore.explain(fn, torch.ones(2)).recording  # type: ignore[arg-type]
    recording.title = name
    return recording


def test_before_and_after_a_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The break is gone; the first graph has both operators; the command prints the same."""
    before, after = recorded(with_print, "before"), recorded(without, "after")
    diff = RecordingDiff(before, after)
    assert diff.verdict == "2 graphs became 1, 1 graph break became 0."
    assert diff.first.startswith("graph 1, of without: operator 2, ") and diff.first.endswith(", was added.")
    assert ("operators", "2", "2") in diff.rows()
    before.save(tmp_path / "before.json")
    after.save(tmp_path / "after.json")
    capsys.readouterr()
    assert main(["open", str(tmp_path / "after.json"), "--against", str(tmp_path / "before.json")]) == 0
    shown = capsys.readouterr().out
    assert diff.verdict in shown and "Gone:\n  graph break in with_print:" in shown and "New:" not in shown


def test_two_recordings_that_are_the_same() -> None:
    """Nothing is invented; another operator with the same counts is named."""
    one = recorded(without, "one")
    assert RecordingDiff(one, one).first == "" and RecordingDiff(one, one).verdict.startswith("The same graphs")
    other = recorded(lambda x: (x + 1) / 2, "other")
    assert RecordingDiff(one, other).verdict == "The same counts, but not the same graphs or causes."
