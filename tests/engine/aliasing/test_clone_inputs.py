"""What the alias matrix cannot say of clones for backward: which graphs reach the backend, and modules that replace their buffers.

Values and gradients of what is read before a mutation are cells of test_alias_matrix.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import CountingBackend, graphs_compiled


def by_a_batch_norm(a, c):
    kept = a.clone()
    nn.functional.batch_norm(torch.arange(8.0).reshape(2, 4), a, torch.ones(4), training=True)
    return kept * c


def between_two_writes(a, c):
    first = a * 3
    a.mul_(2)
    second = a.sin() * c
    a.add_(1)
    return first * c + second + a * c


def through_views(a, c):
    read = a[:3].view(3, 1).exp() * c[:3]
    a[1:].zero_()
    return read


def of_another_shape(a, c):
    read = torch.mv(c.reshape(2, 2), a[:2] + 1)
    a.neg_()
    return read * c[2:]


def put_elsewhere(a, c):
    other = torch.empty(4)
    other.copy_(a)
    a.fill_(7)
    return other * c


COMPILED = [by_a_batch_norm, between_two_writes, through_views, of_another_shape, put_elsewhere]


def a_view_outlives_the_write(a, c):
    view = a[:3]
    read = view.clone() * c[:3]
    a.add_(1)
    return read + view.clone() * c[1:]


def places_of_the_storage(a, c):
    read = a.as_strided((2,), (2,)).clone() * c[:2]
    a.add_(1)
    return read


LEFT_ALONE = [a_view_outlives_the_write, places_of_the_storage]


def outcome(function: Any) -> Any:
    a, c = torch.arange(4.0), torch.ones(4, requires_grad=True)
    out = function(a, c)
    out.sum().backward()
    return out, c.grad, a


@pytest.mark.parametrize("program", COMPILED + LEFT_ALONE)
def test_backward_has_what_was_read(program: Any) -> None:
    """The answer, the gradient and the input are eager's; a compiler is asked where a copy can be read in the input's place."""
    backend = CountingBackend("aot_eager")
    found = outcome(dynexplore.optimize(backend)(program))
    for expected, actual in zip(outcome(program), found, strict=True):
        torch.testing.assert_close(actual, expected)
    assert backend.runs == (program in COMPILED)
    assert graphs_compiled() == 1


@pytest.mark.parametrize("wrap", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_a_spectral_norm_is_compiled_in_training(wrap: Any) -> None:
    """Its vectors are read for the gradient, and replaced in each call."""

    def trained(compile_it: Any) -> Any:
        torch.manual_seed(0)
        layer = wrap(nn.Linear(4, 3))
        run = compile_it(layer)
        for number in range(3):
            run(torch.full((2, 4), number + 1.0)).pow(2).sum().backward()
        return [parameter.grad for parameter in layer.parameters()], list(layer.buffers())

    backend = CountingBackend("aot_eager")
    torch.testing.assert_close(trained(dynexplore.optimize(backend)), trained(lambda layer: layer))
    assert backend.runs == 3
    assert len(backend.graphs) == 1
