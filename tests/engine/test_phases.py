"""engine/phases.py: the phases of a conversion add up to its whole."""

from __future__ import annotations

import time

import pytest

from dynexplore.engine.phases import PhaseTimes, timed, times

pytestmark = pytest.mark.plain("adds up times")


def test_inner_phases_are_taken_out() -> None:
    """Own times add up; the whole of a phase holds what is inside it."""
    measured = PhaseTimes()
    with measured.of("f"), measured.phase("translate"):
        time.sleep(0.002)
        with measured.phase("read"):
            time.sleep(0.004)
    found = {record.phase: record for record in measured.records}
    assert set(found) == {"read", "translate", "other"} and all(record.function == "f" for record in measured.records)
    assert found["translate"].own_seconds == pytest.approx(found["translate"].seconds - found["read"].seconds)
    assert sum(record.own_seconds for record in measured.records) == pytest.approx(found["other"].seconds)


def test_a_phase_that_raises_is_noted() -> None:
    """And the ones around it go on."""
    measured = PhaseTimes()
    with pytest.raises(KeyError), measured.of("f"), measured.phase("read"):
        raise KeyError
    assert [record.phase for record in measured.records] == ["read", "other"] and not measured.is_converting()


def test_outside_of_a_conversion_nothing_is_noted() -> None:
    """The decorated function runs as it is."""

    @timed("read")
    def work(x: int) -> int:
        return x + 1

    times.clear()
    assert work(1) == 2 and not times.records
    with times.of("g"):
        assert work(1) == 2
    assert [record.phase for record in times.records] == ["read", "other"]
    times.clear()
