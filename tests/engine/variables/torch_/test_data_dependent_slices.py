"""`mask[i, lengths[i]:] = 0`, with ends that tensors hold, is no graph break: answers, gradients, aliases and errors are eager's.

Each program runs with several ends, under a backend that runs graphs as they are and under compilers.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.linspace(-1, 1, 60).reshape(3, 4, 5)
ENDS = [(0, 1, 2), (2, 4, 1), (-1, 3, 0), (9, -9, 5), (1, 1, 1), (-2, -1, -3)]
BOTH = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def mask_of_lengths(x: Any, n: Any) -> Any:
    mask = x.new_ones(x.shape[:2])
    for i in range(x.shape[0]):
        mask[i, n[i] :] = 0
    return mask[..., None] * x


def mask_of_walked_lengths(x: Any, n: Any) -> Any:
    mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
    for i, length in enumerate(n):
        mask[i, :length] = True
    return mask, x * mask[..., None]


def both_ends(x: Any, n: Any) -> Any:
    y = x * 2
    y[0, n[0] : n[1]] = 1.5
    y[-1, 1 : n[2]] = 2.5
    return y


def round_the_dots(x: Any, n: Any) -> Any:
    y = x * 2
    y[..., n[2] : 3] = 7
    y[n[0] :, ..., 1] = 8
    y[1:, ..., n[1] :: 1] = 9
    return y


def two_slices(x: Any, n: Any) -> Any:
    y = x.sin()
    y[1:, n[0] : 2, n[1] :] = True
    return y


def a_value_with_a_history(x: Any, n: Any) -> Any:
    y = x * 2
    y[n[0] :] = x.sum()
    y[:, : n[1]] = torch.tensor(3)
    return y


def numbers_of_another_kind(x: Any, n: Any) -> Any:
    y = (x * 10).long()
    y[:, n[1] :] = 2.7
    return y + 1


def into_an_argument(x: Any, n: Any) -> Any:
    x.detach()[n[0] :, 1] = -1
    return x * 2


def of_a_transposed(x: Any, n: Any) -> Any:
    y = x * 2
    y.mT[:, n[0] :, n[1] + 10 :] = 0
    y.mT[0, : n[2]] = 1
    return y.sum(0), y


ONE_GRAPH = [
    mask_of_lengths, mask_of_walked_lengths, both_ends, round_the_dots, two_slices, a_value_with_a_history, numbers_of_another_kind,
    into_an_argument, of_a_transposed,
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_one_graph_for_all_ends(program: Any, wants: bool, backend: str) -> None:
    """Ends inside, outside, negative and behind each other are served by one graph."""
    calls = [(X.clone().requires_grad_(wants), torch.tensor(ends)) for ends in ENDS]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=1, breaks=0, backend=backend)


@BOTH
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_one_graph_for_all_sizes(program: Any, backend: str) -> None:
    """Where sizes vary, the ends are counted from the size that the tensor has."""
    dynexplore.reset()
    captured = dynexplore.optimize(backend, dynamic=True)(program)
    for size, ends in zip((4, 3, 2, 4), ENDS, strict=False):
        given, own = X[:, :size].clone(), X[:, :size].clone()
        torch.testing.assert_close(captured(own, torch.tensor(ends)), program(given, torch.tensor(ends)), rtol=0, atol=0)
        assert torch.equal(own, given)
    assert dynexplore.counters["stats"]["graphs"] == 1
    assert not dynexplore.counters["graph_break"]


@BOTH
def test_a_negative_number_beside_an_end_where_sizes_vary(backend: str) -> None:
    """Where the size is a symbol, the number from behind is counted by Python, or in the graph: the answer is eager's."""

    def program(x: Any, n: Any) -> Any:
        y = x * 2
        y[n[0] : -1] = 7
        return y * 3

    dynexplore.reset()
    captured = dynexplore.optimize(backend, dynamic=True)(program)
    for size, end in ((3, 0), (2, 1), (3, -2)):
        given, ends = X[:size].clone(), torch.tensor([end])
        assert torch.equal(captured(given, ends), program(given, ends))
    assert dynexplore.counters["stats"]["graphs"] > 0


@BOTH
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_other_integers(dtype: torch.dtype, backend: str) -> None:
    """Every signed integer ends a slice, however long what it ends."""
    x = torch.zeros(2, 300)
    calls = [(x.clone(), torch.tensor([first, -100], dtype=dtype)) for first in (100, -128)]

    def program(x: Any, n: Any) -> Any:
        x[0, n[0] :] = 1
        x[1, : n[1]] = 1
        return x + 1

    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=1, breaks=0, backend=backend)


# -- what Python does ------------------------------------------------------------------------------------------------


def as_many_as_fit(x: Any, n: Any) -> Any:
    y = x * 1
    y[0, n[0] :] = x[1, n[0] :]
    return y


def in_steps(x: Any, n: Any) -> Any:
    y = x * 1
    y[:, n[0] :: 2] = 1
    return y


def a_row_and_a_slice(x: Any, n: Any) -> Any:
    y = x * 1
    y[n[0], n[1] :] = 1
    return y


def of_what_lies_in_one_place(x: Any, n: Any) -> Any:
    y = x[0, 0, :1].clone().expand(4)
    y[n[0] :] = 1
    return y


def read(x: Any, n: Any) -> Any:
    return x[0, n[0] :].sum() + x[n[0] % 2, n[1] :].sum()


def with_a_truth_value(x: Any, n: Any) -> Any:
    y = x * 1
    y[0, n[0] > 0 :] = 1
    return y


def with_a_fraction(x: Any, n: Any) -> Any:
    y = x * 1
    y[0, n[0] * 1.5 :] = 1
    return y


def of_integers_with_what_has_a_gradient(x: Any, n: Any) -> Any:
    y = (x * 4).long()
    y[:, n[0] :] = x.sum()
    y[:, n[1] % 4] = x.sum()
    return y


def of_a_parameter(x: Any, n: Any) -> Any:
    x[0, n[0] :] = 1
    return x * 2


@BOTH
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", [
    as_many_as_fit, in_steps, a_row_and_a_slice, of_what_lies_in_one_place, read, with_a_truth_value, with_a_fraction,
    of_integers_with_what_has_a_gradient, of_a_parameter,
])  # fmt: skip
def test_the_rest_is_as_in_eager(program: Any, wants: bool, backend: str) -> None:
    """Sizes that data tells, other steps, errors of torch: value or exception are eager's, with graphs or without."""
    calls = [(X.clone().requires_grad_(wants), torch.tensor(ends)) for ends in ENDS]
    assert_same_as_eager(program, *calls[0], then=calls[1:], graphs=range(20), backend=backend)


def test_a_compiler_reads_no_number() -> None:
    """The graph of a compiler holds a mask, and no assignment to a slice."""
    targets: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        targets.extend(node.name for node in module.graph.nodes)
        return module

    dynexplore.reset()
    found = dynexplore.optimize(backend)(mask_of_lengths)(X, torch.tensor([1, 2, 0]))
    assert torch.equal(found, mask_of_lengths(X, torch.tensor([1, 2, 0])))
    assert sum(target.startswith("copy_") for target in targets) == 3
    assert not any("setitem" in target for target in targets)
