"""Which nodes of a graph run the program's own Python code, and the notes of what they give."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from dynexplore.engine.graph.custom_operators import CallNotes, calls, is_of_program, with_recorded_results

pytestmark = pytest.mark.plain("reads graphs that are put together by hand")


@torch.library.custom_op("tests_program_operators::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Cube(torch.autograd.Function):
    """Not torch's own."""

    @staticmethod
    def forward(ctx, x):
        return x**3


def graph_of(*targets):
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    for target in targets:
        value = graph.call_function(target, (value,))
    graph.output((value,))
    return graph


def module_of(*targets):
    return torch.fx.GraphModule(torch.nn.Module(), graph_of(*targets))


PROGRAMS = [torch.ops.tests_program_operators.twice, torch.ops.tests_program_operators.twice.default, Cube.apply, graph_of]
TORCHS = [torch.sin, torch.ops.aten.sin.default, torch.ops.aten.sin, torch.nn.functional.relu, torch.relu]


def test_whose_code_a_node_runs():
    """Custom operators, functions and autograd.Functions are the program's; torch's own operators are not."""
    for target in [*PROGRAMS, *TORCHS]:
        node = list(graph_of(target).nodes)[1]  # torch 2.14 makes no module of a graph that calls Cube.apply
        assert is_of_program(node) is (target in PROGRAMS), target


def test_results_are_noted_in_order():
    """Inside a call of a graph each result of a custom operator is noted; outside nothing is."""
    module = module_of(torch.sin, twice._opoverload, torch.cos, torch.ops.tests_program_operators.twice)
    noted = with_recorded_results(module)
    x = torch.ones(2)
    calls.current = notes = CallNotes()
    try:
        (result,) = noted(x)
    finally:
        calls.current = None
    assert torch.equal(result, module(x)[0])
    assert [name for name, _ in notes.operators] == [twice._opoverload, torch.ops.tests_program_operators.twice]
    assert torch.equal(notes.operators[0][1], x.sin() * 2)
    assert torch.equal(noted(x)[0], result)
    assert len(notes.operators) == 2


def test_a_graph_of_torchs_operators_is_left_as_it_is():
    """Nothing is copied where nobody has to be asked."""
    module = module_of(torch.sin, torch.cos)
    assert with_recorded_results(module) is module
