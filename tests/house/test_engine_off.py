"""The run without the engine: its marker wants a reason."""

from __future__ import annotations

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
