"""Stale views: reading `grad_fn` or `is_leaf` of a view whose base got a history has an effect, so the engine must not read them.

Each program mutates the base of a view after a graph break, and does something with the view. Then the caller mutates each
result in place, which eager refuses for a view whose grad_fn nobody has read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def stale_views(a: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    alias = a.detach()[1:]
    view = alias.view(-1)
    inner = view[1:]
    dynexplore.graph_break()
    alias *= w.sum()
    return view, inner


def returns_them(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    return view.shape[0] * w, view, inner


def reads(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    return view * 2 + w.sum(), view, inner


def mutates(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    try:
        view.mul_(2)
    except RuntimeError:
        return w * 3, view, inner
    return view, inner


def reads_and_mutates(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    twice = view * 2
    view.mul_(2)
    return twice, view, inner


def mutates_in_no_grad(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    with torch.no_grad():
        view.add_(1)
        return view * 3, view, inner


def asks_for_is_leaf(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    return view.is_leaf, view, inner


def asks_for_grad_fn(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    return view.grad_fn is None, view, inner


def takes_a_view(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    return view[:2], view, inner


def breaks_again(a: torch.Tensor, w: torch.Tensor) -> Any:
    view, inner = stale_views(a, w)
    total = view.sum()
    dynexplore.graph_break()
    return total * w, view, inner


PROGRAMS = [
    returns_them, reads, mutates, reads_and_mutates, mutates_in_no_grad, asks_for_is_leaf, asks_for_grad_fn, takes_a_view,
    breaks_again,
]  # fmt: skip


def mutated(tensor: torch.Tensor) -> Any:
    """What an in-place operator makes of it, or says."""
    try:
        return tensor.mul_(2).tolist()
    except RuntimeError as error:
        return str(error)


def outcome(run: Program, size: int) -> list[Any]:
    a, w = torch.arange(float(size)) + 1, torch.linspace(0.5, 2, size).requires_grad_()
    results = run(a, w)
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    seen: list[Any] = [mutated(tensor) for tensor in reversed(tensors)]
    torch.stack([tensor.sum() for tensor in tensors if tensor.requires_grad]).sum().backward()
    return [*seen, *(result.tolist() if isinstance(result, torch.Tensor) else result for result in results), a.tolist(), w.grad]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_stale_view_is_left_as_it_is(program: Program) -> None:
    """In the capture, in a call that hits the cache, and for another size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {size: repr(outcome(program, size)) for size in (6, 8)}
        assert "a leaf Variable" in expected[6]  # eager refuses one of them
        for backend in ("eager", "aot_eager"):
            dynexplore.reset()
            run = dynexplore.optimize(backend)(program)
            assert [repr(outcome(run, size)) for size in (6, 6, 8)] == [expected[size] for size in (6, 6, 8)], backend
            assert dynexplore.counters["stats"]["graphs"] > 0
