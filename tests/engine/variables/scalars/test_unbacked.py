"""Numbers and sizes that only the data can tell: broken off by default, symbols under the options that ask for them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 0.0, -6.0]])
N = torch.tensor(3)


def reads_a_number(x: Any) -> Any:
    return x * x.sum().item() + 1


def computes_with_numbers(x: Any, n: Any) -> Any:
    scale = int(n) * 2 + float(x.max())
    return x * scale, scale


def reads_a_list(x: Any) -> Any:
    a, b, c = x[0].tolist()
    return x + a * b - c


def makes_a_tensor_of_that_size(n: Any) -> Any:
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= 100)
    return torch.zeros(size) + 1, torch.arange(size).sum()


SCALARS = [
    (reads_a_number, (X,), 1),
    (computes_with_numbers, (X, N), 1),
    (reads_a_list, (X,), 1),
    (makes_a_tensor_of_that_size, (N,), 1),
]


@pytest.mark.parametrize(("fn", "args", "graphs"), SCALARS)
def test_scalar_outputs_are_captured(fn: Any, args: Any, graphs: int) -> None:
    """One graph, right also when the data changes; without the option the graph breaks."""
    other = [tuple(arg + 1 for arg in args)]
    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(fn, *args, then=other, graphs=graphs, breaks=0, recompiles=0)
    report = assert_same_as_eager(fn, *args, then=other)
    assert report.breaks


def branches(x: Any) -> Any:
    n = x.sum().item()
    y = x + 1
    if n > 0:
        return y * n
    return y - n


def test_a_branch_on_a_symbol_breaks_the_graph() -> None:
    """Before it one graph with the number as an output, after it the taken way."""
    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(branches, X, then=[(-X - 1,), (X * 2,)], breaks=["DX104"], graphs=3)


def nonzero(x: Any) -> Any:
    return torch.nonzero(x > 0) + 1, (x > 0).sum()


def masks(x: Any) -> Any:
    y = x[x > 0]
    return y * 2, y.sum()


def uniques(x: Any) -> Any:
    values = torch.unique(x)
    return values + 1


def selects(x: Any) -> Any:
    return torch.masked_select(x, x < 0).abs()


def repeats(x: Any) -> Any:
    return torch.repeat_interleave(x[0], x[0].abs().long())


@pytest.mark.parametrize("fn", [nonzero, masks, uniques, selects, repeats])
def test_output_shapes_that_depend_on_data_are_captured(fn: Any) -> None:
    """One graph for any number of results, none included; without the option the graph breaks with its kind."""
    then = [(X + 1,), (torch.zeros(2, 3),)]
    with dynexplore.config.patch(capture_dynamic_output_shape_ops=True):
        assert_same_as_eager(fn, X, then=then, graphs=1, breaks=0, recompiles=0)
    assert "DX107" in assert_same_as_eager(fn, X, then=then).breaks


@pytest.mark.parametrize("fn", [nonzero, masks])
def test_dynamic_shapes_take_shapes_that_depend_on_data(fn: Any) -> None:
    """`config.dynamic_shapes = True` says enough: `nonzero` and its like are in the graph."""
    with dynexplore.config.patch(dynamic_shapes=True):
        assert_same_as_eager(fn, torch.tensor([1.0, 0.0, -2.0, 3.0]), graphs=1, breaks=0)


def test_gradients_go_through_a_mask() -> None:
    """The backward of a data-dependent selection is eager's."""
    with dynexplore.config.patch(capture_dynamic_output_shape_ops=True):
        assert_same_as_eager(masks, X.clone().requires_grad_(), graphs=1)


def promises(n: Any) -> Any:
    size = n.item()
    torch._check(size > 2, lambda: f"at least 3, not {size}")
    return torch.ones(size)


def test_a_promise_that_is_broken() -> None:
    """torch._check in the graph raises what it raises in eager, with the message made then."""
    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(promises, N, then=[(torch.tensor(1),), (torch.tensor(5),)], graphs=1)


def checks(x: Any, n: int) -> Any:
    torch._check(x.dim() == 2, lambda: "a matrix")
    torch._check_value(n > 0)
    torch._check_index(n < 5, lambda: f"index {n}")
    return x * n


@pytest.mark.parametrize("n", [1, -1, 7])
def test_promises_about_known_values(n: int) -> None:
    """They cost nothing when they hold, and raise their own exception when not."""
    assert_same_as_eager(checks, X, n, graphs=int(n == 1), breaks=int(n != 1))


def checks_a_tensor(x: Any) -> Any:
    x.add_(1)
    torch._check_tensor_all(x > 0, lambda: f"not all of {x.tolist()} are positive")
    torch._check_tensor_all_with(KeyError, cond=x < 9, message=lambda: "too large")
    return x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_promises_about_all_elements_of_a_tensor(backend: str) -> None:
    """They are checked when the graph runs, and one that is broken raises what eager raises."""
    calls = [(torch.tensor(numbers),) for numbers in ([1.0, 2.0], [1.0, -2.0], [3.0, 4.0], [9.0, 1.0])]
    assert_same_as_eager(checks_a_tensor, *calls[0], then=calls[1:], graphs=1, breaks=0, backend=backend)


