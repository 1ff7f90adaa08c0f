"""Numbers and places that a saved recording cannot have are told apart from those that it can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dynexplore.recording import sanity
from dynexplore.recording.recording import Recording
from sample_recordings import SAMPLES, toy

pytestmark = pytest.mark.plain("reads recordings that are made by hand")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_a_time_is_a_finite_number(value: Any) -> None:
    """NaN, infinities and whole numbers that no float holds are refused, with the field's name."""
    with pytest.raises(ValueError, match="seconds is"):
        sanity.finite("seconds", value)
    assert sanity.finite("seconds", 3) == 3.0


@pytest.mark.parametrize(("value", "lowest"), [(-1, 0), (-2, -1), (2**63, 0), (-(10**400), 0)])
def test_what_counts_is_neither_negative_nor_huge(value: int, lowest: int) -> None:
    """-1 stands for "none" in some fields; a huge number is told by its length."""
    with pytest.raises(ValueError, match="line is .*, not from") as caught:
        sanity.countable("line", value, lowest)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_whole_passes(name: str) -> None:
    """The sample recordings have nothing to be refused."""
    recording: Recording = SAMPLES[name]()
    for code in recording.codes.values():
        sanity.check_code(code)
    sanity.check_places(recording.events, recording.code_of)


def test_rows_stand_in_order_and_jumps_stay_inside() -> None:
    """A code object whose rows are mixed up, or that jumps out of itself, is refused."""
    code = toy().frames[0].code
    with pytest.raises(ValueError, match="not in order"):
        sanity.check_code(replace(code, rows=code.rows[::-1]))
    with pytest.raises(ValueError, match="where there is no instruction"):
        sanity.check_code(replace(code, rows=(replace(code.rows[0], target=3), *code.rows[1:])))


def test_a_step_stands_inside_its_code() -> None:
    """A step beyond the end of the code that it belongs to is refused."""
    recording = toy()
    with pytest.raises(ValueError, match="InstructionStepped stands at offset 9999, beyond the end of toy"):
        sanity.check_places([replace(recording.steps[0], offset=9999)], recording.code_of)
