"""associative_scan element by element, as it is called on a GPU: one node of the graph, with the function as its body.

torch's own function asks for a GPU there, so the operator behind it is called, which runs on the CPU as well.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op

import dynexplore
from dynamo_ban import lifted
from engine_checks import assert_same_as_eager

A, B = torch.linspace(0.5, 1.5, 15).reshape(5, 3), torch.linspace(-1, 1, 15).reshape(5, 3)
OUTSIDE = torch.linspace(1, 2, 3)


def states(a: torch.Tensor, b: torch.Tensor) -> Any:
    """What a state space model computes."""
    def combine(left: Any, before: Any, right: Any, after: Any) -> Any:
        return [left * right, right * before + after]

    found = associative_scan_op(combine, [a * 1, b + 1], additional_inputs=())
    return found[1] * 2, found[0], len(found)


def of_one(a: torch.Tensor, b: torch.Tensor) -> Any:
    """A nested function with a number of its own."""
    scale = 0.5
    (found,) = associative_scan_op(lambda left, right: [(left + right) * scale / 0.5], [a + b], ())
    return found


@pytest.mark.parametrize(("fn", "requires_grad"), [(states, False), (of_one, False), (of_one, True)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_scan_is_one_graph(fn: Any, requires_grad: bool, backend: str) -> None:
    """Values, gradients and types are those of the operator itself; for other data, too."""
    for scale in (1, 2):
        inputs = [(x * scale).requires_grad_(requires_grad) for x in (A, B)]
        assert_same_as_eager(fn, *inputs, backend=backend, graphs=1, breaks=0)


def one_after_the_other(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What `states` computes, step by step."""
    state, found = b[0] + 1, [b[0] + 1]
    for place in range(1, len(a)):
        state = a[place] * state + b[place] + 1
        found.append(state)
    return torch.stack(found) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_that_depend_on_each_other_have_their_gradients(backend: str) -> None:
    """torch's derivative of the operator leaves out what flows from one to the other."""
    gradients = []
    for fn in (one_after_the_other, lambda a, b: states(a, b)[0]):
        inputs = [x.clone().requires_grad_() for x in (A, B)]
        dynexplore.optimize(backend)(fn)(*inputs).square().sum().backward()
        gradients.append([x.grad for x in inputs])
    torch.testing.assert_close(*gradients)
    assert dynexplore.counters["stats"]["graphs"] == 2 and not dynexplore.graph_breaks()


def uses_what_stands_outside(a: torch.Tensor, b: torch.Tensor) -> Any:
    return associative_scan_op(lambda left, right: [left + right * OUTSIDE], [a], ())[0]


def makes_another_kind(a: torch.Tensor, b: torch.Tensor) -> Any:
    return associative_scan_op(lambda left, right: [(left + right).double()], [a], ())[0]


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> Any:
    return associative_scan_op(lambda l1, l2, r1, r2: [l1 + r1, l2 * r2], [a, a], ())[1]


@pytest.mark.parametrize("fn", [uses_what_stands_outside, makes_another_kind, shares_memory])
def test_what_is_no_body_is_left_to_torch(fn: Any) -> None:
    """The graph breaks, and the operator runs as it does without the engine."""
    compiled = dynexplore.optimize("eager")(fn)
    with lifted():
        assert torch.equal(compiled(A, B), fn(A, B))
    assert any("higher-order" in reason for reason in dynexplore.graph_breaks()), dynexplore.graph_breaks()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch refuses it without a GPU")
def test_on_a_gpu_as_people_call_it() -> None:
    """The function of torch, backwards and over another dimension."""
    def run(a: torch.Tensor, b: torch.Tensor) -> Any:
        return associative_scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), dim=1, reverse=True)

    with lifted():
        expected = run(A.cuda(), B.cuda())
    found = dynexplore.optimize("eager")(run)(A.cuda(), B.cuda())
    torch.testing.assert_close(found, expected)
    assert dynexplore.counters["stats"]["graphs"] == 1 and not dynexplore.graph_breaks()
