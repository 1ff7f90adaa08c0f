"""Parameters, modules and copies of modules made inside the compiled function (torch_/nn/new_parameter.py, module_copy.py)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

BACKENDS = ("eager", "aot_eager")


def names_in(module: nn.Module) -> list[str]:
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_made_of_a_new_tensor_is_in_the_graph(backend: str) -> None:
    """`nn.Parameter(t)` of a tensor that the frame made, in several calls, with gradients."""

    def f(x: torch.Tensor) -> Any:
        parameter = nn.Parameter(x.detach().sin() * 2)
        frozen = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        return x * parameter + frozen, parameter, parameter.is_leaf, parameter.requires_grad, type(frozen), parameter.grad

    assert_same_as_eager(f, torch.randn(3, requires_grad=True), graphs=1, breaks=0, calls=3, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_new_parameter_gets_its_gradient(backend: str) -> None:
    """It is a leaf of its own in each call, and `backward()` outside of the function fills its `grad`."""

    def f(x: torch.Tensor) -> Any:
        layer = nn.Linear(3, 2)
        return layer(x).sin().sum(), layer

    def trained(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        results: list[Any] = []
        for number in range(3):
            loss, layer = function(torch.full((2, 3), float(number)))
            loss.backward()
            results += [loss.detach(), layer.weight.grad, layer.bias.grad, layer.weight.detach()]
            assert isinstance(layer.weight, nn.Parameter) and [*layer.state_dict()] == ["weight", "bias"]
        return results

    expected = trained(f)
    dynexplore.reset()
    before = graphs_compiled()
    torch.testing.assert_close(trained(dynexplore.optimize(backend)(f)), expected)
    assert graphs_compiled() == before + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_modules_made_in_the_frame_are_one_graph(backend: str) -> None:
    """Their `__init__` draws the same random numbers, registers the same names, and what leaves the frame is a real module."""

    def f(x: torch.Tensor) -> Any:
        made = nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.ReLU(), nn.LayerNorm(3))
        return made(x), made, names_in(made), list(made[0]._parameters), torch.rand(1)

    assert_same_as_eager(f, torch.randn(5, 4), graphs=1, breaks=0, calls=2, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_gets_a_new_parameter(backend: str) -> None:
    """`self.w = nn.Parameter(...)` replaces the one that was registered; the gradient goes to the new one."""

    class Renewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.w = nn.Parameter(self.w.detach() * 2)
            return x * self.w

    assert_same_as_eager(Renewing(), torch.randn(4), breaks=0, calls=3, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_on_memory_that_is_used_again_is_made_by_python(backend: str) -> None:
    """Where the tensor it is made of is written to, read or returned later, both must be one memory."""

    def written(x: torch.Tensor) -> Any:
        data = torch.ones(3)
        parameter = nn.Parameter(data)
        data.add_(1)
        return x * parameter

    def returned(x: torch.Tensor) -> Any:
        data = x.sin()
        return nn.Parameter(data), data

    def a_view_is_read(x: torch.Tensor) -> Any:
        data = torch.ones(2, 3)
        row = data[0]
        parameter = nn.Parameter(data)
        with torch.no_grad():
            parameter.add_(1)
        return x * parameter + row

    for function in (written, returned, a_view_is_read):
        assert_same_as_eager(function, torch.randn(3), breaks=["DX318"], calls=2, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_on_memory_from_outside_is_made_by_python(backend: str) -> None:
    """`nn.Parameter(x)` of an argument is on the argument's memory."""

    def f(x: torch.Tensor) -> Any:
        parameter = nn.Parameter(x)
        with torch.no_grad():
            parameter.mul_(2)
        return parameter, x + 1

    assert_same_as_eager(f, torch.randn(3), breaks=["DX201"], calls=2, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_that_fails_behind_a_new_parameter(backend: str) -> None:
    """The frame runs again as plain Python, raises what it raises, and goes on in the next call."""

    def f(x: torch.Tensor, index: torch.Tensor) -> Any:
        return nn.Embedding(3, 4)(index) * nn.Parameter(torch.ones(4)) * x

    x, fits, fails = torch.randn(4), torch.tensor([2]), torch.tensor([7])
    assert_same_as_eager(f, x, fits, then=[(x, fails), (x, fits)], graphs=1, backend=backend)


class Tied(nn.Module):
    """Two layers of one weight, buffers of both kinds, attributes of other kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("shift", torch.ones(4), persistent=False)
        self.sizes = [4, 4]
        self.act = torch.relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.act(self.norm(self.first(x)))) * self.scale + self.shift + len(self.sizes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_deep_copy_of_a_module_is_in_the_graph(backend: str) -> None:
    """`copy.deepcopy(module)`: new parameters, the same data; what was shared is shared, the original left alone."""
    module = Tied()

    def f(x: torch.Tensor) -> Any:
        made = copy.deepcopy(module)
        made.sizes.append(4)
        with torch.no_grad():
            made.first.weight.mul_(0.5)
        same = made.first.weight is made.second.weight, made.first.weight is module.first.weight
        return made(x), module(x), same, names_in(made), made.sizes

    assert_same_as_eager(f, torch.randn(3, 4), graphs=1, breaks=0, calls=3, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_deep_copy_of_a_module_leaves_the_frame(backend: str) -> None:
    """A target network that is made in the first call is a real module, with the weights of that moment."""

    class Online(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            self.target: nn.Module | None = None

        def forward(self, x: torch.Tensor) -> Any:
            if self.target is None:
                self.target = copy.deepcopy(self.net).eval()
            with torch.no_grad():
                for mine, other in zip(self.target.parameters(), self.net.parameters(), strict=True):
                    mine.mul_(0.9).add_(other, alpha=0.1)
            return self.net(x) - self.target(x), names_in(self), self.target.training

    assert_same_as_eager(Online(), torch.randn(3, 4), graphs=2, breaks=0, calls=3, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_deep_copy_of_tensors_is_in_the_graph(backend: str) -> None:
    """Tensors in a nest are cloned; one that appears twice is one in the copy."""

    def f(x: torch.Tensor) -> Any:
        nest = {"a": x + 1, "b": [torch.zeros(2), x]}
        nest["c"] = nest["a"]
        made = copy.deepcopy(nest)
        made["a"].add_(1)  # type: ignore[union-attr]
        return nest, made, made["a"] is made["c"]

    assert_same_as_eager(f, torch.randn(3), graphs=1, breaks=0, calls=2, backend=backend)


def test_what_python_must_copy_breaks_the_graph() -> None:
    """Tensors that share memory, tensors with a history, modules with hooks or a protocol of their own."""
    hooked, weird = nn.Linear(3, 3), nn.LSTM(3, 3)
    hooked.register_forward_hook(lambda module, args, result: result * 2)

    def views(x: torch.Tensor) -> Any:
        whole = x + 1
        made = copy.deepcopy([whole, whole[:2]])
        made[0].add_(1)
        return made

    def with_hooks(x: torch.Tensor) -> Any:
        return copy.deepcopy(hooked)(x)

    def with_a_protocol(x: torch.Tensor) -> Any:
        return copy.deepcopy(weird)(x)[0]

    assert_same_as_eager(views, torch.randn(3), breaks=["DX416"])
    assert_same_as_eager(with_hooks, torch.randn(2, 3), breaks=["DX205"])
    assert_same_as_eager(with_a_protocol, torch.randn(2, 3), breaks=["DX205"])
