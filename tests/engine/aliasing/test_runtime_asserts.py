"""aliasing/runtime_asserts.py: what eager's operators demand of a data-dependent size is checked in compiled graphs, too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.config import config
from engine_checks import CountingBackend

X = torch.arange(24.0).reshape(4, 6)
MASKS = [torch.tensor(mask, dtype=torch.bool) for mask in ([1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0], [1, 0, 1, 0])]


def narrows_rows(x, mask):
    return x[mask].narrow(0, 0, 1) * 2


def narrows_by_a_number(x, mask):
    return x.narrow(0, 0, mask.sum().item() + 1) + 1


def views_rows(x, mask):
    return x[mask].view(2, 6) + 1


def checks_itself(x, mask):
    count = mask.sum().item()
    torch._check(count >= 1)
    return x[:count] + 1


def selects_a_row(x, mask):
    return x[mask].select(0, 1) + 1


def splits_by_numbers(x, mask):
    return torch.split(x, mask.to(torch.int64).tolist(), 0)[0] + 1


def adds_rows(x, mask):
    return x[mask] + torch.ones(2, 6)


def multiplies_rows(x, mask):
    return x[mask] @ torch.ones(6, 2), x[mask].T @ torch.ones(2, 6)


def expands(x, mask):
    return x[mask][:, :1].expand(2, 3) * 2


def outcome(function: Any, mask: torch.Tensor) -> str:
    try:
        return str(function(X.clone(), mask))
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [
    narrows_rows, narrows_by_a_number, views_rows, checks_itself, selects_a_row, splits_by_numbers, adds_rows, multiplies_rows,
    expands,
])  # fmt: skip
def test_a_size_that_eager_refuses_is_refused(program: Any, backend: str) -> None:
    """The same value, or the same exception, for each mask, in any order of calls."""
    counting = CountingBackend(backend)
    compiled = dynexplore.optimize(counting, nopython=True)(program)
    for mask in (*MASKS, *reversed(MASKS)):
        assert outcome(compiled, mask) == outcome(program, mask)
    assert counting.graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_pass_is_in_the_recording(backend: str) -> None:
    """Where a compiler decomposes the operator; a graph that runs as captured has eager's operators."""
    with config.patch(capture_dynamic_output_shape_ops=True):
        recording = recorded(narrows_rows, (X, MASKS[0]), backend=backend)
    (compiled,) = recording.of(ev.SubgraphCompiled)
    assert ("insert deferred runtime asserts" in compiled.passes) == (backend == "aot_eager")


def keeps_rows(x, mask):
    return x[mask] * 2


def test_a_graph_without_demands_stays_as_it_is() -> None:
    """A data-dependent size alone needs no check."""
    with config.patch(capture_dynamic_output_shape_ops=True):
        recording = recorded(keeps_rows, (X, MASKS[0]), backend="aot_eager")
    (compiled,) = recording.of(ev.SubgraphCompiled)
    assert compiled.ran_by == "aot_eager" and compiled.passes == ()
