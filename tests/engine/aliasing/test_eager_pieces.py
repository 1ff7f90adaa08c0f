"""aliasing/eager_pieces.py: under a compiler of torch recurrent layers run as they stand, and all around them is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore.engine.aliasing.eager_pieces import has_eager_node, pieces_of
from dynexplore.engine.aliasing.metadata import GraphMetadata
from dynexplore.engine.graph.finished_graph import FinishedGraph
from engine_checks import graphs_compiled


class Tagger(nn.Module):
    """A layer before, a recurrent one, and what is done with each part of its result."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(3, 4), nn.Linear(10, 2)
        self.layer = getattr(nn, kind)(4, 5, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        out, state = self.layer(self.before(x).relu())
        kept = state[0] if isinstance(state, tuple) else state
        return self.after(out.tanh()).sum(), kept.sum()


class Two(nn.Module):
    """Two recurrent layers in a row, the state of the first used at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(3, 4), nn.GRU(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (hidden, cell) = self.first(x)
        out, last = self.second(out * 2)
        return out.sum() + last.sum() + hidden.sum() * cell.mean()


def results(fn: Callable[..., Any], shape: tuple[int, ...]) -> list[torch.Tensor]:
    """What a function of a tensor gives, and the gradient of the tensor."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    given = fn(x)
    values = list(given) if isinstance(given, tuple) else [given]
    torch.stack(values).sum().backward()
    assert x.grad is not None
    return [*(value.detach() for value in values), x.grad]


def assert_as_in_eager(fn: Callable[..., Any], *shapes: tuple[int, ...], graphs: int) -> None:
    """One of torch's backends by its name, which a backend that counts would hide, gives what eager gives."""
    dynexplore.reset()
    compiled = dynexplore.optimize("aot_eager", nopython=True)(fn)
    for shape in shapes:
        torch.testing.assert_close(results(compiled, shape), results(fn, shape))
    assert graphs_compiled() == graphs


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_values_and_gradients(kind: str) -> None:
    """A recurrent layer between others gives eager's values and gradients, in one graph, and one more for all other sizes."""
    assert_as_in_eager(Tagger(kind), (2, 5, 3), (2, 5, 3), graphs=1)
    assert_as_in_eager(Tagger(kind), (2, 5, 3), (2, 7, 3), (2, 9, 3), graphs=2)


def test_layers_in_a_row() -> None:
    """Each layer of several is a piece, whatever is used of its result later."""
    assert_as_in_eager(Two(), (5, 2, 3), (5, 2, 3), graphs=1)


def test_a_layer_in_a_block() -> None:
    """Modes that are on at a border are on in each piece."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        with torch.no_grad():
            z, _ = LAYER(y)
            z = z + 1
        return (z * y.sum()).sum()

    assert_as_in_eager(fn, (5, 2, 3), graphs=1)


LAYER = nn.LSTM(3, 4)


def captured(fn: Callable[..., Any], *inputs: Any) -> FinishedGraph:
    """The graph of a function, as a backend is given it."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    dynexplore.optimize(backend)(fn)(*inputs)
    (graph,) = graphs
    return FinishedGraph(graph, [], [])


def test_only_what_is_no_recurrent_layer_is_compiled() -> None:
    """What a compiler would unroll it does not get to see."""
    pieces = pieces_of(captured(Two(), torch.randn(5, 2, 3)))
    assert [has_eager_node(piece.module) for piece in pieces] == [False, True, False, True, False]
    pieces = pieces_of(captured(Tagger("GRU"), torch.randn(2, 5, 3)))
    assert [has_eager_node(piece.module) for piece in pieces] == [False, True, False]


def test_a_graph_that_writes_stays_whole() -> None:
    """Pieces could see each other's memory."""
    graph = captured(Two(), torch.randn(5, 2, 3))
    graph.meta = GraphMetadata(has_mutation=True)
    assert pieces_of(graph) == []


def test_a_graph_without_one_stays_whole() -> None:
    """Nothing is cut where there is no recurrent layer."""
    assert pieces_of(captured(lambda x: x.relu() + 1, torch.ones(2))) == []