def checks_with(x: Any, cond: Any) -> Any:
    torch._check_with(KeyError, cond, lambda: "sorry")
    return x * 2


def checks_all(x: Any, cond: Any) -> Any:
    torch._check_tensor_all(cond)
    return x * 2


def checks_one(x: Any, cond: Any) -> Any:
    torch._check(cond)
    return x * 2


@pytest.mark.parametrize("cond", [True, False, 1, [], torch.tensor(True), torch.tensor([1.0, 2.0])])
@pytest.mark.parametrize("fn", [checks_with, checks_all, checks_one])
def test_promises_take_what_torch_takes(fn: Any, cond: Any) -> None:
    """Numbers, lists and tensors are no truth values, and numbers no truth values of tensors: torch refuses them."""
    assert_same_as_eager(fn, X, cond, then=[(X, cond)], graphs=range(2))


@pytest.mark.parametrize(("fn", "x"), [(masks, X), (makes_a_tensor_of_that_size, N), (reads_a_number, X)])
def test_behind_aot_autograd(fn: Any, x: Any) -> None:
    """Symbols of data pass through AOTAutograd (which leaves a mark on its outputs, so only values are compared)."""
    with dynexplore.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = dynexplore.optimize("aot_eager", nopython=True)(fn)
        for value in (x, x + 1):
            torch.testing.assert_close(compiled(value), fn(value))
    assert graphs_compiled() == 1


def picks_with_an_index(x: Any, k: int) -> Any:
    return x + [5, 6, 7, 8, 9][k]


def names_a_missing_key(x: Any, k: int) -> Any:
    try:
        return {}[k]
    except KeyError as error:
        return str(error), x + 1


@pytest.mark.parametrize("program", [picks_with_an_index, names_a_missing_key])
def test_a_varying_number_that_no_operator_uses_is_still_guarded(program: Any) -> None:
    """A number that became a symbol, was needed as it is, and then dropped from the graph, decides about the next call."""
    assert_same_as_eager(program, X, 1, then=[(X, k) for k in (2, 3, 4, 3)])


def rows_above(x: Any, limit: Any) -> Any:
    (rows,) = torch.where(x > limit)
    return x * 2, x[rows].sum() + rows


def test_a_size_that_data_told_is_equal_to_another_one_by_chance() -> None:
    """As many rows are chosen as there are, twice: the graph made for that call serves calls that choose fewer of them."""
    then = [(torch.arange(6.0), torch.tensor(-1.0)), (torch.arange(7.0), torch.tensor(2.5)), (torch.arange(9.0), torch.tensor(1.5))]
    assert_same_as_eager(rows_above, torch.arange(4.0), torch.tensor(-1.0), then=then, graphs=4, recompiles=2)


# -- nopython -----------------------------------------------------------------------------------------------------------


def assigns_by_a_mask(x: Any) -> Any:
    y = x * 3
    y[x > 0] = x[x > 0].exp()
    return y


def adds_at_rows(x: Any) -> Any:
    out = torch.zeros_like(x)
    for column in range(x.shape[1]):
        (rows,) = torch.where(x[:, column] > 0)
        out[rows] += x[rows] * column
    return out


def splits_by_a_list(x: Any) -> Any:
    first, second = (x > 0).sum(1).tolist()
    torch._check(first + second <= 6)
    return x.flatten()[: first + second] + first


CARRIED = [
    nonzero, masks, uniques, selects, repeats, reads_a_number, reads_a_list, assigns_by_a_mask, adds_at_rows, splits_by_a_list,
]  # fmt: skip


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", CARRIED)
def test_a_whole_graph_carries_what_only_the_data_can_tell(fn: Any, inner: str) -> None:
    """With `nopython` both options are on. Values, sizes and gradients are eager's for any data, in one graph."""
    backend = CountingBackend(inner)
    compiled = dynexplore.optimize(backend, nopython=True)(fn)
    for data in (X, -X, X + 7, torch.zeros(2, 3), torch.eye(2, 3)):
        results = []
        for call in (fn, compiled):
            x = data.clone().requires_grad_(fn not in (uniques, reads_a_number, reads_a_list))
            result = call(x)
            parts = result if isinstance(result, tuple) else (result,)
            total = sum(part.sum() for part in parts)
            if x.requires_grad and total.requires_grad:
                total.backward()
            results.append((*parts, x.grad))
        for expected, found in zip(*results, strict=True):
            assert (expected is None) is (found is None)
            assert expected is None or torch.equal(expected, found)
    assert len(backend.graphs) == 1


def test_a_whole_graph_has_no_branch_on_what_it_carries() -> None:
    """The error names the branch, not the number; and a function that may break still breaks at the number."""
    with pytest.raises(dynexplore.exc.Unsupported, match="DX104"):
        dynexplore.optimize("eager", nopython=True)(branches)(X)
    assert_same_as_eager(branches, X, graphs=2, breaks=["DX101"])


