"""An attribute of a tensor's own hides a method of its class: added, replaced and taken back between calls, it is seen.

A compiler calls the method that torch has; the backend "eager" would call what the tensor has, and see what no guard saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

BACKENDS = ["eager", "aot_eager"]


def ones(**own: Any) -> torch.Tensor:
    """A tensor with attributes of its own."""
    tensor: Any = torch.ones(3)
    tensor.__dict__.update(own)
    return tensor  # type: ignore[no-any-return]


def seven() -> int:
    return 7


def nine() -> int:
    return 9


def values(fn: Callable[..., Any], argument: Any, tensor: Any, own: Sequence[Any], backend: str | None) -> list[Any]:
    """What the calls give, each with another `sum` on the tensor (None: with none), as plain Python or under the engine."""
    dynexplore.reset()
    called = fn if backend is None else dynexplore.optimize(backend)(fn)
    results = []
    for function in own:
        tensor.__dict__.pop("sum", None)
        if function is not None:
            tensor.sum = function
        results.append(called(argument).detach().item())
    return results


ORDERS = [(None, seven, None, nine), (seven, None, nine, None)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ORDERS)
def test_another_tensor_that_hides_a_method(order: Sequence[Any], backend: str) -> None:
    """Tensors with and without an attribute of their own, in both orders; what is called is guarded, or that it is torch's."""
    first, *then = [ones() if own is None else ones(sum=own) for own in order]
    assert_same_as_eager(
        lambda t: (t + 1).mean() + t.sum(), first, then=[(t,) for t in then], backend=backend, graphs=3, breaks=0, recompiles=2
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", ["argument", "closure", "attribute", "list", "parameter"])
def test_a_method_hidden_between_calls(place: str, order: Sequence[Any], backend: str) -> None:
    """One tensor, wherever it hangs, whose method is hidden and shown again between calls."""
    layer = torch.nn.Linear(3, 1)
    tensor = layer.weight if place == "parameter" else ones()
    x = torch.ones(1)
    programs: dict[str, tuple[Callable[..., Any], Any]] = {
        "argument": (lambda t: x + t.sum(), tensor),
        "closure": (lambda x: x + tensor.sum(), x),
        "attribute": (lambda o: x + o.bias.sum(), layer),
        "list": (lambda several: x + several[0].sum(), [tensor]),
        "parameter": (lambda x: x + layer.weight.sum(), x),
    }
    if place == "attribute":
        tensor = layer.bias
    fn, argument = programs[place]
    expected = values(fn, argument, tensor, order, backend=None)
    assert values(fn, argument, tensor, order, backend) == pytest.approx(expected)
    assert graphs_compiled() == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bound_method_of_a_tensor_is_asked_for_too(backend: str) -> None:
    """`m = t.sum` and `getattr(t, "sum")` find what the tensor has."""

    def f(t: torch.Tensor) -> Any:
        bound = t.sum
        return t.mean() + bound() + getattr(t, "max")()

    assert_same_as_eager(f, ones(), then=[(ones(sum=seven),), (ones(max=nine),)], backend=backend, graphs=3, recompiles=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_method_asked_of_the_class_is_not_hidden(backend: str) -> None:
    """`torch.Tensor.sum(t)` is torch's own, whatever the tensor has: a graph would call it by its name."""
    assert_same_as_eager(
        lambda t: t + torch.Tensor.sum(t), ones(), then=[(ones(sum=seven),)], backend=backend, breaks=["DX411"]
    )


def test_properties_are_not_hidden() -> None:
    """What torch computes comes before an attribute of the tensor's own: no guard fails."""
    assert_same_as_eager(lambda t: t.sum() + t.ndim, ones(), then=[(ones(ndim=seven, other=1),)], graphs=1, recompiles=0)
