"""torch.func.jvp, jacfwd and hessian: forward mode is captured with the program around it, nested in the other transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.program_table import Programs
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

import dynexplore
from engine_checks import assert_same_as_eager

pytestmark = pytest.mark.skipif(
    not hasattr(torch._functorch.predispatch, "_unwrap_for_grad"), reason="older versions unwrap in C: torch.func.jvp breaks"
)
PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
ATOMS = torch.tensor([[0.0, 0, 0], [1.1, 0, 0], [0, 1.2, 0], [0, 0, 1.3]])
NET = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
MEMBERS = [torch.nn.Linear(3, 2) for _ in range(3)]
PARAMETERS, BUFFERS = stack_module_state(MEMBERS)


def cubes(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() ** 3).prod()


@program(X, graphs=1)
def a_product_with_a_direction(x):
    return jvp(lambda a, b: a.sin() * b, (x, x + 1), (torch.ones_like(x), x.detach()))


@program(X, graphs=1)
def more_than_the_value(x):
    value, along, more = jvp(lambda a: (a.sin(), {"twice": a * 2}), (x,), (torch.ones_like(x),), has_aux=True)
    return value, along, more["twice"]


@program(X, graphs=1)
def one_inside_the_other(x):
    def slope(a):
        return jvp(torch.sin, (a,), (torch.ones_like(a),))[1]

    return jvp(slope, (x,), (torch.ones_like(x),))


@program(X, graphs=1)
def a_value_that_does_not_depend_on_the_argument(x):
    return jvp(lambda a: (a.sin(), torch.ones(3)), (x,), (x,))


@program(X, graphs=1)
def forward_in_reverse_and_reverse_in_forward(x):
    ones = torch.ones_like(x)
    value, pull = vjp(lambda a: jvp(torch.sin, (a,), (a,))[1], x)
    inner = grad(lambda a: jvp(lambda b: b**3, (a,), (ones,))[1].sum())(x)
    return jvp(grad(cubes), (x,), (ones,)), inner, value, pull(ones)


@program(X, graphs=1)
def jacobians_and_hessians(x):
    both = jacfwd(lambda a, b: (a.sin() * b, b.sum()), argnums=(0, 1))(x[0], x[1])
    return both, jacfwd(cubes)(x), hessian(cubes)(x), jacrev(jacfwd(torch.tanh))(x[0])


@program(X, graphs=1)
def a_hessian_of_each_sample(x):
    return vmap(hessian(cubes))(x), vmap(jacfwd(jacrev(lambda row: row.tanh() * row.sum())))(x)


@program(X, graphs=1)
def a_laplacian_and_a_gradient_of_a_network(x):
    parameters = dict(NET.named_parameters())

    def value(point):
        return functional_call(NET, parameters, (point,)).squeeze(-1)

    return vmap(lambda point: torch.trace(hessian(value)(point)))(x), vmap(grad(value))(x)


@program(X, graphs=1)
def second_derivatives_along_directions(x):
    def second(point, along):
        return jvp(lambda p: jvp(lambda q: NET(q).sum(), (p,), (along,))[1], (point,), (along,))[1]

    return vmap(second)(x, torch.ones_like(x))


@program(ATOMS, graphs=1)
def forces_of_lennard_jones(atoms):
    eye = torch.eye(atoms.shape[0])

    def energy(places):
        apart = places[:, None] - places[None]
        sixth = 1 / ((apart * apart).sum(-1) + eye) ** 3
        return (4 * (sixth * sixth - sixth) * (1 - eye)).sum() / 2

    return energy(atoms), -grad(energy)(atoms), hessian(energy)(atoms)


@program(X, graphs=1)
def hessians_of_an_ensemble(x):
    def one(parameters, buffers, row):
        return functional_call(MEMBERS[0], (parameters, buffers), (row,)).sin().sum()

    return vmap(hessian(one, argnums=2), in_dims=(0, 0, None))(PARAMETERS, BUFFERS, x[0])


@program(X, graphs=1)
def a_direction_in_the_parameters(x):
    parameters = dict(NET.named_parameters())
    along = {name: torch.ones_like(value) for name, value in parameters.items()}
    with torch.no_grad():
        still = jvp(lambda p: functional_call(NET, p, (x,)), (parameters,), (along,))
    return still, jvp(lambda p: functional_call(NET, p, (x,)), (parameters,), (along,)), torch.is_grad_enabled()


@program(X, graphs=1)
def an_error_about_arguments_is_caught(x):
    try:
        return jvp(torch.sin, x, x)
    except RuntimeError as error:
        return x + 1, str(error)


@program(X, graphs=1)
def an_error_inside_is_caught(x):
    def raises(y):
        raise KeyError("inside")

    try:
        return jvp(raises, (x,), (x,))
    except KeyError as error:
        return jvp(torch.sin, (x,), (x,)), str(error)


@program(X, graphs=1, breaks=["DX206"])
def a_break_inside_is_a_break_before_the_call(x):
    def tells(y):
        print("inside")
        return y.sin()

    z = x * 2
    return jvp(tells, (z,), (x,))


@PROGRAMS.parameters()
def test_derivatives(run: Callable[[], Any]) -> None:
    """Each program gives what it gives in eager, gradients included."""
    run()


@pytest.mark.parametrize("fn", [
    a_product_with_a_direction, forward_in_reverse_and_reverse_in_forward, jacobians_and_hessians, a_hessian_of_each_sample,
    a_laplacian_and_a_gradient_of_a_network, second_derivatives_along_directions, hessians_of_an_ensemble,
])  # fmt: skip
def test_through_a_compiler(fn: Callable[..., Any]) -> None:
    """A compiler that traces the graph again sees the derivative in it."""
    assert_same_as_eager(fn, X, graphs=1, breaks=0, backend="aot_eager")


def test_a_failing_graph_leaves_no_level_behind() -> None:
    """An operator that raises when the graph runs ends the levels that the graph had begun."""

    def fails(x: torch.Tensor) -> Any:
        return jvp(lambda row: torch.linalg.cholesky(-row.outer(row)), (x,), (x,))

    compiled = dynexplore.optimize("eager")(fails)
    for _ in range(2):
        with pytest.raises(torch.linalg.LinAlgError):
            compiled(torch.ones(3))
        assert torch._C._functorch.peek_interpreter_stack() is None
        with forward_ad.dual_level():  # torch allows one alone
            pass
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_a_level_of_the_program_itself() -> None:
    """Dual tensors that the program makes itself are seen by Python alone: their fake twins would have no tangents."""

    def run(x: torch.Tensor) -> Any:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x * 2, x)
            print("inside")
            return forward_ad.unpack_dual(dual.sin() + 1).tangent

    assert "DX421" in assert_same_as_eager(run, X.detach()).breaks


@pytest.mark.plain("torch raises, and nothing is captured")
def test_a_level_around_the_call() -> None:
    """torch allows one level of dual tensors: inside one of the caller's, jvp raises what it raises in eager."""

    def run(x: torch.Tensor) -> Any:
        return jvp(torch.sin, (x,), (x,))

    compiled = dynexplore.optimize("eager")(run)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="Nested forward mode AD"):
        compiled(X)
    torch.testing.assert_close(compiled(X), run(X))
