"""torch.vmap: captured with the program around it; what cannot be traced inside is a break before the whole call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from programs.program_table import Programs
from torch._higher_order_ops.associative_scan import associative_scan

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()
WEIGHT = torch.arange(12.0).reshape(3, 4) / 10


@program(X.detach().clone(), graphs=1, ops=8)
def beside_a_write_to_an_argument(x):
    """Whether a tensor under vmap lies in the memory that is written to is asked of the one inside."""
    mask = torch.vmap(lambda number: number < 2)(torch.arange(2))
    return x.add_(1) * mask[:, None]


@program(X.detach().clone(), graphs=1, ops=8)
def beside_a_write_inside(x):
    x.mul_(2)
    torch.vmap(torch.vmap(lambda number: number.add_(1)))(x)
    return x


@program(X, graphs=1, ops=7)
def a_closure_over_a_global_and_a_local_tensor(x):
    shift = x.sum()
    return torch.vmap(lambda row: row @ WEIGHT + shift)(x * 2)


@program(X, graphs=1, ops=8)
def dimensions_in_and_out(x):
    first, second = torch.vmap(lambda a, b: (a * b, b.sum()), in_dims=(0, -1), out_dims=(1, 0))(x, x.t())
    return first + 1, second


@program(X, graphs=1, ops=12)
def one_inside_the_other(x):
    def table(a, b):
        return torch.vmap(torch.vmap(lambda p, q: p * q + 2, in_dims=(None, 0)), in_dims=(0, None))(a, b)

    return table(x[:, 0], x[:, 1])


@program(X, graphs=1, ops=6)
def shapes_are_those_of_one_example(x):
    seen = []

    def double(row, scale):
        seen.append((row.shape, row.dim(), len(row)))
        return {"twice": row * scale["by"], "views": [row.view(3, 1)]}

    return torch.vmap(double, in_dims=(0, None))(x, {"by": 2.0}), seen


@program(X, graphs=1, ops=14)
def in_chunks(x):
    return torch.vmap(torch.sum, chunk_size=1)(x) + 1


@program(X.detach(), graphs=1, ops=6)
def written_in_place(x):
    y = torch.zeros_like(x)
    torch.vmap(lambda row, new: row.copy_(new).mul_(2))(y, x)
    return y, x


@program(X, graphs=2, ops=[1, 1], breaks=1)
def a_break_inside(x):
    def tells(row):
        print("one example", row.shape)
        return row * 2

    return torch.vmap(tells)(x + 1) * 3


@program(X, graphs=2, ops=[5, 6], breaks=1)
def a_break_after_a_level_was_entered_and_left(x):
    y = torch.vmap(torch.sum)(x)
    dynexplore.graph_break()
    return torch.vmap(torch.sin)(y) + 1


@program(X, graphs=1, ops=4)
def an_error_of_the_function_is_caught(x):
    def raises(row):
        raise KeyError("one example")

    try:
        return torch.vmap(raises)(x)
    except KeyError as error:
        return x + 1, str(error)


@program(X, graphs=1, ops=1)
def dimensions_that_do_not_fit(x):
    try:
        return torch.vmap(torch.add, in_dims=(0, 0))(x, x.t())
    except ValueError as error:
        return x + 1, str(error)


@program(X, graphs=1, ops=4)
def a_result_that_is_no_tensor(x):
    try:
        return torch.vmap(lambda row: 3)(x)
    except ValueError as error:
        return x + 1, str(error)


@program(X, graphs=1, ops=45)
def a_scan_by_an_associative_function(x):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (x, x + 1), dim=1, combine_mode="generic")


@program(X, graphs=1, ops=1)
def annotations_of_callables(x):
    def scaled(value, by: Callable[[int, str], bool] | None = None, more: list[int] | None = None):
        return value * 2

    return scaled(x), str(Callable[[int], str] | None)


@PROGRAMS.parameters()
def test_same_as_eager(run):
    """Value, exception, mutation, and how many graphs it takes."""
    run()


def test_numbers_drawn_in_each_example_are_those_of_eager():
    """Randomness that differs from example to example is drawn in the same order."""
    assert_same_as_eager(lambda x: torch.vmap(lambda row: row + torch.rand(3), randomness="different")(x), X, graphs=1, breaks=0)


def test_a_failing_graph_leaves_no_level_behind():
    """An operator that raises when the graph runs ends the levels that the graph had begun."""
    def fails(x):
        return torch.vmap(lambda row: row[0] + torch.linalg.cholesky(row.outer(row)))(x)

    with pytest.raises(torch.linalg.LinAlgError):
        dynexplore.optimize("eager")(fails)(-torch.ones(2, 3))
    assert torch._C._functorch.peek_interpreter_stack() is None and graphs_compiled() == 1


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_trained_through_a_compiler(backend):
    """The joint graph of AOTAutograd holds the levels, and gives the gradients of eager."""

    def loss(x):
        return torch.vmap(lambda row: (row @ WEIGHT).tanh().sum())(x).sum()

    eager, compiled = X.detach().clone().requires_grad_(), X.detach().clone().requires_grad_()
    loss(eager).backward()
    dynexplore.optimize(backend)(loss)(compiled).backward()
    torch.testing.assert_close(compiled.grad, eager.grad)
    assert graphs_compiled() == 1


def test_batches_of_another_size():
    """A symbolic batch size begins a level as well: one graph for all."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    doubled = dynexplore.optimize(backend, dynamic=True)(lambda x: torch.vmap(lambda row: row.sum() * 2)(x))
    for size in (4, 5, 7):
        x = torch.arange(size * 3.0).reshape(size, 3)
        torch.testing.assert_close(doubled(x), x.sum(1) * 2)
    assert len(graphs) == 1
