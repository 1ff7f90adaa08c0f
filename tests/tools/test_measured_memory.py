"""What operators take inside, read from an allocator around each of them. The allocator here is one of the test's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from dynexplore.tools import compiler_stages
from dynexplore.tools.measured_memory import Allocator, allocator_of


class Counting(Allocator):
    """Says that the operator at hand took 100 bytes more than it leaves, the next one 200, and so on."""

    def __init__(self) -> None:
        super().__init__(set())
        self.operators = 0

    def live(self) -> int:
        return 1000

    def highest(self) -> int:
        return 1000 + 100 * self.operators

    def restart(self) -> None:
        self.operators += 1


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> list[Counting]:
    """An allocator for each half of a graph, as if it ran on a GPU."""
    made: list[Counting] = []

    def allocator(graph: torch.fx.Graph) -> Counting:
        made.append(Counting())
        return made[-1]

    monkeypatch.setattr(compiler_stages, "allocator_of", allocator)
    return made


def loss(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).sum()


def watched() -> tuple[Any, Recording]:
    """The function in a region of its own, and the recording of all that happens there."""
    recording = Recording()
    return wrap(loss, watched_store("aot_eager", Options(), recording).region), recording


def test_each_operator_is_measured_when_its_half_runs_first(counting: list[Counting]) -> None:
    """Forward in the call, backward when backward runs; results and gradients are those of eager."""
    x = torch.arange(3.0).requires_grad_()
    compiled, recording = watched()
    with dynexplore.config.patch(artifacts=("memory",)):
        result = compiled(x)
        (memory,) = recording.memory
        assert [stage.measured for stage in memory.stages] == [True, False]
        assert [node.inside for node in memory.stages[0].nodes] == [100 * (at + 1) for at in range(len(memory.stages[0].nodes))]
        result.backward()
    (memory,) = recording.memory
    assert memory.is_measured and all(node.inside for node in memory.nodes)
    assert memory.peak is not None and memory.peak.bytes == max(node.live + node.inside for node in memory.nodes)
    other = torch.arange(3.0).requires_grad_()
    loss(other).backward()
    assert torch.equal(result, loss(other)) and torch.equal(x.grad, other.grad)  # type: ignore[arg-type]


def test_later_runs_read_nothing(counting: list[Counting]) -> None:
    """A second call, with other numbers, runs the half as it was compiled."""
    compiled, _ = watched()
    with dynexplore.config.patch(artifacts=("memory",)):
        compiled(torch.ones(3))
        read = [allocator.operators for allocator in counting]
        assert torch.equal(compiled(torch.zeros(3)), loss(torch.zeros(3)))
    assert read == [allocator.operators for allocator in counting] and sum(read) > 0


def test_values_on_the_cpu_have_no_allocator() -> None:
    """Nothing is measured, and nothing is said to be."""
    with dynexplore.config.patch(artifacts=("memory",)):
        (memory,) = dynexplore.explain(loss, torch.ones(3), backend="aot_eager").recording.memory
    assert not memory.is_measured and not any(node.inside for node in memory.nodes)
    graph = torch.fx.Graph()
    graph.placeholder("x").meta["val"] = torch.ones(3)
    assert allocator_of(graph) is None
