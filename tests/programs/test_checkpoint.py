"""torch.utils.checkpoint: a checkpointed function is a body of the graph, which really is computed again in backward."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from programs.program_table import Programs
from torch.nn.functional import dropout
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import dynexplore
from engine_checks import assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()
LAYER = torch.nn.Linear(3, 3)
NORM = torch.nn.BatchNorm1d(3)
BLOCKS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3), torch.nn.Tanh())
SEEN: list[int] = []


@program(X, graphs=1)
def a_function_with_dropout(x):
    y = x * 2
    z = checkpoint(lambda a: dropout(torch.relu(LAYER(a)), 0.5) * y.sin(), y, use_reentrant=False)
    return z + dropout(x, 0.5), y


@program(X, graphs=1)
def a_module_in_a_loop(x):
    for _ in range(3):
        x = checkpoint(LAYER, x, use_reentrant=False, preserve_rng_state=True)
    return x


@program(X, graphs=1)
def keyword_arguments_and_a_nest_as_result(x):
    def body(a, *, scale, parts):
        first, second = (a * scale).chunk(2)
        return {"first": first.exp(), "rest": [second + parts[0], a, a.shape[0], None]}

    found = checkpoint(body, x, scale=3.0, parts=(x[0],), use_reentrant=False)
    return found["first"] * found["rest"][2], found["rest"][:2], found["rest"][1] is x


@program(X, graphs=1)
def one_inside_another(x):
    def outer(a):
        inner = checkpoint(lambda b: dropout(LAYER(b).sin(), 0.5), a.cos(), use_reentrant=False)
        return inner.exp() * a

    return checkpoint(outer, x, use_reentrant=False) + 1


@program(X, graphs=1)
def two_beside_each_other_inside_a_third(x):
    def outer(a):
        first = checkpoint(torch.sin, a, use_reentrant=False)
        second = checkpoint(torch.cos, first * a, use_reentrant=False)
        return first, second, second + first

    return checkpoint(outer, x, use_reentrant=False)


@program(X, graphs=1)
def modes_inside_and_around(x):
    def body(a):
        with torch.no_grad():
            fixed = a.exp()
        return (LAYER(a) * fixed).float()

    with torch.autocast("cpu"):
        cast = checkpoint(body, x, use_reentrant=False)
    with torch.no_grad():
        return cast, checkpoint(body, x, use_reentrant=False)


@program(X, graphs=1)
def new_objects_of_the_body_may_change(x):
    def body(a):
        found, total = [], 0

        def note(value):
            nonlocal total
            total = total + value.sum()
            found.append(value)

        for row in a:
            note(row.sin())
        fresh = torch.zeros(3)
        fresh.add_(found[1])
        return fresh * total

    return checkpoint(body, x, use_reentrant=False)


@program(X, graphs=1)
def sequential_blocks(x):
    return checkpoint_sequential(BLOCKS, 2, x, use_reentrant=False)


@program(X, graphs=1)
def a_body_without_an_operator(x):
    return checkpoint(lambda a: (a, 3), x, use_reentrant=False), x.sin()


@program(X.detach(), graphs=1)  # with gradients, eager's own checkpoint of torch 2.11 raises once more in backward
def an_error_inside_that_the_program_handles(x):
    def body(a):
        b = a.sin()
        if b.shape[0] == 2:
            raise ValueError("two rows")
        return b

    try:
        return checkpoint(body, x, use_reentrant=False)
    except ValueError as error:
        return x.cos(), str(error)


# -- what a second run would show --------------------------------------------------------------------------------------


def changes_a_list(a):
    SEEN.append(1)
    return a.sin()


def draws_numbers(a):
    return a.sin() * random.random()


def updates_statistics(a):
    return NORM(a).sin()


def prints(a):
    print("inside")
    return a.sin()


@pytest.mark.parametrize("body", [changes_a_list, draws_numbers, updates_statistics, prints])
def test_what_a_second_run_would_show_breaks(body: Callable[..., Any]) -> None:
    """A body that changes, draws or prints something runs as plain Python does: once in forward, once more in backward."""

    def run(x: Any) -> Any:
        SEEN.clear()
        return checkpoint(body, x * 2, use_reentrant=False).exp() + x

    report = assert_same_as_eager(
        run, X, calls=2, setup=NORM.reset_running_stats, observe=lambda: (len(SEEN), NORM.running_mean, NORM.num_batches_tracked)
    )
    assert report.breaks, "the graph breaks at the call"


def test_an_outer_list_of_the_same_frame() -> None:
    """A list that the frame made before the call is not the body's own."""

    def run(x: Any) -> Any:
        found: list[Any] = []

        def body(a: Any) -> Any:
            found.append(a.shape)
            return a.sin()

        return checkpoint(body, x * 2, use_reentrant=False), found

    assert "DX421" in assert_same_as_eager(run, X).breaks


@pytest.mark.parametrize("options", [
    {"use_reentrant": True},
    {"use_reentrant": False, "preserve_rng_state": False},
    {"use_reentrant": False, "determinism_check": "none"},
])  # fmt: skip
def test_an_option_that_is_not_traced_breaks(options: Mapping[str, Any]) -> None:
    """Its value is the same as in eager."""
    report = assert_same_as_eager(lambda x: checkpoint(torch.sin, x * 2, **options) + 1, X)
    assert "DX421" in report.breaks


# -- what is captured --------------------------------------------------------------------------------------------------


@PROGRAMS.parameters()
def test_checkpoints(run: Callable[[], Any]) -> None:
    """Each program gives what it gives in eager, gradients and random numbers included."""
    run()


@pytest.mark.parametrize("fn", [
    a_function_with_dropout, a_module_in_a_loop, keyword_arguments_and_a_nest_as_result, one_inside_another,
    two_beside_each_other_inside_a_third, modes_inside_and_around, sequential_blocks,
])  # fmt: skip
def test_through_a_compiler(fn: Callable[..., Any]) -> None:
    """A compiler that traces the graph again sees the bodies in it."""
    assert_same_as_eager(fn, X, graphs=1, breaks=0, calls=2, backend="aot_eager")


def test_symbolic_sizes() -> None:
    """A size that changes goes into the body, and what it makes of it comes out."""

    def run(x: Any) -> Any:
        wide, count = checkpoint(lambda a: (a.reshape(-1).sin(), a.shape[0] * 2), x + 1, use_reentrant=False)
        return wide * count + x.shape[0]

    assert_same_as_eager(run, X, then=[(torch.ones(5, 3),), (torch.ones(7, 3),)], breaks=0)
    compiled = dynexplore.optimize("aot_eager", nopython=True)(run)
    for rows in (2, 5, 7):
        x = torch.rand(rows, 3, requires_grad=True)
        expected, found = run(x).sum(), compiled(x).sum()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))


class _Operators(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_computes_again(backend: str) -> None:
    """What is inside the body is carried out once more in backward; what is outside is not."""
    dynexplore.reset()

    def run(x: Any) -> Any:
        return checkpoint(lambda a: a.exp().tanh().exp(), x, use_reentrant=False).atan().sum()

    result = dynexplore.optimize(backend, nopython=True)(run)(X)
    with _Operators() as seen:
        torch.autograd.grad(result, X)
    assert "aten.tanh.default" in seen.names
    assert "aten.atan.default" not in seen.names
    assert dynexplore.counters["stats"]["graphs"] == 1
