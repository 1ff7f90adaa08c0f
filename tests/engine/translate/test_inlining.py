"""Callees that are traced through, as a recording tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording, load, save


def again(recording: Recording, folder: Path) -> Recording:
    """The recording, saved and loaded."""
    save(recording, folder / "recording.json")
    return load(folder / "recording.json")


def items(x: torch.Tensor, numbers: dict[str, int | None]) -> torch.Tensor:
    return x * sum(value for value in numbers.values() if value is not None)


def test_a_generators_steps_stand_in_its_own_code(tmp_path: Path) -> None:
    """A body that is interpreted piece by piece is one callee: entered once, left at its end; the recording loads again."""
    recording = dynexplore.explain(items, torch.ones(2), {"a": 1, "b": None, "c": 3}).recording
    assert len(recording.graphs) == 1
    (entered,) = [event for event in recording.of(ev.InlineEntered) if event.code.qualname.endswith("<genexpr>")]
    left = [event for event in recording.of(ev.InlineLeft) if event.callee == entered.callee]
    assert [event.how for event in left] == ["returned"]
    inside = [step for step in recording.steps if step.inline == entered.callee]
    assert sum(step.op == "YIELD_VALUE" for step in inside) == 2
    assert not any(step.op == "YIELD_VALUE" for step in recording.steps if not step.inline)
    assert again(recording, tmp_path).steps == recording.steps


def test_a_generator_that_raises_is_left(tmp_path: Path) -> None:
    """What leaves the body by an exception ends the callee."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        def numbers() -> object:
            yield 1
            raise KeyError("gone")

        try:
            return x * sum(numbers())  # type: ignore[call-overload, no-any-return]
        except KeyError:
            return x + 1

    recording = dynexplore.explain(fails, torch.ones(2)).recording
    assert len(recording.graphs) == 1
    assert [event.how for event in recording.of(ev.InlineLeft)][-1:] == ["raised"]
    assert again(recording, tmp_path).steps == recording.steps


@pytest.mark.parametrize("taken", [0, 1])
def test_a_generator_may_never_end(taken: int, tmp_path: Path) -> None:
    """One that is dropped half-way leaves a recording that loads."""

    def first(x: torch.Tensor, count: int) -> torch.Tensor:
        numbers = (value for value in range(5))
        for _ in range(count):
            x = x + next(numbers)
        return x * 2

    recording = dynexplore.explain(first, torch.ones(2), taken).recording
    assert len(recording.graphs) == 1
    assert again(recording, tmp_path).steps == recording.steps
