"""Graphs that are captured once, whatever the backend, and lowered for those that cannot trace them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine.variables.torch_.test_data_dependent_indexing import X
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled


def test_a_view_that_is_returned_is_cut_out() -> None:
    """The rest of the graph goes to the backend, and the view is taken as written."""
    backend = CountingBackend("aot_eager")

    def row_and_more(x: torch.Tensor, t: torch.Tensor) -> Any:
        y = x.sin()
        return y, y[t], (y * 2).cos()

    assert_same_as_eager(row_and_more, X, torch.tensor(1), then=[(X, torch.tensor(0))], backend=backend, breaks=0)
    assert backend.targets() == [["sin"], ["mul", "cos"]]
    assert not dynexplore.counters["backend_skipped"]


def test_a_new_leaf_is_made_outside_of_what_the_backend_gets() -> None:
    """It is the leaf that gets the gradient, and what is computed from it is compiled with the leaf as an input."""

    def new_leaf(x: torch.Tensor) -> Any:
        weight = torch.ones(2, requires_grad=True)
        return (weight * x).sin(), weight

    backend = CountingBackend("aot_eager")
    x = torch.tensor([1.0, 2.0])
    (expected, leaf), (result, own) = new_leaf(x), dynexplore.optimize(backend, nopython=True)(new_leaf)(x)
    expected.sum().backward(), result.sum().backward()
    assert own.is_leaf and torch.equal(own.grad, leaf.grad)
    assert backend.targets() == [["mul", "sin"]]


def test_a_view_of_data_has_the_version_counter_of_the_data() -> None:
    """`x.data[1:]` is taken as written, and the rest is compiled."""

    def view_of_data(x: torch.Tensor) -> Any:
        return x.data[1:], (x * 2).sin()

    backend = CountingBackend("aot_eager")
    x = torch.ones(3, requires_grad=True)
    view, _ = dynexplore.optimize(backend, nopython=True)(view_of_data)(x)
    view.add_(1)
    assert x.tolist() == [1.0, 2.0, 2.0]
    assert x._version == 0 and not view.requires_grad
    assert backend.targets() == [["getitem", "mul", "sin"]]


SCALE = [2.0]
FACTOR = 3.0


class Scaled(torch.autograd.Function):
    """Reads a list from outside, which may change between calls."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * SCALE[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * SCALE[0]


class Multiplied(torch.autograd.Function):
    """Reads a number from outside, which a guard can hold to its value."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 3


def test_a_function_that_reads_what_may_change_is_cut_out() -> None:
    """Its code runs in each call, with the list as it is then, and the rest goes to the backend."""

    def scales(x: torch.Tensor) -> torch.Tensor:
        return Scaled.apply(x.sin()).cos()

    backend = CountingBackend("aot_eager")
    x = torch.ones(3, requires_grad=True)
    compiled = dynexplore.optimize(backend, nopython=True)(scales)
    for SCALE[0] in (2.0, 5.0):
        assert torch.equal(compiled(x), scales(x))
        assert torch.equal(*(torch.autograd.grad(fn(x).sum(), x)[0] for fn in (compiled, scales)))
    assert backend.targets() == [["sin"], ["cos"]]


@pytest.mark.parametrize(("backend", "recompiles"), [("eager", 0), ("aot_eager", 1)])
def test_a_number_that_forward_reads_is_guarded_for_a_backend_that_traces_it(
    backend: str, recompiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under "eager" forward itself reads the number in each call."""

    def multiplies(x: torch.Tensor) -> torch.Tensor:
        return Multiplied.apply(x.sin())

    x = torch.ones(3, requires_grad=True)
    compiled = dynexplore.optimize(backend, nopython=True)(multiplies)
    assert torch.equal(compiled(x), multiplies(x))
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    assert torch.equal(compiled(x), multiplies(x))
    assert dynexplore.counters["stats"]["recompiles"] == recompiles
    assert graphs_compiled() == 1 + recompiles


def on_default_devices(x: torch.Tensor) -> Any:
    with torch.device("meta"):
        inside = torch.ones(2), torch.arange(3), torch.tensor([1.0]), torch.as_tensor(x), torch.zeros(2, device="cpu")
    return [*inside, torch.ones(2), x + 1]


def test_constructors_get_their_device_and_modes_are_erased() -> None:
    """A backend gets each device as an argument, and no node that enters or exits a default device."""
    backend = CountingBackend("aot_eager")
    (compiled,) = recorded(on_default_devices, (X,), backend=backend).of(ev.SubgraphCompiled)
    assert backend.targets() == [["ones", "arange", "tensor", "as_tensor", "zeros", "ones", "add"]]
    assert compiled.lowerings == ("default devices: ones, arange, tensor, as_tensor, ones_1, enter_device, leave_device",)
    assert "enter_device" in compiled.code


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("device", ["meta", "cpu", None])
def test_constructors_follow_the_default_device_of_each_call(device: str | None, backend: str) -> None:
    """The devices of the results are eager's, with a default device around the call and without."""

    def devices(function: Any) -> list[str]:
        try:
            torch.set_default_device(device)
            return [value.device.type for value in function(X)]
        finally:
            torch.set_default_device(None)

    run = dynexplore.optimize(backend, nopython=True)(on_default_devices)
    for _ in range(2):
        assert devices(run) == devices(on_default_devices)
        assert [value.device.type for value in run(X)] == [value.device.type for value in on_default_devices(X)]
    assert dynexplore.counters["stats"]["graphs"] > 0


@torch.library.custom_op("tests_lowerings::creates", mutates_args=())
def creates(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.ones(1).device, copy=True)


@creates.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, device=torch.ones(1).device)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_code_of_the_program_sees_the_default_device(backend: str) -> None:
    """A custom operator creates tensors itself, so the modes stay where it is called in their block."""

    def inside(x: torch.Tensor) -> Any:
        with torch.device("meta"):
            y = creates(x)
        return y.device.type, creates(x).device.type

    run = dynexplore.optimize(backend)(inside)
    assert [run(X) for _ in range(2)] == [inside(X)] * 2
    assert dynexplore.counters["stats"]["graphs"] > 0
