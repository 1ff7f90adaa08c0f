"""torch.cond: both branches are in the graph, and the tensor that chooses is asked in each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.arange(6.0).reshape(2, 3) + 0.5
LAYER = torch.nn.Linear(3, 3)
SEEN: list[int] = []


def choice(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """What `torch.cond` means."""
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def sine_or_cosine(cond: Any, x: Any) -> Any:
    """No closure."""
    return cond(x.sum() > 0, torch.sin, torch.cos, (x,)) * 2 + x


def closures_and_parameters(cond: Any, x: Any) -> Any:
    """Each branch uses tensors of its own."""
    y, z = x * 2, x.exp()
    first, (second,) = cond(x.sum() > 0, lambda a: (LAYER(a) * y, (a + z,)), lambda a: (a * z, (LAYER(y) - a,)), (x,))
    return first.tanh() + second, y


def one_inside_another(cond: Any, x: Any) -> Any:
    """A branch chooses again."""

    def inner(a: Any) -> Any:
        return cond(a.max() > 4, lambda b: b.exp() * x, lambda b: b.tan() + 1, (a * 2,))

    return cond(x.sum() > 0, inner, lambda a: a.cos() * x, (x + 1,))


def new_tensors_may_change(cond: Any, x: Any) -> Any:
    """What a branch makes is its own, and a list, too."""

    def fills(a: Any) -> Any:
        parts = []
        for row in a:
            parts.append(row.sin())
        return [torch.stack(parts).add_(1)]

    return cond(x.sum() > 0, fills, lambda a: [a * 3], (x,))[0] + 1


PROGRAMS = [sine_or_cosine, closures_and_parameters, one_inside_another, new_tensors_may_change]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_either_branch(program: Callable[..., Any], backend: str) -> None:
    """Values and gradients are those of the branch that the tensor chooses; nothing is compiled twice."""
    dynexplore.reset()
    compiled = dynexplore.optimize(backend, nopython=True)(lambda x: program(torch.cond, x))
    for factor in (1.0, -1.0, 0.1, -2.0):
        x = (X * factor).requires_grad_()
        expected, found = program(choice, x), compiled(x)
        torch.testing.assert_close(found, expected)
        outputs = [(side[0] if isinstance(side, tuple) else side).sum() for side in (expected, found)]
        gradients = [torch.autograd.grad(output, [x, *LAYER.parameters()], allow_unused=True) for output in outputs]
        for right, ours in zip(*gradients, strict=True):
            if right is not None or ours is not None:
                torch.testing.assert_close(ours if ours is not None else torch.zeros_like(right), _or_zero(right, ours))
    assert dynexplore.counters["stats"]["graphs"] == 1
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), program(choice, X))


def _or_zero(right: Any, ours: Any) -> Any:
    """torch's operator gives zeros where the branch not taken would have used a tensor."""
    return right if right is not None else torch.zeros_like(ours)


def test_a_condition_that_is_known_takes_its_branch() -> None:
    """Numbers and sizes are asked while tracing; the other branch is not looked at."""
    assert_same_as_eager(lambda x: torch.cond(x.shape[0] > 1, torch.sin, torch.cos, (x,)), X, then=[(X[:1],)], breaks=0)
    assert_same_as_eager(lambda x: torch.cond(True, lambda: x + 1, lambda: x.item()), X, graphs=1, breaks=0)


def changes_a_list(a: Any) -> Any:
    SEEN.append(1)
    return a.sin()


@pytest.mark.parametrize("branch", [
    changes_a_list, lambda a: a.add_(1), lambda a: a, lambda a: a[:, 0], lambda a: (a.sin(), a.cos()), lambda a: a.sin().int(),
    lambda a: 3, torch.nn.functional.dropout,
])  # fmt: skip
def test_a_branch_that_is_not_traced_says_so(branch: Callable[..., Any]) -> None:
    """A branch that changes something, or returns something else than the other, is one clear error under nopython."""
    dynexplore.reset()
    compiled = dynexplore.optimize("eager", nopython=True)(lambda x: torch.cond(x.sum() > 0, branch, torch.cos, (x * 2,)))
    with pytest.raises(dynexplore.exc.DynexploreError, match=r"DX421|torch\.cond"):
        compiled(X)
    assert not SEEN
