"""Blocks of inference mode inside a graph, under a compiler: the same values, marked as eager marks them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled


def views(x):
    y = x * 1
    with torch.inference_mode():
        z = y.view(-1) * 2
    return y, z, z[1:]


def writes_into_a_view(x):
    y = x * 1
    with torch.inference_mode():
        y.view(-1).add_(1)
    return y * 2


def detaches(x):
    with torch.inference_mode():
        y = x.detach()
        with torch.inference_mode(False):
            z = x * 3
        y = y + z
    return y, z, x * 2


def breaks_inside(x):
    y = x[1:] * 2
    with torch.inference_mode():
        z = y[0] + 1
        print("inside")
        z = z + x[0]
    return y, z


@torch.inference_mode()
def decorated(x):
    return x.view(-1)[1:] * 2, x


PROGRAMS = [views, writes_into_a_view, detaches, breaks_inside, decorated]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_view_in_a_block_of_inference_mode(program: Any, gradients: bool) -> None:
    """A compiler that traces the block on functional tensors raises, and leaves torch's dispatcher unusable."""

    def asked(x: torch.Tensor) -> Any:
        outs = program(x)
        return outs, [out.is_inference() for out in (outs if isinstance(outs, tuple) else (outs,))]

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=gradients)
    assert_same_as_eager(asked, x, backend="aot_eager", graphs=range(1, 4))
    expected, actual = program(x), dynexplore.optimize("aot_eager")(program)(x)
    pairs = zip(expected, actual, strict=True) if isinstance(expected, tuple) else [(expected, actual)]
    for wanted, got in pairs:
        assert (got.is_inference(), got.requires_grad) == (wanted.is_inference(), wanted.requires_grad)


def test_a_result_of_inference_mode_is_refused_by_autograd() -> None:
    """It cannot be saved for backward, whoever made it."""
    dynexplore.reset()
    _, marked, _ = dynexplore.optimize("aot_eager")(views)(torch.ones(3))
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        marked * torch.ones(3, requires_grad=True)
    assert graphs_compiled() == 1


def test_a_call_in_inference_mode_is_compiled_as_it_is() -> None:
    """What is inside of inference mode anyway needs no marks."""
    backend = CountingBackend("aot_eager")
    with torch.inference_mode():
        outs = dynexplore.optimize(backend)(views)(torch.ones(3))
    assert [out.is_inference() for out in outs] == [True] * 3
    assert "_enter_inference_mode" in backend.targets()[0]


with torch.inference_mode():
    COUNT = torch.zeros(3)


def counts_in_a_block(x):
    with torch.inference_mode():
        COUNT.add_(1)
    return x * 2


def counts_and_reads(x):
    with torch.inference_mode():
        COUNT.add_(x.detach())
    return x * COUNT.clone().sum().item()


