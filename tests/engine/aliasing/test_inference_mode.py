"""What the alias matrix cannot say of inference mode: tensors of the module that a block mutates, marks that autograd refuses, what
the backend gets.

Views, mutations and gradients in and out of the mode are cells of test_alias_matrix.py.
"""

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
