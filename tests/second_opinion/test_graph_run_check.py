"""Runs of a graph beside its replay: a wrong backend is flagged where the output is made, and what is left out is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
from second_opinion.planted import assert_clean, first_of, recorded, toy

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.second_opinion import graph_run_check
from dynexplore.views import real_run

# -- which runs are compared ----------------------------------------------------------------------------------------------


def test_later_runs_are_compared_and_not_kept() -> None:
    """Of the first few runs of a graph the values are recorded; later ones are compared."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    inputs = [torch.full((2,), float(number)) for number in range(graph_run_check.MOST_RUNS + 3)]
    recording = dynexplore.explain(f).calls(*inputs).recording
    assert [run.run for run in recording.of(ev.RunCompared)] == list(range(1, graph_run_check.MOST_RUNS + 4))
    assert max(one.run for one in recording.of(ev.ValueObserved)) == graph_run_check.MOST_RUNS
    assert "first 2, 2 [real]" in str(recording.real(-2, run=2).stack[-1])
    assert recording.real(-2, run=5).stack[-1].why == "this run was compared, but its values were not saved"
    assert_clean(recording)


def test_a_backend_that_goes_wrong_late_is_flagged() -> None:
    """Wrong from the fifth run on: that run is named, and no later one is compared."""
    runs = 0

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal runs
            runs += 1
            return tuple(value + (1.0 if runs >= 5 else 0.0) for value in graph(*args))

        return run

    recording = dynexplore.explain(lambda x: x * 2, backend=backend).calls(*(torch.ones(2) for _ in range(9))).recording
    assert [(found.where, found.run) for found in recording.divergences] == [("output", 5)]
    (note,) = recording.of(ev.RunLeftOut)
    assert (note.run, note.reason) == (6, "an earlier run of the graph diverges")


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing stops after a while, but for runs whose number is a power of two; how many were left out is said."""
    monkeypatch.setattr(graph_run_check, "MOST_SECONDS", 0.0)
    recording = dynexplore.explain(lambda x: x * 2).calls(*(torch.ones(2) for _ in range(20))).recording
    assert [run.run for run in recording.of(ev.RunCompared)] == [1, 2, 3, 4, 8, 16]
    assert [note.run for note in recording.of(ev.RunLeftOut)] == [5]
    assert real_run.verdict(recording).endswith("compared. 14 later runs were not compared.")


def test_memory_that_nobody_wrote_to_is_not_compared() -> None:
    """torch.empty gives other numbers each time."""
    recording = recorded(lambda x: torch.empty(1000) + x.sum() * 0, torch.ones(2))
    assert recording.divergences == ()
    assert "not compared" in " ".join(recording.of(ev.RunCompared)[0].notes)


# -- wrong backends ----------------------------------------------------------------------------------------------------


def off_by(amount: float, *, only: int | None = None) -> Callable[..., Any]:
    """A backend whose outputs (or one of them) are off."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            outputs = graph(*args)
            return tuple(
                value + amount if value.is_floating_point() and only in (None, number) else value
                for number, value in enumerate(outputs)
            )

        return run

    return backend


def test_a_backend_that_is_off_is_flagged_where_the_output_is_made() -> None:
    """Off by 1e-2: the step that made the first output is flagged, and no instruction is blamed."""
    recording = recorded(toy, torch.randn(10), torch.randn(10), backend=off_by(1e-2))
    divergence, step = first_of(recording)
    assert (divergence.where, divergence.name, step.op, step.arg) == ("output", "truediv", "BINARY_OP", "/")
    assert abs(float(divergence.expected) - float(divergence.actual.split()[0]) + 1e-2) < 1e-5
    assert {one.where for one in recording.divergences} == {"output"}


def test_the_first_output_that_is_off_is_named() -> None:
    """Outputs are compared in the order of the graph."""
    recording = recorded(lambda x: (x + 1, x * 2, x - 3), torch.randn(4), backend=off_by(1e-2, only=1))
    assert [(one.name, first_of(recording)[1].arg) for one in recording.divergences] == [("mul", "*")]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_off_by_a_hundredth_in_other_precisions(dtype: torch.dtype) -> None:
    """Values around one that are off by 1e-2 are found."""
    x = torch.randn(20, dtype=dtype)
    assert recorded(lambda x: x * 2, x, backend=off_by(1e-2)).divergences
    assert not recorded(lambda x: x * 2, x, backend=off_by(0.0)).divergences


def test_a_backend_that_leaves_an_input_otherwise_is_flagged() -> None:
    """A graph that writes to its input, a backend that does not."""

    def forgets(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: graph(*(value.clone() for value in args))

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    recording = recorded(f, torch.ones(2), backend=forgets)
    assert [(one.where, one.name, one.expected, one.actual.split()[0]) for one in recording.divergences] == [
        ("input", "x", "2", "1")
    ]


def test_a_backend_with_another_dtype_or_shape_is_flagged() -> None:
    """What a tensor is counts before what it holds."""

    def doubles(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: tuple(value.double() for value in graph(*args))

    (divergence,) = recorded(lambda x: x + 1, torch.ones(2), backend=doubles).divergences
    assert (divergence.aspect, divergence.expected, divergence.actual) == ("dtype", "float32", "float64")


def test_a_backend_with_random_numbers_of_its_own_is_not_blamed() -> None:
    """It may draw otherwise; what does not depend on them is compared all the same."""

    def draws(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            torch.rand(7)
            return graph(*args)

        return run

    recording = recorded(lambda x: (x + torch.rand(3), x * 2), torch.ones(3), backend=draws)
    (run,) = recording.of(ev.RunCompared)
    assert (run.outputs, recording.divergences) == (1, ())
    assert run.notes == ("output add was not compared: the backend draws its own random numbers",)
