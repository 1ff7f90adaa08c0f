"""variables/contract/base.py: what every tracker notes of the place where it came up."""

from __future__ import annotations

import threading

import pytest

from dynexplore.engine.variables.contract.base import progress
from dynexplore.engine.variables.scalars.constant import ConstantVariable


@pytest.mark.plain("asks the record of places itself, without a translation")
def test_the_place_of_an_attempt_is_its_threads_own() -> None:
    """A thread whose attempt is parked finds its place again, whatever other threads translate meanwhile."""
    steps = []

    def another() -> None:
        steps.append(progress.step)
        progress.step = 9

    with progress.of_an_attempt():
        progress.step = 4
        thread = threading.Thread(target=another)
        thread.start()
        thread.join()
        assert ConstantVariable(1).created_at_step == 4
    assert steps == [0]


@pytest.mark.plain("asks the record of places itself, without a translation")
def test_an_attempt_inside_another_begins_at_zero() -> None:
    """A backend may call what is compiled while it compiles: the outer attempt goes on where it was."""
    with progress.of_an_attempt():
        progress.step = 4
        with progress.of_an_attempt():
            assert ConstantVariable(1).created_at_step == 0
            progress.step = 7
        assert progress.step == 4
