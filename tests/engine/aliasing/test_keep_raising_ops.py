"""Operators that may raise, whose results nobody uses: the graph is compiled, and the error is heard."""

from __future__ import annotations

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

IN_RANGE, OUT_OF_RANGE = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 7])


def taken(x, index):
    x[index]
    return x * 2


def written(x, index):
    buffer = torch.zeros(3)
    buffer.scatter_(0, index, x)
    return x * 2


def several_results(x, index):
    torch.ops.aten.index.Tensor(x, [index]).sort()
    torch.split(x[index], 2)
    return x.sin()


def one_needs_another(x, index):
    x[index][index].exp()
    return x.sin()


def a_number(x, index):
    x[index].sum().item()
    return x.sin()


def beside_a_written_input(x, index):
    index.add_(1).sub_(1)
    x[index]
    return x * 2


WAYS = [taken, written, several_results, one_needs_another, a_number, beside_a_written_input]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", WAYS)
def test_the_error_is_heard(way, backend, requires_grad):
    """In every call: values, gradients and errors are those of eager."""
    for index in (IN_RANGE, OUT_OF_RANGE, IN_RANGE):
        x = torch.arange(3.0, requires_grad=requires_grad)
        assert_same_as_eager(way, x, index.clone(), backend=backend)


@pytest.mark.parametrize("way", [way for way in WAYS if way is not a_number])
def test_a_backend_of_the_programs_own_gets_the_graph(way):
    """One graph with all operators, whose callers see its own outputs alone."""
    counting = CountingBackend()
    x = torch.arange(3.0, requires_grad=True)
    found = dynexplore.optimize(counting)(way)(x, IN_RANGE.clone())
    assert torch.equal(found, way(x, IN_RANGE.clone()))
    assert len(counting.graphs) == 1
    assert len(counting.graphs[0].graph.output_node().args[0]) > 1


def test_a_graph_without_such_operators_is_handed_over_as_it_is():
    """Nothing is copied, and nothing more is handed out."""
    counting = CountingBackend()
    dynexplore.optimize(counting)(lambda x, index: x[index] * 2)(torch.ones(3), IN_RANGE)
    assert len(counting.graphs[0].graph.output_node().args[0]) == 1
