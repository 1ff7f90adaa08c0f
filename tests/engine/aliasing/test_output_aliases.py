"""What a graph made may be changed in place behind it, as in eager: what it wrote to through views, and views that it hands out."""

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


def through_a_vector(x: Any, w: Any) -> Any:
    y = x * 2
    y.view(-1).mul_(2)
    print("break")
    y[1:].add_(w)
    return y


def through_a_transposed(x: Any, w: Any) -> Any:
    y = x * 2
    y.mT[2:3, :] = 1.5
    print("break")
    y += w
    return y


def without_gradients(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    y.unsqueeze(0).mul_(2)
    print("break")
    y[1:].add_(w)
    return y


def in_a_block(x: Any, w: Any) -> Any:
    with torch.no_grad():
        y = x * 2
        y.view(-1).mul_(2)
    print("break")
    y += w
    return y


def kept_for_backward(x: Any, w: Any) -> Any:
    y = x * w
    y.view(-1).mul_(2)
    z = y.exp() * y
    print("break")
    return z * 2, y


def a_number_of_two_parts(x: Any, w: Any) -> Any:
    y = (x * 2).to(torch.complex64)
    torch.view_as_real(y)[..., 0].mul_(3)
    print("break")
    y.add_(1)
    return y.real * w


def with_a_row_of_it(x: Any, w: Any) -> Any:
    y = x * 2
    y.view(-1).mul_(2)
    row = y[0]
    print("break")
    y[1:].add_(w)
    row.mul_(3)
    return y, row


def with_the_vector(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    vector = y.mT
    vector.mul_(2)
    print("break")
    vector.add_(y.mT)
    y.add_(w)
    return y, vector


def a_view_alone(x: Any, w: Any) -> Any:
    y = x * 2
    view = y.unsqueeze(0)
    view.mul_(2)
    print("break")
    view.add_(w)
    return view


def with_what_has_no_history(x: Any, w: Any) -> Any:
    y = x * 2
    y.view(-1).mul_(2)
    bare = y.detach()
    print("break")
    y = y * w
    return y, bare


def written_without_a_history(x: Any, w: Any) -> Any:
    y = x.sin()
    bare = y.detach()
    bare.view_as(bare)[0] = 3
    print("break")
    with torch.no_grad():
        bare[...] = w.sum()
        y[1] = w.sum()
    return bare, y


def a_view_of_what_has_no_history(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    view = y[1]
    print("break")
    view[:, -3:] = w.sum()
    return y


def two_views_of_what_is_gone(x: Any, w: Any) -> Any:
    first, second = (x.detach() * 2)[0], None
    second = first[1:]
    print("break")
    second += w
    return first, second


def a_view_of_an_argument(x: Any, w: Any) -> Any:
    view = x.mT
    bare = x.detach()[0]
    print("break")
    if not x.requires_grad:
        view += w.sum()
    bare.add_(1)
    return view, bare


def a_view_made_without_gradients(x: Any, w: Any) -> Any:
    y = x.detach() * 2
    with torch.no_grad():
        view = y[1]
    print("break")
    view += w
    return y


def integers(x: Any, w: Any) -> Any:
    y = (x * 4).long()
    row = y[1]
    print("break")
    row[0] = w.sum()
    row[1] = 3
    return y.detach()


PROGRAMS = [
    through_a_vector, through_a_transposed, without_gradients, in_a_block, kept_for_backward, a_number_of_two_parts,
    with_a_row_of_it, with_the_vector, a_view_alone,
    a_view_of_what_has_no_history, two_views_of_what_is_gone, a_view_of_an_argument, a_view_made_without_gradients, integers,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_changed_behind_the_graph(program: Any, wants: bool, backend: str) -> None:
    """Values, gradients, views and strides are eager's, whoever changes what the graph made."""
    calls = [(X.clone().requires_grad_(wants), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(1, 4), backend=backend)


def with_a_history_of_its_own(x: Any, w: Any) -> Any:
    bare = x.detach()
    bare[...] = w.sum()
    print("break")
    return bare.expand_as(bare), bare


def written_through_what_is_detached(x: Any, w: Any) -> Any:
    y = x.sin()
    bare = y.view(-1).detach()
    bare.mul_(2)
    print("break")
    y += w.sum()
    return bare, x * w


def read_beside_what_is_detached(x: Any, w: Any) -> Any:
    y = x * w
    bare, vector = y.detach()[1:], y.view(-1)
    bare.sin_()
    vector.mul_(2)
    print("break")
    return vector, bare[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", [
    with_what_has_no_history, written_without_a_history, with_a_history_of_its_own, read_beside_what_is_detached,
    written_through_what_is_detached,
])  # fmt: skip
def test_two_histories_of_one_memory(program: Any, wants: bool, backend: str) -> None:
    """What is detached, and what it was detached from, lie in one memory that the graph writes to, and are two to autograd."""
    calls = [(X.clone().requires_grad_(wants), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], backend=backend)


def written_in_a_block(x: Any, w: Any) -> Any:
    y = x * w
    with torch.no_grad():
        y.view(-1).mul_(2)
        print("break")
        y[0].mul_(2)
    return y * 3


def with_gradients_inside_of_a_block_without(x: Any, w: Any) -> Any:
    with torch.no_grad():
        with torch.enable_grad():
            y = x * w
            y.view(-1).mul_(2)
        print("break")
        y[0].mul_(2)
    return y * 3


def one_element_for_many(x: Any, w: Any) -> Any:
    y = x[0, 0, :1] * 2
    wide = y.expand(3)
    y.view(-1).mul_(2)
    print("break")
    return wide * w[0], x * w


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", [written_in_a_block, with_gradients_inside_of_a_block_without, one_element_for_many])
def test_a_copy_has_the_history_of_what_it_copies(program: Any, wants: bool, backend: str) -> None:
    """Whatever the block that the graph ends in; what lies several times in one place is not copied."""
    calls = [(X.clone().requires_grad_(wants), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], backend=backend)


def two_views_of_what_is_detached(x: Any, w: Any) -> Any:
    column = x.detach().select(-1, 0)
    vector = column.view_as(column)
    print("break")
    column *= w.sum()
    return vector, x * w


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("wants", [False, True])
def test_two_views_of_what_is_gone(wants: bool, backend: str) -> None:
    """Two views of what was detached belong together behind the graph, and not to what it was detached from."""
    calls = [(X.clone().requires_grad_(wants), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(two_views_of_what_is_detached, *calls[0], then=calls[1:], backend=backend)


@needs_compiler
@pytest.mark.parametrize("program", [with_the_vector, a_view_of_what_has_no_history])
def test_changed_behind_a_graph_of_inductor(program: Any) -> None:
    """What lies in one memory is a view there, too: the gradient of what is added to one reaches the other."""
    calls = [(X.clone(), W.detach().clone().requires_grad_()) for _ in range(2)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(1, 4), backend="inductor")


def taken_without_gradients(x: Any, w: Any) -> Any:
    with torch.no_grad():
        target = x.view_as(x)
    return target, x * w


def of_what_is_made(x: Any, w: Any) -> Any:
    y = x * w
    with torch.no_grad():
        target = y.mT
    print("break")
    return target, y


def taken_of_such_a_view(x: Any, w: Any) -> Any:
    with torch.no_grad():
        target = x[1:]
    return target[0], x * w


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [taken_without_gradients, of_what_is_made, taken_of_such_a_view])
def test_no_gradient_goes_through_a_view_made_without(program: Any, backend: str) -> None:
    """A view made in `no_grad` has no history behind the graph, and no view of it has: a compiler would take both of the base."""
    calls = [((X * 1).requires_grad_(), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], backend=backend)
    found = []
    for run in (program, dynexplore.optimize(backend)(program)):
        leaf = X.clone().requires_grad_()
        sum((one**3).sum() for one in run(leaf * 1, W) if one.requires_grad).backward()
        found.append(leaf.grad.tolist())
    assert found[0] == found[1]


def relation(x: Any, w: Any) -> Any:
    bare = x.detach()
    view = bare[:]
    view.copy_(view)
    print("break")
    bare[0] = 3
    view[...] = w.sum()
    return bare, view


def a_write_beside_a_view(x: Any, w: Any) -> Any:
    with torch.no_grad():
        turned = x.mT
        x[0] = 3
    return x * w, turned.detach()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "wants"), [(relation, False), (a_write_beside_a_view, True)])
def test_views_of_an_argument(program: Any, wants: bool, backend: str) -> None:
    """What is detached of an argument, and a view of that, belong together; who writes beside a view made without gradients may."""
    calls = [(X.clone().requires_grad_(wants), W.detach().clone().requires_grad_()) for _ in range(3)]
    assert_same_as_eager(program, *calls[0], then=calls[1:], backend=backend)


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


# -- views of views that were made in `no_grad` ----------------------------------------------------------------------


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
