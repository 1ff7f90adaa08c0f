"""cli/progress.py: the line that says that a long capture is alive. On a terminal it is seen in test_programs.py."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from dynexplore.cli.progress import PATIENCE, Progress


@pytest.mark.plain("words about a capture that is made up")
def test_the_line_comes_after_two_seconds_in_one_call() -> None:
    """It names the target, and counts functions and events; outside of a target and in quick calls there is none."""
    now = time.monotonic()
    capture: Any = SimpleNamespace(capturing="Net.forward", since=now - 10, chosen=[1, 2], recording=range(1234))
    assert Progress(capture).line() == "dynexplore: capturing Net.forward: 2 functions, 1,234 events, 10 s"
    capture.chosen = [1]
    assert ": 1 function, " in Progress(capture).line()
    capture.since = now - PATIENCE / 2
    assert Progress(capture).line() == ""
    capture.since, capture.capturing = now - 10, ""
    assert Progress(capture).line() == ""
