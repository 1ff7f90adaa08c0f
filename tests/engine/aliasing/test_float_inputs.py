"""Floats that change from call to call, under backends that take tensors and ints only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.torch_version import TorchVersion

import dynexplore
from dynexplore.engine.counters import counters

VALUES = (0.5, 0.75, 2.0, -3.0, 1.0, 0.0)


def rate(x: Any, a: float) -> Any:
    return (x * a).sin() + a, x * (a * 2 + 1) - a


def whole_numbers(x: Any, a: float) -> Any:
    return torch.arange(3) * a + x


def updated_in_place(x: Any, a: float) -> Any:
    y = x.clone()
    y.mul_(a).add_(1)
    return y


def stays_a_float(x: Any, a: float) -> Any:
    return torch.full((2,), a), torch.add(x, x, alpha=a)


def an_exponent(x: Any, a: float) -> Any:
    return x**a


def from_the_left(x: Any, a: float) -> Any:
    return (a - x) / (2.5 + a * a) + a / (x * x + 1)


def base_of_a_power(x: Any, a: float) -> Any:
    return (a * a) ** x, torch.where(x > a, x, a) * a


def of_whole_numbers(x: Any, a: float) -> Any:
    y = torch.arange(3)
    return x + (a - y), y > a, (a * 3 - 0.5) - y.sum(), a ** (y + 1)


def two_rates(x: Any, a: float) -> Any:
    b = a * 0.5
    return x * a + x * b, {"sum": a + b}


# before torch 2.13 a power asks its base whether it is 1 or 2: these values have a graph of their own, and then the others
GRAPHS = {base_of_a_power: 3, of_whole_numbers: 4} if TorchVersion(torch.__version__) < (2, 13) else {}


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own, on import
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize(
    "program", [rate, whole_numbers, updated_in_place, two_rates, from_the_left, base_of_a_power, of_whole_numbers]
)
def test_one_graph_serves_every_value(program: Any, backend: str) -> None:
    """The first value has a graph of its own, as a constant of the program would."""
    dynexplore.reset()
    counters.clear()
    optimized = dynexplore.optimize(backend)(program)
    for value in VALUES:
        x, same = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        found, expected = optimized(x, value), program(same, value)
        torch.testing.assert_close(found, expected)
        for one, other in ((found, x), (expected, same)):
            first = one[0] if isinstance(one, tuple) else one
            first.sum().backward()
            assert other.grad is not None
        torch.testing.assert_close(x.grad, same.grad)
    assert counters["stats"]["graphs"] == GRAPHS.get(program, 2)


@pytest.mark.parametrize("program", [stays_a_float, an_exponent])
def test_a_float_that_has_to_stay_one_is_compiled_for_its_value(program: Any) -> None:
    """Nothing is wrong, nothing is said to have failed, and the backend was not asked in vain."""
    dynexplore.reset()
    counters.clear()
    optimized = dynexplore.optimize("aot_eager")(program)
    for value in VALUES:
        torch.testing.assert_close(optimized(torch.ones(2), value), program(torch.ones(2), value))
    assert counters["stats"]["graphs"] == len(VALUES)
    recording = dynexplore.explain(program, torch.ones(2), 7.5, backend="aot_eager").recording
    assert not [event for event in recording.events if type(event).__name__ == "BackendFailed"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_nan_and_infinity_are_never_symbols(backend: str, dtype: torch.dtype) -> None:
    """What ShapeEnv concludes of nan holds for no other number: it would be found for all that come later."""

    def program(x: Any, a: float) -> Any:
        return a - x, x * a

    dynexplore.reset()
    optimized = dynexplore.optimize(backend)(program)
    x = torch.tensor(0.25, dtype=dtype)
    for value in (1.5, float("nan"), 2.5, float("inf"), -0.0, float("nan"), 7.5, float("-inf"), 0.0):
        assert repr(optimized(x, value)) == repr(program(x, value))
    each = backend == "aot_eager" and dtype == torch.float16  # a scalar of 16 bits: see test_float_operators.py
    assert counters["stats"]["graphs"] == (8 if each else 3)


class Scaled(torch.autograd.Function):
    """Its backward has a side effect, so that it runs between two pieces of the graph."""

    seen: list[float] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: float) -> torch.Tensor:
        ctx.a = a
        return x * a

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        Scaled.seen.append(ctx.a)
        return gradient * ctx.a, None


def test_a_piece_without_the_float() -> None:
    """AOTAutograd checks every float of the frame; a piece that has none of them compiles, too."""

    def program(x: Any, a: float) -> Any:
        return Scaled.apply((x * 2).sin(), a) + x.cos()

    dynexplore.reset()
    compiled = dynexplore.optimize("aot_eager")(program)
    for a in VALUES:
        results = []
        for function in (program, compiled):
            x = torch.ones(3, requires_grad=True)
            result = function(x, a)
            result.sum().backward()
            results.append((result.detach(), x.grad))
        torch.testing.assert_close(*results)
    assert Scaled.seen == [a for a in VALUES for _ in range(2)]
    assert counters["stats"]["graphs"] >= 1
