"""views/many_guards.py: a container whose items have a thousand guards is named, with what helps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.recording.recording import Recording
from dynexplore.views.headline import headline
from dynexplore.views.many_guards import most_guarded

pytestmark = pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
ENGINES = ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)]


def strides(rows: Any, x: torch.Tensor) -> Any:
    return [sum(row) for row in rows], x + 1


def in_a_tensor(rows: torch.Tensor, x: torch.Tensor) -> Any:
    return rows.sum(1), x + 1


def explained(engine: str, function: Any, *args: Any) -> Recording:
    torch._dynamo.reset()
    return dynexplore.explain(function, *args, engine=engine).recording


def guards_of(recording: Recording) -> int:
    return sum(len(recording.final_guards(graph.frame)) for graph in recording.graphs)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_container_is_named_and_a_tensor_helps(engine: str) -> None:
    """A list of lists of ints, each of which the graph depends on."""
    rows = [list(range(40)) for _ in range(30)]
    before = explained(engine, strides, rows, torch.ones(2))
    found, shown = most_guarded(before), headline(before)
    assert found is not None and found.source == "rows" and found.guards >= 1200
    assert "guards check the items of `rows` one by one" in shown.where and "pass it as a tensor" in shown.remedy
    after = explained(engine, in_a_tensor, torch.tensor(rows), torch.ones(2))
    assert most_guarded(after) is None and guards_of(after) < guards_of(before) / 10


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_of_many_layers_is_not_named(engine: str) -> None:
    """It has as many guards, and needs them: they are about its modules."""
    model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(40)])
    recording = explained(engine, model, torch.ones(2))
    assert recording.graphs and most_guarded(recording) is None and not headline(recording).where
