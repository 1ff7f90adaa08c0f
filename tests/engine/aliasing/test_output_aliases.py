"""What the alias matrix cannot say of returned views: Inductor, a mutation by a caller whose graph has no view, texts of errors.

Values, gradients, views and storages of what is returned are cells of test_alias_matrix.py.
"""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="Inductor wants a C++ compiler")
X = torch.linspace(-1, 1, 60).reshape(3, 4, 5)
W = torch.linspace(1, 2, 5).requires_grad_()


def with_the_vector(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    vector = y.mT
    vector.mul_(2)
    print("break")
    vector.add_(y.mT)
    y.add_(w)
    return y, vector


def a_view_of_what_has_no_history(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    view = y[1]
    print("break")
    view[:, -3:] = w.sum()
    return y


@needs_compiler
@pytest.mark.parametrize("program", [with_the_vector, a_view_of_what_has_no_history])
def test_changed_behind_a_graph_of_inductor(program: Any) -> None:
    """What lies in one memory is a view there, too: the gradient of what is added to one reaches the other."""
    calls = [(X.clone(), W.detach().clone().requires_grad_()) for _ in range(2)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(1, 4), backend="inductor")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_changed_by_the_caller(backend: str) -> None:
    """What an optimized function returns can be changed in place, and is no view if it was none."""

    def program(x: Any) -> Any:
        y = x * 2
        y.view(-1).mul_(2)
        return y

    dynexplore.reset()
    found: list[Any] = []
    for run in (program, dynexplore.optimize(backend, nopython=True)(program)):
        x = X.clone().requires_grad_()
        y = run(x)
        is_view = y._is_view()
        y[1:].mul_(3)
        y.add_(1)
        (y * y).sum().backward()
        found.append((is_view, y.detach().tolist(), x.grad.tolist()))
    assert found[0] == found[1]
    assert dynexplore.counters["stats"]["graphs"] == 1


def view_of_a_view(x):
    with torch.no_grad():
        v = x[:2]
    return v.view(-1), x * 2


def both_views(x):
    with torch.no_grad():
        v = x[1:]
    return v, v.unsqueeze(0).t(), x.sin()


def two_views_of_two_views(x):
    with torch.no_grad():
        v, w = x[:2], x[1:]
    return v[:1], w.view(1, -1), x * 3


def view_behind_enable_grad(x):
    with torch.no_grad():
        v = x[:2]
        with torch.enable_grad():
            w = v[:1]
    return w, x * 2


def outcome_of_views(run, size):
    """What the outputs are to autograd, the gradient of each, and how the first one refuses a mutation."""
    x = torch.arange(float(size)).requires_grad_()
    outputs = run(x)
    facts = [
        (y.tolist(), y.requires_grad, y.grad_fn is None, y.is_leaf, y._base is x, y._is_view() and y.data_ptr() - x.data_ptr())
        for y in outputs
    ]
    gradients = [
        torch.autograd.grad(y.sum(), x, allow_unused=True, retain_graph=True)[0] for y in outputs if y.grad_fn is not None
    ]
    messages = []
    for y in outputs:
        try:
            y.mul_(2)
        except RuntimeError as error:
            # where sizes vary the view is made by `as_strided`, and autograd names that
            messages.append(str(error) if size == 3 else re.sub(r"^Output 0 of \w+", "", str(error)))
    return facts, [gradient if gradient is None else gradient.tolist() for gradient in gradients], messages, x.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [view_of_a_view, both_views, two_views_of_two_views, view_behind_enable_grad])
def test_no_gradient_flows_through_a_view_made_without_gradients(program, backend):
    """The history of its views ends there, whatever the size; the graph goes to its backend."""
    expected = [outcome_of_views(program, size) for size in (3, 3, 4, 5)]
    counting = CountingBackend(backend)
    run = dynexplore.optimize(counting, nopython=True)(program)
    assert [outcome_of_views(run, size) for size in (3, 3, 4, 5)] == expected
    assert counting.graphs
    assert not dynexplore.counters["backend_skipped"]


def view_of_an_output(x):
    with torch.no_grad():
        v = x[:2]
    w = v.view(-1)
    return w, w[:1], x * 2


def test_a_view_of_such_a_view_that_is_returned_with_it_runs_as_captured():
    """Another output in the history of such a view: the backend is skipped."""
    expected = [outcome_of_views(view_of_an_output, size) for size in (3, 3)]
    run = dynexplore.optimize("aot_eager", nopython=True)(view_of_an_output)
    assert [outcome_of_views(run, size) for size in (3, 3)] == expected
    assert [line[:4] for line in dynexplore.counters["backend_skipped"]] == ["BE09"]
