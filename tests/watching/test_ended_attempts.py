"""watching/listener.py: what torch.compile does not count is not told: attempts that it gives up to try once more."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views.headline import headline

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def smoothed(x: torch.Tensor, smooth: float) -> tuple[torch.Tensor, float]:
    loss = (x + torch.full_like(x, smooth)).sum()
    return loss, loss.item()


def test_a_backend_that_sends_torch_back_has_not_failed() -> None:
    """AOTAutograd finds that a float that varies has to be a constant, and torch starts again: no failure, and the break that ended
    the first attempt is the one that ends the next."""
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(smoothed, backend="aot_eager")
    with dynexplore.watch() as seen:
        results = [compiled(torch.ones(3), smooth) for smooth in (0.5, 0.25, 0.125)]
    assert [value for _, value in results] == [smoothed(torch.ones(3), smooth)[1] for smooth in (0.5, 0.25, 0.125)]
    recording = seen.recording
    assert "TensorifyScalarRestartAnalysis" in [one.reason for one in recording.of(ev.AttemptRestarted)]
    assert not recording.of(ev.BackendFailed)
    assert len(recording.breaks) == sum(counters["graph_break"].values())
    assert len(recording.graphs) == counters["stats"]["unique_graphs"]
    assert "item()" in headline(recording).lines[1]


class Settings:
    scale = 2.0


def missing_of(settings: Settings) -> float:
    value: float = settings.missing  # type: ignore[attr-defined]
    return value


def scale_of(settings: Settings) -> float:
    try:
        return missing_of(settings)
    except AttributeError:
        return settings.scale


def stepped(x: torch.Tensor, settings: Settings) -> torch.Tensor:
    y = x * scale_of(settings)
    for one in (1, 2):
        with torch.no_grad():
            torch._dynamo.graph_break()
            y = y + one
    return y


def test_a_frame_is_given_up_where_it_failed_and_not_where_an_exception_was_caught() -> None:
    """An exception that leaves a function and is caught by its caller is no failure: what ends the attempt comes after it."""
    torch._dynamo.reset()
    with dynexplore.watch() as seen:
        torch.compile(stepped, backend="eager")(torch.ones(2), Settings())
    (broke,) = seen.recording.of(ev.GraphBroke)
    assert broke.inline == 0  # not in `missing_of`
    code = next(one.code for one in seen.recording.of(ev.FrameEntered) if one.frame == broke.frame)
    (row,) = [row for row in code.rows if row.offset == broke.offset]
    assert row.op.startswith("CALL") and row.line == stepped.__code__.co_firstlineno + 4
