"""torch.func.grad and vjp: the function and its derivative are captured with the program around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.program_table import Programs
from torch.func import functional_call, grad, grad_and_value, jacrev, vjp

import dynexplore
from engine_checks import assert_same_as_eager

pytestmark = pytest.mark.skipif(
    not hasattr(torch._functorch.predispatch, "_unwrap_for_grad"), reason="older versions unwrap in C: torch.func.grad breaks"
)
PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()
LEAF = torch.ones(3, requires_grad=True)
LAYER = torch.nn.Linear(3, 2)


def cubes(x: torch.Tensor) -> torch.Tensor:
    return (x**3).sum()


@program(X, graphs=1)
def a_gradient_and_the_gradient_of_that(x):
    return grad(cubes)(x) + 1, grad(lambda y: grad(cubes)(y).sum())(x)


@program(X.detach(), graphs=1)
def a_closure_over_tensors_that_need_gradients(x):
    y = x * LEAF
    return grad(lambda z: (z * y * LEAF).sum())(x[0])


@program(X, graphs=1)
def several_arguments_and_more_than_the_loss(x):
    def loss(p, scale, *, shift):
        return (p["w"] * scale + shift).sum(), p["w"] + 1

    return grad(loss, argnums=(0, 1), has_aux=True)({"w": x, "v": x[0]}, x * 2, shift=1.0), grad_and_value(cubes)(x)


@program(X, graphs=1)
def a_pullback_called_later(x):
    value, pull = vjp(torch.sin, x)
    return value, pull(torch.ones_like(value)), pull(value)


@program(X, graphs=1)
def gradients_of_each_sample(x):
    parameters = dict(LAYER.named_parameters())
    return torch.vmap(grad(lambda p, row: functional_call(LAYER, p, (row,)).sum()), in_dims=(None, 0))(parameters, x)


@program(X, graphs=1)
def without_gradients_outside(x):
    with torch.no_grad():
        inner = grad(cubes)(x)
    return inner, grad(lambda y: (y.detach() * y).sum())(x), torch.is_grad_enabled()


@program(X, graphs=1)
def one_step_of_maml(x):
    weight = x[:, :2] * 1

    def inner(w):
        return ((x @ torch.ones(3, 2) @ w.T) ** 2).mean()

    return inner(weight - 0.1 * grad(inner)(weight))


@program(X, graphs=1)
def jacobians_in_reverse(x):
    def model(a, b):
        return (LAYER(a).tanh() * b[:2]).sin(), a.sum()

    both = jacrev(model, argnums=(0, 1))(x[0], x[1])
    return both, jacrev(model, chunk_size=1)(x[0], x[1]), jacrev(jacrev(cubes))(x[0]), jacrev(cubes).__name__


@program(X, graphs=1, breaks=["DX206"])
def a_break_inside_is_a_break_before_the_call(x):
    def loss(y):
        print("inside")
        return cubes(y)

    z = x * 2
    return grad(loss)(z)


@PROGRAMS.parameters()
def test_derivatives(run: Callable[[], Any]) -> None:
    """Each program gives what it gives in eager, gradients of gradients included."""
    run()


FOR_COMPILERS = [a_gradient_and_the_gradient_of_that, one_step_of_maml, gradients_of_each_sample, jacobians_in_reverse]


@pytest.mark.parametrize("fn", FOR_COMPILERS)
def test_through_a_compiler(fn: Callable[..., Any]) -> None:
    """A compiler that traces the graph again sees the derivative in it."""
    assert_same_as_eager(fn, X, graphs=1, breaks=0, backend="aot_eager")


def kept_across_a_break(x):
    out, back = vjp(torch.sin, x)
    dynexplore.graph_break()
    return out, back(torch.ones_like(x))


def broken_inside(x):
    def sine(inner):
        dynexplore.graph_break()
        return inner.sin()

    out, back = vjp(sine, x)
    return out, back(torch.ones_like(x))


@pytest.mark.parametrize("program", [kept_across_a_break, broken_inside])
def test_what_vjp_keeps_for_later_is_no_business_of_a_compiler(program):
    """The derivative of what was computed before a graph began is left to Python, which remembers how that was done."""
    assert_same_as_eager(program, torch.ones(2), backend="aot_eager")
