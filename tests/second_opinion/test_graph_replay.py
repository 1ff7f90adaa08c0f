"""The replay of a graph: values inside it, tensors that are written to, shapes under the sizes of the call."""

from __future__ import annotations

import torch
from second_opinion.planted import assert_clean, recorded

import dynexplore
from dynexplore.engine import events as ev


def test_a_tensor_that_is_written_to_has_one_value_before_and_another_after() -> None:
    """The replay tells of it again; the stepper shows each where it was."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        before = y
        y += 1
        return before.sum()

    recording = recorded(f, torch.ones(2))
    values = [str(recording.real(number).locals.get("y", "")) for number in range(len(recording.steps))]
    assert [text for text, last in zip(values, ["", *values], strict=False) if text != last] == [
        "float32[2] cpu min 2 mean 2 max 2, first 2, 2 [replayed]",
        "float32[2] cpu min 3 mean 3 max 3, first 3, 3 [replayed]",
    ]


def test_running_statistics_are_seen_before_and_after() -> None:
    """A batch norm writes to its buffers without saying so."""
    recording = recorded(torch.nn.BatchNorm1d(2), torch.randn(8, 2))
    seen = [one for one in recording.of(ev.ValueObserved) if one.name.endswith("running_mean")]
    assert [one.after != "" for one in seen if one.role == "node"][-1]
    assert_clean(recording)


def test_symbolic_sizes_are_compared_under_the_sizes_of_the_call() -> None:
    """One graph, several sizes: the shapes of every run are what was foretold."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]).view(2, -1)[:, 1:] * x.shape[0]

    recording = dynexplore.explain(f, dynamic=True).calls(torch.ones(4), torch.ones(6), torch.ones(8)).recording
    assert len(recording.graphs) == 1
    assert len(recording.of(ev.RunCompared)) == 3
    assert_clean(recording)
