"""`weights[t]` with a tensor that holds one integer is no graph break: answers, gradients, aliases and errors are eager's.

Each program runs with several integers, under a backend that runs graphs as they are and under one that compiles them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.linspace(-1, 1, 60).reshape(3, 4, 5)


def row(x: Any, t: Any) -> Any:
    return x.sin()[t] * 2


def column(x: Any, t: Any) -> Any:
    return x[0].sin()[:, t] * 2


def two(x: Any, t: Any) -> Any:
    return x[t, t] + x[t, 1] + x[0, t]


def among_others(x: Any, t: Any) -> Any:
    return x[t, None, 1:, ..., 2] * 3


def beside_indices(x: Any, t: Any) -> Any:
    rows = torch.tensor([0, 2, 1])
    return x[0][rows, t, None] + x[t, rows][:, :1]


def of_two_weights(x: Any, t: Any) -> Any:
    return x[1, :, :4] @ x[t] + x[t, 0]


def assigned(x: Any, t: Any) -> Any:
    y = x * 1
    y[t] = 7
    y[t] = x[0] * 2
    y[:, t] = x[0, 0]
    return y * y


def assigned_another_dtype(x: Any, t: Any) -> Any:
    y = x * 1
    y[t] = torch.arange(5)
    y[..., t] = True
    return y


def counted_on(x: Any, t: Any) -> Any:
    part = x.sin()[t % 3]
    t.add_(1)
    return part * x[t % 3] + x[t % 2] * t


def negative(x: Any, t: Any) -> Any:
    return x[t - 3] * x[-t - 1]


def selects(x: Any, t: Any) -> Any:
    return x.sin().select(0, t).sum(1) * 2 + x[0].select(-1, t) + x[1].select(dim=1, index=t - 3)


def narrows(x: Any, t: Any) -> Any:
    y = x.sin()
    y.narrow(1, t, 2).mul_(3)
    return y.narrow(0, t - 3, 1).sum() * y.narrow(dim=-1, start=t, length=2)


ONE_GRAPH = [
    row, column, two, among_others, beside_indices, of_two_weights, assigned, assigned_another_dtype, negative, counted_on, selects,
]  # fmt: skip


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", [*ONE_GRAPH, narrows])
def test_one_graph_as_it_stands(program: Any, wants: bool) -> None:
    """The graph holds the program's own subscript."""
    dynexplore.reset()
    captured = dynexplore.optimize("eager")(program)
    for number in (0, 2, 1):
        given, own = X.clone().requires_grad_(wants), X.clone().requires_grad_(wants)
        expected, found = program(given, torch.tensor(number)), captured(own, torch.tensor(number))
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
        if wants:
            expected.sum().backward(), found.sum().backward()
            torch.testing.assert_close(own.grad, given.grad, rtol=0, atol=0)
    assert dynexplore.counters["stats"]["graphs"] == 1
    assert not dynexplore.counters["graph_break"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_one_graph_for_a_compiler(program: Any, wants: bool, backend: str) -> None:
    """A backend of the program's own gets what AOTAutograd can trace: nothing in it reads an integer."""
    x = X.clone().requires_grad_(wants)
    then = [(x, torch.tensor(number)) for number in (2, 1)]
    assert_same_as_eager(program, x, torch.tensor(0), then=then, graphs=1, breaks=0, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_other_integers(dtype: torch.dtype, backend: str) -> None:
    """Every signed integer selects."""
    assert_same_as_eager(row, X, torch.tensor(1, dtype=dtype), graphs=1, breaks=0, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [torch.uint8, torch.bool])
def test_what_is_a_mask_stays_one(kind: torch.dtype, backend: str) -> None:
    """A truth value, and an unsigned byte, are masks, whose results have sizes that data tells."""
    assert_same_as_eager(lambda x, t: x[t] * 2, X, torch.tensor(1, dtype=kind), graphs=range(4), backend=backend)


# -- views -----------------------------------------------------------------------------------------------------------


def handed_out(x: Any, t: Any) -> Any:
    y = x * 2
    return y, y[t]


def kept(x: Any, t: Any) -> Any:
    rows = [x[t], x[t].t()]
    y = rows[0].sum()
    print("break")
    return rows, y


def written_through(x: Any, t: Any) -> Any:
    y = x * 2
    part = y[t]
    part.add_(1)
    return y, part.sum()


def written_through_a_view_of_it(x: Any, t: Any) -> Any:
    y = x * 2
    first = y[t].detach()[0]
    first.zero_()
    return y


def written_behind(x: Any, t: Any) -> Any:
    y = x * 2
    part = y[t]
    y.mul_(3)
    return part * 2


def increased(x: Any, t: Any) -> Any:
    y = x * 2
    y[t] += 1
    y[t] = y[t] * 2
    return y


def of_the_argument(x: Any, t: Any) -> Any:
    with torch.no_grad():
        x[t] = 4.0
        x[t].add_(1)
    return x[t]


def asks_where_it_lies(x: Any, t: Any) -> Any:
    part = x.sin()[t]
    return part.storage_offset(), part.stride(), part._is_view(), x[0, :, t].is_contiguous()


def asks_by_layout(x: Any, t: Any) -> Any:
    return x.sin()[:, t].view(-1) * 2


def turned(x: Any, t: Any) -> Any:
    return x.mT.sin()[t].reshape(-1), x[:, t] * 2


ALIASES = [
    handed_out, kept, written_through, written_through_a_view_of_it, written_behind, increased, of_the_argument,
    asks_where_it_lies, asks_by_layout, turned,
]  # fmt: skip


def _what_is_shared(result: Any) -> list[tuple[Any, ...]]:
    """Which tensors of a result lie in one memory, where, and how."""
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    places = [one.untyped_storage().data_ptr() for one in tensors]
    return [(places.index(place), one.storage_offset(), one.stride()) for place, one in zip(places, tensors, strict=True)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", ALIASES)
def test_a_row_is_a_view(program: Any, backend: str) -> None:
    """What shares memory in eager shares it, and a write through one name is seen under the others."""
    captured = dynexplore.optimize(backend)(program)
    dynexplore.reset()
    for number in (0, 2, 1, -1):
        given, own = X.clone(), X.clone()
        expected, found = _of(program, given, number), _of(captured, own, number)
        assert type(found) is type(expected)
        if not isinstance(expected, Exception):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            assert _what_is_shared((found, own)) == _what_is_shared((expected, given))
        assert torch.equal(own, given)
    assert dynexplore.counters["stats"]["graphs"]


def _of(program: Any, x: Any, number: int) -> Any:
    try:
        return program(x, torch.tensor(number))
    except (RuntimeError, IndexError) as error:
        return error


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [row, assigned])
def test_an_integer_out_of_range_is_eagers_error(program: Any, backend: str) -> None:
    """The graph fails, and the program's own line says so."""
    captured = dynexplore.optimize(backend)(program)
    dynexplore.reset()
    captured(X, torch.tensor(1))
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 3"):
        captured(X, torch.tensor(3))
    assert torch.equal(captured(X, torch.tensor(2)), program(X, torch.tensor(2)))
    assert dynexplore.counters["stats"]["graphs"] == 1


@pytest.mark.parametrize("program", [selects, narrows])
@pytest.mark.parametrize("number", [3, 4, 5, -1])
def test_a_method_that_selects_out_of_range(program: Any, number: int) -> None:
    """It raises what it raises in eager; a compiler is never given what goes on at the first row."""
    then = [(X, torch.tensor(number)), (X, torch.tensor(2))]
    assert_same_as_eager(program, X, torch.tensor(1), then=then, backend="aot_eager")
    captured = dynexplore.optimize("eager")(program)
    for t in (1, number, 2):
        expected, found = (_of(either, X.clone(), t) for either in (program, captured))
        assert str(found) == str(expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_empty_dimension_has_no_row(backend: str) -> None:
    """Eager's IndexError for any integer."""
    captured = dynexplore.optimize(backend)(lambda x, t: (x + 1)[t])
    with pytest.raises(IndexError):
        captured(X[:0], torch.tensor(0))
    assert torch.equal(captured(X, torch.tensor(0)), X[0] + 1)
    assert dynexplore.counters["stats"]["graphs"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_integer_may_be_counted_on_before_backward(backend: str) -> None:
    """Backward knows which row it was."""
    captured, sums = dynexplore.optimize(backend)(lambda x, t: (x[t] * x[t, 1]).sum()), []
    dynexplore.reset()
    for program in (lambda x, t: (x[t] * x[t, 1]).sum(), captured):
        x, t = X.clone().requires_grad_(), torch.tensor(0)
        loss = program(x, t)
        t.add_(1)
        loss.backward()
        sums.append(x.grad)
    torch.testing.assert_close(sums[1], sums[0], rtol=0, atol=0)
    assert dynexplore.counters["stats"]["graphs"] == 1
