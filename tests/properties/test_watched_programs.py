"""A program does the same with its real run recorded as without the engine, and nothing is flagged in it.

Each of these programs goes through all of `assert_same_as_eager` (values, exceptions, prints, identity, mutation, gradients)
while a step checker checks every step and replays every graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from properties.program_files import drawn_once
from properties.random_programs import assert_program_is_right

from dynexplore.engine import events as ev
from dynexplore.engine.runtime.backends import Backend
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.recording.recording import Recording
from dynexplore.second_opinion.step_checker import StepChecker


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recording]]:
    """Every store that is made has a recorder and a step checker; their recordings."""
    made: list[Recording] = []
    plain = Store.__init__

    def watched(self: Store, backend: Backend, options: Options) -> None:
        plain(self, backend, options)
        made.append(Recording())
        self.observers.recorder = made[-1]
        self.observers.run = StepChecker(made[-1], self.observers.modified_codes)

    monkeypatch.setattr(Store, "__init__", watched)
    yield made


@pytest.mark.parametrize("seed", range(0, 120, 5))
def test_watching_changes_nothing(seed: int, recordings: list[Recording]) -> None:
    """Recorded, replayed, compared: the program notices nothing, and nothing diverges."""
    assert_program_is_right(*drawn_once(seed))
    assert any(recording.steps for recording in recordings)
    for recording in recordings:
        assert recording.of(ev.DivergenceDetected) == ()
        assert [left.reason for left in recording.of(ev.RunLeftOut) if "failed" in left.reason or "checked" in left.reason] == []
        assert [one.why for one in recording.of(ev.ValueObserved) if "raised" in one.why] == []
