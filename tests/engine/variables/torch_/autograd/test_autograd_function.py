"""The program's own torch.autograd.Functions: one node where gradients flow, their forward inlined where none do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(9.0).reshape(3, 3)
WANTS = X.clone().requires_grad_()
WEIGHT = torch.full((3, 3), 0.5, requires_grad=True)


class Scaled(torch.autograd.Function):
    """Times a number, with a gradient that is told from autograd's."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor + x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * x * 7 * ctx.factor, None


class Same(torch.autograd.Function):
    """What comes in goes out."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 5


class AddsInPlace(torch.autograd.Function):
    """Changes its first argument."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.needed = ctx.needs_input_grad
        x.add_(y)
        return x, x * y, ctx.needed

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], gradients[1], None


class WithSetup(torch.autograd.Function):
    """Forward and context apart."""

    @staticmethod
    def forward(x: Any, weight: Any) -> Any:
        return x @ weight, 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Any, _: Any) -> Any:
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


class ThroughGlobal(torch.autograd.Function):
    """Uses a parameter that is no argument."""

    @staticmethod
    def forward(ctx: Any, x: Any, returned: bool = False) -> Any:
        return WEIGHT if returned else x @ WEIGHT

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None


class Layered(torch.autograd.Function):
    """Takes modules and a list that it fills."""

    @staticmethod
    def forward(ctx: Any, x: Any, layers: Any, seen: list[Any]) -> Any:
        for layer in layers:
            x = layer(x)
            seen.append(x)
        ctx.layers = layers
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient, None, None


KEPT: list[Any] = []


class KeepsContext(torch.autograd.Function):
    """Its context outlives the call."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        KEPT.append(type(ctx).__name__)
        KEPT.append(ctx)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


@program(X, graphs=1, ops=5)
def inlined(x):
    return Scaled.apply(x, 3.0) * Scaled.apply(x)


@program(WANTS, graphs=1, ops=3)
def one_node_where_gradients_flow(x):
    return Scaled.apply(x) * 2


@program(WANTS, graphs=1, ops=5)
def inlined_without_gradient_mode(x):
    with torch.no_grad():
        return Scaled.apply(x) * 2


@program(X, graphs=1, ops=1)
def an_input_comes_back_as_another_tensor(x):
    y = Same.apply(x)
    return y is x, y + 1


@program(X, X + 1, graphs=1, ops=2)
def changed_in_place(x, y):
    x = x.clone()
    a, b, needed = AddsInPlace.apply(x, y)
    return a is x, a + b, needed


@program(X, X + 1, graphs=1, ops=2)
def with_setup_context(x, weight):
    product, three = WithSetup.apply(x, weight)
    return product + three


@program(X, graphs=1, ops=3)
def a_parameter_that_is_no_argument(x):
    inner, returned = ThroughGlobal.apply(x), ThroughGlobal.apply(x, True)
    return inner.requires_grad, returned.requires_grad, inner * 2, returned * 2


@program(X, graphs=1, ops=2)
def modules_and_lists(x):
    layers = [torch.relu, torch.sin]
    seen = []
    return Layered.apply(x, layers, seen), seen


@PROGRAMS.parameters()
def test_autograd_function(run: Any) -> None:
    """Value, gradients and changes are eager's, in one graph."""
    run()


def test_a_context_that_is_kept_is_made_for_real() -> None:
    """The call of `apply` breaks the graph then; what was kept is autograd's own object."""

    def fn(x):
        return KeepsContext.apply(x + 1) + 1

    KEPT.clear()
    assert_same_as_eager(fn, X, observe=lambda: [type(kept).__name__ for kept in KEPT], setup=KEPT.clear, breaks=1)
    assert isinstance(KEPT[1], torch.autograd.function.BackwardCFunction)


@pytest.mark.parametrize("wants", [False, True])
def test_the_same_function_with_and_without_gradients(wants: bool) -> None:
    """Whether an argument wants a gradient is guarded."""

    def fn(x):
        return Scaled.apply(x) + 1

    first, second = (WANTS, X) if wants else (X, WANTS)
    assert_same_as_eager(fn, first, graphs=2, then=[(second,)])


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("x", [X, WANTS])
def test_of_an_instance(x: Any) -> None:
    """`Scaled().apply(x)` of older code is captured; the warning that eager gives is torch's own and left out."""
    dynexplore.reset()
    captured = dynexplore.optimize("eager", nopython=True)(lambda x: Scaled().apply(x) + 1)
    torch.testing.assert_close(captured(x), Scaled.apply(x) + 1)
    assert graphs_compiled() == 1


class Tripled(torch.autograd.Function):
    """It changes its first input, and gives it back beside a tensor of its own and what it was told."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, also: torch.Tensor, told: object) -> Any:
        x.mul_(3)
        ctx.mark_dirty(x)
        return also * 2, x, told

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[1] * 3, grads[0] * 2, None


def triples(x: torch.Tensor, told: object) -> Any:
    y, other = x * 1, x * 2
    doubled, tripled, answer = Tripled.apply(y, other, told)
    return tripled, y, tripled is y, doubled is other, answer, (tripled + doubled).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_input_marked_as_dirty_comes_back_itself(backend: str) -> None:
    """`apply` gives the very tensor back that the forward has changed and marked, with its new history."""
    for told in (None, "told"):
        assert_same_as_eager(triples, torch.ones(2, requires_grad=True), told, backend=backend, graphs=1, breaks=0)