def set_count_back() -> None:
    with torch.inference_mode():
        COUNT.zero_()


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", [counts_in_a_block, counts_and_reads])
def test_a_block_that_changes_an_inference_tensor_from_outside(program: Any, gradients: bool) -> None:
    """A compiler writes to it when the graph has run, outside of the block, where torch refuses that: it is not compiled."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=gradients)
    observe = COUNT.tolist
    assert_same_as_eager(program, x, backend="aot_eager", calls=3, setup=set_count_back, observe=observe)


def views_without_gradients(x):
    y = x * 1
    with torch.no_grad():
        of_result, of_input = y.view(-1), x.view(-1)
    return y, of_result, of_input, y.detach(), x.data[0]


@pytest.mark.parametrize("leaf", [False, True])
def test_a_view_that_is_taken_without_gradients_has_none(leaf: bool) -> None:
    """What is computed from it does not count in the gradients of what it is a view of."""
    seen = []
    for wrap in (lambda fn: fn, dynexplore.optimize("aot_eager")):
        x = torch.ones(2, 2, requires_grad=True)
        outs = wrap(views_without_gradients)(x if leaf else x * 1)
        sum(out.sum() for out in outs).backward()
        seen.append((x.grad.tolist(), [(out.requires_grad, out.is_leaf) for out in outs], outs[0].data_ptr() == outs[1].data_ptr()))
    assert seen[0] == seen[1]
    assert graphs_compiled() == 1


def leaves_it_for_gradients(x, w, b):
    y = x * 1
    with torch.inference_mode(False):
        z = w.sin() * w
    return y, z, z.requires_grad


def leaves_it_for_a_change(x, w, b):
    with torch.inference_mode(False):
        b.add_(1)
    return x * 2, b


def leaves_it_inside_a_block(x, w, b):
    with torch.no_grad(), torch.inference_mode(False):
        y = w * 2
        b.mul_(2)
    return x + y, y.requires_grad, b


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [leaves_it_for_gradients, leaves_it_for_a_change, leaves_it_inside_a_block])
def test_a_call_in_inference_mode_that_leaves_it_for_a_while(program: Any, backend: str) -> None:
    """What is computed outside of the mode has gradients, and what is changed there is no inference tensor."""
    seen = []
    for wrap in (lambda fn: fn, dynexplore.optimize(backend)):
        w, b, called = torch.ones(3, requires_grad=True), torch.ones(3), wrap(program)
        for inside in (True, False, True):
            with torch.inference_mode(inside):
                outs = [out for out in called(torch.full((3,), 2.0), w, b) if isinstance(out, torch.Tensor)]
            gradients = [torch.autograd.grad(out.sum(), w)[0] for out in outs if out.grad_fn is not None]
            seen.append([(out.tolist(), out.is_inference(), out.requires_grad) for out in [*outs, *gradients, b]])
    assert seen[:3] == seen[3:]
    assert graphs_compiled() == 2


def takes_a_view(x):
    return x.view(-1)


def takes_a_view_with_gradients(x):
    with torch.enable_grad():
        return x.view(-1)


def takes_a_part_of_what_it_makes(x):
    with torch.enable_grad():
        y = x * 2
    return y[0], y


def takes_a_view_of_what_it_makes(x):
    with torch.enable_grad():
        y = x * 2
        return y.view(-1), y


def takes_a_view_behind_a_break(x):
    with torch.inference_mode(), torch.enable_grad():
        print("inside")
        return x.view(-1)


PROGRAMS_WITH_VIEWS = [
    takes_a_view, takes_a_view_with_gradients, takes_a_part_of_what_it_makes, takes_a_view_of_what_it_makes,
    takes_a_view_behind_a_break,
]  # fmt: skip


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("program", PROGRAMS_WITH_VIEWS)
def test_a_view_under_another_mode_than_the_one_the_call_is_made_in(program: Any, mode: Any) -> None:
    """A compiler takes a view of an input again when the graph has run, under the mode of the call."""
    seen = []
    for wrap in (lambda fn: fn, dynexplore.optimize("aot_eager")):
        called = wrap(program)
        for gradients in (True, False):
            leaf = torch.ones(2, 3, requires_grad=gradients)
            x = leaf * 1
            with mode():
                outs = called(x)
            outs = outs if isinstance(outs, tuple) else (outs,)
            followed = [out for out in outs if out.grad_fn is not None]
            gradient = torch.autograd.grad(sum(out.sum() for out in followed), leaf)[0].tolist() if followed and gradients else None
            seen.append(([(out.requires_grad, out.is_leaf, out.is_inference()) for out in outs], gradient))
    assert seen[:2] == seen[2:]
    assert graphs_compiled()


def allows_gradients_inside(x, w):
    with torch.inference_mode():
        with torch.enable_grad():
            y = x * w
        z = torch.is_grad_enabled()
    return y, y * 2, z


def sets_them_inside(x, w):
    y = x * w
    with torch.inference_mode():
        torch.set_grad_enabled(True)
        y.mul_(2)
        z = w * 3
    return y, z, w * 4


@pytest.mark.parametrize("backend", [CountingBackend("eager"), "aot_eager"], ids=["a backend", "aot_eager"])
@pytest.mark.parametrize("program", [allows_gradients_inside, sets_them_inside])
def test_gradients_that_are_switched_on_inside_of_inference_mode_stay_off(program: Any, backend: Any) -> None:
    """Nothing is noted there, whatever `is_grad_enabled` says."""
    seen = []
    for wrap in (lambda fn: fn, dynexplore.optimize(backend)):
        called = wrap(program)
        for _ in range(2):
            w = torch.ones(3, requires_grad=True)
            outs = called(torch.full((3,), 2.0), w)
            tensors = [out for out in outs if isinstance(out, torch.Tensor)]
            followed = [out.sum() for out in tensors if out.requires_grad]
            gradients = [torch.autograd.grad(out, w, retain_graph=True)[0].tolist() for out in followed]
            seen.append(([(out.tolist(), out.is_inference(), out.requires_grad) for out in tensors], gradients, outs[-1] is True))
    assert seen[:2] == seen[2:]
    assert graphs_compiled()


def writes_to_a_view_taken_before(x):
    y = x * 1
    with torch.no_grad():
        z = y.view(-1)
    y.mul_(2)
    return y, z.detach()


def hands_out_a_view_whose_base_was_written(x):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
        z = y.view(-1)
        y.mul_(2)
    return y, z


@pytest.mark.parametrize("program", [writes_to_a_view_taken_before, hands_out_a_view_whose_base_was_written])
def test_a_view_that_autograd_refuses_to_tell_of(program: Any) -> None:
    """Of a view made without gradients, whose memory was written to, nobody asks what made it."""
    seen = []
    for wrap in (lambda fn: fn, dynexplore.optimize(CountingBackend("eager"))):
        outs = wrap(program)(torch.ones(2, requires_grad=True))
        seen.append([(out.tolist(), out.requires_grad) for out in outs])
    assert seen[0] == seen[1]
    assert graphs_compiled()
