"""Cutting a graph into pieces, and running them one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.fx
from torch import nn

import dynexplore
from dynexplore.engine.graph.partition import Piece, calls, can_be_cut, cut, joined
from engine_checks import CountingBackend


def captured(function: Any, *args: Any) -> torch.fx.GraphModule:
    """The graph that the engine makes of a function."""
    backend = CountingBackend()
    dynexplore.optimize(backend, nopython=True)(function)(*args)
    (graph,) = backend.graphs
    return graph


def run_in_pieces(graph: torch.fx.GraphModule, starts: list[int], *inputs: Any) -> tuple[list[Piece], Any]:
    """The pieces, and what they give one after the other."""
    nodes = calls(graph)
    pieces = cut(graph, [nodes[start] for start in starts])
    return pieces, joined(graph, pieces, [piece.module for piece in pieces])(*inputs)


def test_pieces_give_what_the_whole_gives() -> None:
    """However a graph is cut, its value is the same, bit by bit."""

    def f(x: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x)
        b = a * x
        return torch.cos(b) + a

    x = torch.randn(4)
    graph = captured(f, x)
    for starts in ([], [1], [2, 3], [1, 2, 3]):
        pieces, (value,) = run_in_pieces(graph, starts, x)
        assert len(pieces) == len(starts) + 1
        assert torch.equal(value, f(x))


@pytest.mark.plain("cuts graphs made by hand")
def test_inputs_and_outputs_of_a_piece() -> None:
    """What goes in is what it uses and does not make; what comes out is what is used after it."""
    graph = torch.fx.symbolic_trace(lambda x, y: (x + y) * torch.relu(x))
    first, second = cut(graph, [calls(graph)[1]])
    assert [node.name for node in first.inputs] == ["x", "y"]
    assert [node.name for node in first.outputs] == ["add"]
    assert [node.name for node in second.inputs] == ["x", "add"]
    assert [node.name for node in second.outputs] == ["mul"]
    assert [(node.name, node.meta.get("piece")) for node in calls(graph)] == [("add", 1), ("relu", 2), ("mul", 2)]


def test_changes_in_place_keep_their_order() -> None:
    """A piece that returns nothing and only writes into an input runs where it stood."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x.mul_(2)
        return x * x

    graph = captured(f, torch.ones(2))
    x = torch.ones(2)
    _, (*_, value) = run_in_pieces(graph, [1, 2], x)
    assert value.tolist() == [16, 16]
    assert x.tolist() == [4, 4]


def test_random_numbers_are_drawn_in_order() -> None:
    """Pieces draw what the whole graph draws."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(nn.functional.dropout(x, 0.5), 0.5) + torch.rand(8)

    graph = captured(f, torch.ones(8))
    torch.manual_seed(1)
    whole = f(torch.ones(8))
    torch.manual_seed(1)
    _, (value,) = run_in_pieces(graph, [1], torch.ones(8))
    assert torch.equal(value, whole)


def test_a_mode_that_is_on_at_a_border_is_on_on_both_sides() -> None:
    """Each piece enters autocast for itself and leaves it again."""

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x
            b = a @ x
        return b.float() @ x

    x = torch.randn(3, 3)
    graph = captured(f, x)
    names = [node.name for node in calls(graph)]
    pieces, (value,) = run_in_pieces(graph, [names.index("matmul_1")], x)
    assert torch.equal(value, f(x))
    targets = [[node.target.__name__ for node in piece.module.graph.nodes if node.op == "call_function"] for piece in pieces]
    assert targets[0] == ["_enter_autocast", "matmul", "_exit_autocast"]
    assert targets[1][:2] == ["_enter_autocast", "matmul"]
    assert pieces[1].module(*[{"x": x, "matmul": (x @ x).bfloat16()}[node.name] for node in pieces[1].inputs])
    assert not torch.is_autocast_enabled("cpu")


def test_gradients_that_are_off_stay_off_in_the_next_piece() -> None:
    """A piece that begins in a `no_grad` block sets it first: compiled by itself it would not know."""

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a = x * 2
            b = a * 3
        return b * x

    x = torch.ones(2, requires_grad=True)
    graph = captured(f, x)
    names = [node.name for node in calls(graph)]
    pieces, (*_, value) = run_in_pieces(graph, [names.index("mul_1")], x)
    value.sum().backward()
    assert torch.is_grad_enabled()
    assert x.grad is not None and x.grad.tolist() == [6, 6]
    first = next(node for node in pieces[1].module.graph.nodes if node.op == "call_function")
    assert (first.target, first.args) == (torch._C._set_grad_enabled, (False,))


def test_a_symbolic_size_goes_with_the_tensor() -> None:
    """A piece that takes a tensor of symbolic size takes the input that names the symbol, too."""

    def f(x: torch.Tensor, rows: int) -> torch.Tensor:
        return torch.relu(x * rows) + 1

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend, dynamic=True)(f)
    optimized(torch.ones(4, 2), 4)
    graph = backend.graphs[-1]
    _, second = cut(graph, [calls(graph)[1]])
    symbols = {
        str(node.meta["example_value"]) for node in graph.graph.nodes if isinstance(node.meta.get("example_value"), torch.SymInt)
    }
    taken = {str(node.meta["example_value"]) for node in second.inputs if isinstance(node.meta["example_value"], torch.SymInt)}
    sizes = {
        str(size)
        for node in second.inputs
        if isinstance(node.meta["example_value"], torch.Tensor)
        for size in node.meta["example_value"].shape
    }
    assert taken == sizes & symbols


@pytest.mark.plain("cuts graphs made by hand")
def test_attributes_are_shared() -> None:
    """A parameter or a module that the graph holds is the same object in its pieces."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    graph = torch.fx.symbolic_trace(lambda x: x)
    graph = torch.fx.GraphModule({"weight": model[0].weight}, _with_attribute())
    pieces, value = run_in_pieces(graph, [1], torch.ones(3))
    assert all(piece.module.weight is model[0].weight for piece in pieces)
    assert torch.equal(value, (torch.ones(3) + model[0].weight) * model[0].weight)


def _with_attribute() -> torch.fx.Graph:
    graph = torch.fx.Graph()
    x, weight = graph.placeholder("x"), graph.get_attr("weight")
    graph.output(graph.call_function(torch.mul, (graph.call_function(torch.add, (x, weight)), weight)))
    return graph


def test_a_size_that_only_data_tell_cannot_be_handed_on() -> None:
    """Such a graph stays whole."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x) * 2

    with dynexplore.config.patch(capture_dynamic_output_shape_ops=True):
        assert not can_be_cut(captured(f, torch.ones(3)))
    assert can_be_cut(captured(lambda x: x * 2, torch.ones(3)))
