"""Hooks on the tensors that autograd keeps (`torch.autograd.graph.saved_tensors_hooks`), on in some calls and off in others.

They are the program's own functions: they see real tensors only, and those of this call. Capturing runs the same operators on fake
tensors, and AOTAutograd would build such hooks as it can compile into what it makes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import dynexplore
from engine_checks import graphs_compiled


def times(factor: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Hooks in Python, which show in the gradient that they ran."""
    return lambda tensor: tensor * factor, lambda tensor: tensor


def traced(factor: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The same as graphs of torch.fx, which AOTAutograd would compile in."""
    pack, unpack = times(factor)
    return torch.fx.symbolic_trace(pack), torch.fx.symbolic_trace(unpack)


HOOKS: dict[str, Any] = {"none": None, "times 2": times(2), "times 3": times(3), "graph 5": traced(5), "graph 7": traced(7)}


def square(x: torch.Tensor) -> torch.Tensor:
    return x * x


def with_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x * x
    print(end="")
    return y * x


class Square(torch.autograd.Function):
    """It keeps its input by itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2 * ctx.saved_tensors[0]


def with_a_function(x: torch.Tensor) -> torch.Tensor:
    return Square.apply(x) + 1


def with_a_checkpoint(x: torch.Tensor) -> Any:
    return checkpoint(square, x, use_reentrant=False)


def with_a_transform(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda y: (y * y).sum())(x) * x


def gradient(function: Callable[[Any], Any], hooks: Any) -> Any:
    """The gradient that one call leaves, or what it raises."""
    x = torch.arange(1.0, 4.0, requires_grad=True)
    try:
        if hooks is None:
            function(x).sum().backward()
        else:
            with saved_tensors_hooks(*hooks):
                function(x).sum().backward()
    except RuntimeError as error:
        return str(error)
    assert x.grad is not None
    return x.grad.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("body", [square, with_a_break, with_a_function, with_a_checkpoint])
@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(HOOKS, 2)))
def test_each_call_has_the_hooks_of_that_call(first: str, second: str, body: Callable[..., Any], backend: str) -> None:
    """Whatever hooks there were when the function was captured, the gradients are those that the hooks of this call give."""
    captured = dynexplore.optimize(backend)(body)
    for name in (first, second, first):
        assert gradient(captured, HOOKS[name]) == gradient(body, HOOKS[name])
    assert graphs_compiled() >= 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("hooks", [name for name in HOOKS if name != "none"])
@pytest.mark.parametrize("begins_with_them", [False, True])
def test_a_transform_refuses_to_run_under_hooks(hooks: str, begins_with_them: bool, backend: str) -> None:
    """torch.func.grad raises under hooks and works without, whichever it was captured with."""
    captured = dynexplore.optimize(backend)(with_a_transform)
    for on in (begins_with_them, not begins_with_them, begins_with_them):
        now = HOOKS[hooks] if on else None
        expected = gradient(with_a_transform, now)
        assert gradient(captured, now) == expected
        assert ("yet support saved tensor hooks" in expected) == on
    assert graphs_compiled() >= 1


@pytest.mark.parametrize("inside", [False, True])
def test_a_hook_sees_real_tensors_only_and_as_often_as_in_eager(inside: bool) -> None:
    """Capturing calls no hook of the program, neither outside of the function nor inside."""
    seen: list[tuple[str, type, tuple[int, ...]]] = []

    def note(what: str) -> Callable[[torch.Tensor], torch.Tensor]:
        def hook(tensor: torch.Tensor) -> torch.Tensor:
            seen.append((what, type(tensor), tuple(tensor.shape)))
            return tensor

        return hook

    hooks = note("pack"), note("unpack")

    def body(x: torch.Tensor) -> torch.Tensor:
        if not inside:
            return (x.sin() * x).exp()
        with saved_tensors_hooks(*hooks):
            return (x.sin() * x).exp()

    gradient(body, None if inside else hooks)
    expected = seen[:]
    assert len(expected) == 8
    captured = dynexplore.optimize("eager")(body)
    for _ in range(2):
        seen.clear()
        gradient(captured, None if inside else hooks)
        assert seen == expected
    assert graphs_compiled() >= 1


def test_capturing_leaves_the_hooks_of_the_program_on() -> None:
    """What the program does after a first call inside its hooks is seen by them; those of an outer block come back, too."""
    captured = dynexplore.optimize("aot_eager")(square)
    with saved_tensors_hooks(*times(3)):
        with saved_tensors_hooks(*times(2)):
            captured(torch.ones(3, requires_grad=True))
            assert gradient(square, None) == [4.0, 8.0, 12.0]
        assert gradient(square, None) == [6.0, 12.0, 18.0]
    assert gradient(square, None) == [2.0, 4.0, 6.0]
    assert graphs_compiled() == 1


def test_save_on_cpu_around_a_call() -> None:
    """torch's own hooks, which keep what backward needs in another place."""
    captured = dynexplore.optimize("eager")(square)
    for on in (True, False, True):
        x = torch.arange(1.0, 4.0, requires_grad=True)
        if on:
            with save_on_cpu():
                captured(x).sum().backward()
        else:
            captured(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 4.0, 6.0]
    assert graphs_compiled() == 1
