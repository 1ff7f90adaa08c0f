"""The run without the engine: outcomes are turned around, and its marker wants a reason."""

from __future__ import annotations

from typing import Literal

import pytest

import engine_off


class Item:
    """A collected test with markers."""

    nodeid = "a test"

    def __init__(self, *markers: pytest.MarkDecorator) -> None:
        self._markers = [marker.mark for marker in markers]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self._markers if mark.name == name]


@pytest.mark.parametrize("marker", [pytest.mark.plain, pytest.mark.plain(""), pytest.mark.plain("fast"), pytest.mark.plain(3)])
def test_the_marker_takes_a_reason(marker: pytest.MarkDecorator) -> None:
    """`plain` without a sentence ends the run before it begins."""
    with pytest.raises(pytest.UsageError, match="takes the reason"):
        engine_off.check_reasons([Item(marker)])  # type: ignore[list-item]
    engine_off.check_reasons([Item(), Item(pytest.mark.plain("compares tables with each other"))])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("outcome", "plain", "becomes"),
    [("passed", None, "failed"), ("failed", None, "passed"), ("passed", "a reason", "passed"), ("failed", "a reason", "failed")],
)
def test_outcomes_are_turned_around(outcome: Literal["passed", "failed"], plain: str | None, becomes: str) -> None:
    """A test that passes without the engine fails, unless it is marked; then it must pass."""
    report = pytest.TestReport("a test", ("a file", 0, "a test"), {}, outcome, None, "call")
    engine_off._EngineOff()._turn(report, plain)
    assert report.outcome == becomes