def by_a_number(x: Any) -> Any:
    return x * 2 if x.sum().item() > 0 else x


def by_a_size(x: Any) -> Any:
    return x * 2 if x[x > 0].shape[0] > 1 else x


NEEDS_THE_NUMBER = [
    (by_a_number, r"`if` on a tensor value \(condition: zuf0 > 0.0, where only the data determines the number\)"),
    (by_a_size, r"`if` on a tensor value \(condition: u0 > 1, where only the data determines the number\)"),
    (lambda x: (x + 1, str(int(x.sum()))), "a data-dependent number or size that Python needs"),
    (lambda x: (x + 1, f"{int(x.sum())}"), "a data-dependent number or size that Python needs"),
    (lambda x: (x + 1, hash(int(x.sum()))), "a data-dependent number or size that Python needs"),
    (lambda x: (x + 1, int(x.sum()).bit_length()), "a data-dependent number or size that Python needs"),
    (lambda x: [x + 1 for _ in range(int(x.sum()))], "a data-dependent number or size that Python needs"),
    (lambda x: torch.nn.functional.one_hot(x.long(), int(x.sum())), "a data-dependent number or size that Python needs"),
]


@pytest.mark.parametrize(("fn", "words"), NEEDS_THE_NUMBER)
def test_the_reason_says_that_it_is_a_number(fn: Any, words: str) -> None:
    """Not every unbacked symbol is a size, and a branch on one is not on a tensor."""
    with pytest.raises(dynexplore.exc.Unsupported) as caught:
        dynexplore.optimize("eager", nopython=True)(fn)(X)
    assert re.match(words, caught.value.graph_break.reason)


def test_a_gradient_through_an_assignment_by_a_mask_is_carried() -> None:
    """The backward selects by the mask. It breaks a graph that may break, and is in a whole one."""

    def assigns(x: Any, values: Any) -> Any:
        y = x * 2
        y[torch.tensor([True, False])] = values
        return y.sin()

    values = torch.ones(1, 3, requires_grad=True)
    assert "DX107" in assert_same_as_eager(assigns, X, values).breaks
    backend = CountingBackend("aot_eager")
    compiled = dynexplore.optimize(backend, nopython=True)(assigns)
    (expected,) = torch.autograd.grad(assigns(X, values).sum(), values)
    (found,) = torch.autograd.grad(compiled(X, values).sum(), values)
    assert torch.equal(found, expected)
    assert len(backend.graphs) == 1


NUMBERS = {
    "arange": lambda x: torch.arange(x[0]) + 1,
    "arange start": lambda x: torch.arange(x[0], x[1] + 9) + 1,
    "arange step": lambda x: torch.arange(0, x[1] * 4, 2) + 1,
    "arange down": lambda x: torch.arange(x[1] * 4, x[0] - 1, -2, dtype=torch.long) + 1,
    "arange end=": lambda x: torch.arange(0, end=x[0], step=2) + 1,
    "full": lambda x: torch.full((2,), x[0]) + 1,
    "full fill_value=": lambda x: torch.full((2,), fill_value=x[0], dtype=torch.float64) + 1,
    "full out=": lambda x: torch.full((), x[0], out=x.new_empty(())) + 1,
    "one tensor twice": lambda x: (torch.arange(x[0], x[0] + 4), torch.full((2,), x[0])),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32, torch.float16, torch.bool])
@pytest.mark.parametrize("fn", NUMBERS.values(), ids=NUMBERS)
def test_a_tensor_that_stands_for_a_number(fn: Any, dtype: torch.dtype) -> None:
    """An operator reads it itself: in a whole graph a node reads it, and the size or value is that of the call's data."""
    calls = [torch.tensor(numbers).to(dtype) for numbers in ([4, 6], [3, 5], [5, 7])]
    assert_same_as_eager(fn, calls[0], then=[(x,) for x in calls[1:]])
    if dtype is torch.bool:
        return
    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(fn, calls[0], then=[(x,) for x in calls[1:]])
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend, nopython=True)(fn)
    for x in calls:
        for found, expected in zip(
            torch.utils._pytree.tree_leaves(compiled(x)), torch.utils._pytree.tree_leaves(fn(x)), strict=True
        ):
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected)
    assert len(backend.graphs) == 1


def test_a_number_that_no_node_has_breaks_the_graph() -> None:
    """Where an operator reads a number that is in none of its results, a whole graph is refused, and is no error of the engine."""

    def fn(x: Any) -> Any:
        return torch.add(x, x, alpha=x[0]) + 1

    assert_same_as_eager(fn, N.expand(2), then=[(N.expand(2) + 1,)])
    with pytest.raises(dynexplore.exc.Unsupported, match="DX110"):
        dynexplore.optimize("eager", nopython=True)(fn)(N.expand(2))
