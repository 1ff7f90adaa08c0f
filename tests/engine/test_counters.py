"""engine/counters.py: counts by group and name."""

from __future__ import annotations

import pytest

from dynexplore.engine.counters import Counters, counters, graph_breaks

pytestmark = pytest.mark.plain("a table of counts")


def test_counts_add_up() -> None:
    """A group and name come into being by being counted."""
    c = Counters()
    c["frames"]["ok"] += 1
    c["frames"]["ok"] += 1
    assert c["frames"]["ok"] == 2 and c.snapshot() == {"frames": {"ok": 2}}


def test_reading_counts_nothing() -> None:
    """What was never counted reads as 0, and asking for it leaves no trace."""
    c = Counters()
    assert c["frames"]["total"] == 0
    assert dict(c) == {} and len(c) == 0 and "frames" not in list(c) and repr(c) == "Counters({})"


def test_clear_empties_groups_that_are_held() -> None:
    """After clear() a group that someone holds is the same, empty group."""
    c = Counters()
    held = c["stats"]
    held["graphs"] += 1
    c.clear()
    assert held == {} and c["stats"] is held


def test_graph_breaks_are_a_plain_dict() -> None:
    """graph_breaks() gives {reason: count}, a copy."""
    counters.clear()
    counters["graph_break"]["print"] += 2
    found = graph_breaks()
    assert found == {"print": 2} and type(found) is dict
    counters.clear()
    assert found == {"print": 2} and graph_breaks() == {}
