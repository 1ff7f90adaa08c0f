"""Operators that fail when the graph runs: same exception, and all that happened before it happened once."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynexplore
from engine_checks import assert_same_as_eager

OUT_OF_RANGE = torch.tensor([0, 9])
IN_RANGE = torch.tensor([0, 1])


def table(rows=3):
    return torch.arange(3.0 * rows).reshape(rows, 3)


def embedding_of_a_changed_table(x, index, log):
    log.append("before")
    x.add_(1)
    y = F.embedding(index, x)
    log.append("after")
    return y


def caught_in_the_program(x, index, log):
    try:
        log.append("before")
        x.add_(1)
        y = x[index]
        log.append("after")
    except IndexError as error:
        log.append(str(error))
        y = x * 2
    return y


def random_numbers_before(x, index, log):
    noise = torch.rand(3) + F.dropout(x, 0.5)
    try:
        return x.index_select(0, index) + noise.sum()
    except IndexError:
        log.append("caught")
        return noise + torch.rand(3)


def changed_through_a_view(x, index, log):
    x.view(-1).mul_(2)
    log.append(len(log))
    rows = x.gather(0, index[None])
    x.sub_(5)
    return rows


def changed_behind_autograd(x, index, log):
    x.data.add_(1)
    torch._foreach_mul_([x], 2.0)
    log.append("before")
    return x[index]


def transposed_in_place(x, index, log):
    x.t_()
    x.add_(1)
    log.append("before")
    return x[index]


def in_a_callee(x, index, log):
    def rows():
        x.add_(1)
        log.append("inside")
        return x[index]

    x.mul_(3)
    try:
        return rows()
    except IndexError:
        log.append("caught")
        return x


def after_a_break(x, index, log):
    print("one")
    x.add_(1)
    log.append("one")
    print("two")
    x.mul_(2)
    log.append("two")
    return x[index]


def no_cholesky_factor(x, index, log):
    x += 1
    log.append("before")
    return torch.linalg.cholesky(torch.eye(2) * (2.0 - index.max()))


def integer_division_by_zero(x, index, log):
    index.add_(1)
    log.append("before")
    return torch.tensor([4, 4]) // (index - 10)


FAILING = [
    embedding_of_a_changed_table, caught_in_the_program, random_numbers_before, changed_through_a_view, changed_behind_autograd,
    transposed_in_place, in_a_callee, after_a_break, no_cholesky_factor, integer_division_by_zero,
]


@pytest.mark.parametrize("program", FAILING)
@pytest.mark.parametrize("index", [OUT_OF_RANGE, IN_RANGE], ids=["fails", "works"])
def test_failing_operator(program, index):
    """Exceptions, changes in place, appends, prints and random numbers are those of eager, also when it is called again."""
    assert_same_as_eager(program, table(), index, [], calls=2)


def test_running_statistics_are_put_back():
    """A batch norm writes to its buffers, though its operator's schema does not say so."""

    def forward(module, x, index):
        try:
            return module(x)[index]
        except IndexError:
            return module.running_mean.clone(), module.num_batches_tracked.clone()

    assert_same_as_eager(forward, torch.nn.BatchNorm1d(3), table(), OUT_OF_RANGE)


def test_failures_are_counted():
    """`counters["graph_failure"]` names what the graph raised."""
    dynexplore.reset()
    with pytest.raises(IndexError):
        dynexplore.optimize("eager")(embedding_of_a_changed_table)(table(), OUT_OF_RANGE, [])
    assert list(dynexplore.counters["graph_failure"]) == ["IndexError: index out of range in self"]


def test_no_copies_where_no_data_decides():
    """Inputs of a graph whose operators cannot fail for their data are not copied: the call is the backend's own."""
    seen = []

    def backend(graph, inputs):
        def run(*inputs):
            seen.append(inputs)
            return graph(*inputs)

        return run

    def step(x):
        x.add_(1)
        return x * 2

    x = table()
    dynexplore.optimize(backend)(step)(x)
    assert seen[0][0] is x


def adds_its_own_row(x, log):
    x.add_(1)
    log.append("before")
    x += x[0]


def writes_where_memory_is_there_twice(x, log):
    x.mul_(2)
    log.append("before")
    x[0, 0].expand(3).add_(1)


@pytest.mark.parametrize("program", [adds_its_own_row, writes_where_memory_is_there_twice])
def test_a_write_that_overlaps_raises_from_its_own_line(program) -> None:
    """An in-place operator that reads or has the written memory twice fails as in eager, after what came before it."""
    assert_same_as_eager(program, table(), [], calls=2)


def has_no_kernel_for_whole_numbers(x, log):
    x.add_(1)
    log.append("before")
    return x, torch.rand_like(torch.full((3,), 2))


def test_an_operator_without_a_kernel_fails_before_anything_is_kept() -> None:
    """A missing kernel shows in the graph's first run, which leaves no half-changed inputs behind."""
    assert_same_as_eager(has_no_kernel_for_whole_numbers, table(), [], calls=2)


def test_a_graph_that_fails_later_is_not_run_twice() -> None:
    """Where inputs are no longer copied, a failure of the backend's code reaches the caller as it is."""
    runs = []

    def backend(graph, inputs):
        def compiled(*inputs):
            runs.append(1)
            result = graph.forward(*inputs)
            if len(runs) == 2:
                raise RuntimeError("out of order")
            return result

        return compiled

    def add(x):
        x.add_(1)

    x = table()
    optimized = dynexplore.optimize(backend)(add)
    optimized(x)
    with pytest.raises(RuntimeError, match="out of order"):
        optimized(x)
    assert torch.equal(x, table() + 2)


def of_integers(x: torch.Tensor, s: Any) -> Any:
    refused = []
    for function in (torch.bitwise_and, torch.bitwise_or, torch.gcd, torch.bitwise_left_shift):
        try:
            function(x, s)
        except NotImplementedError as error:
            refused.append(str(error))
    return x * 2, refused


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_for_integers_alone_refuses_others_though_nobody_uses_the_result(backend: str) -> None:
    """A compiler drops what nobody uses, and would not notice that the operator has no kernel for this dtype."""
    numbers = torch.tensor([4, 6, 9])
    assert_same_as_eager(of_integers, numbers, numbers, backend=backend)
    assert_same_as_eager(of_integers, numbers / 2, numbers, backend=backend)


def of_what_nobody_uses(x: torch.Tensor, s: int, index: torch.Tensor) -> Any:
    raised = []
    for function in (lambda: x % s, lambda: torch.fmod(x, s) + 1, lambda: x[index]):
        try:
            function()
        except Exception as error:
            raised.append(type(error))
    return x * 2, raised


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_data_refuses_raises_though_nobody_uses_the_result(backend: str) -> None:
    """A compiler drops what nobody uses, and the error with it."""
    x = torch.tensor([4, 6, 9])
    for s, index in ((2, IN_RANGE), (0, IN_RANGE), (3, OUT_OF_RANGE)):
        assert_same_as_eager(of_what_nobody_uses, x, s, index, backend=backend)


WRITES = [torch.Tensor.mul_, torch.Tensor.add_, torch.Tensor.sub_, operator.imul, lambda x, s: torch._foreach_mul_([x], s)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("write", WRITES, ids=["mul_", "add_", "sub_", "*=", "_foreach_mul_"])
def test_a_result_in_place_that_the_tensor_cannot_hold_is_refused(write: Any, backend: str) -> None:
    """A compiler computes it in another dtype and converts it: torch's fake forms do not refuse each of them."""

    def program(x, s):
        write(x, s)
        return x * 2

    whole, truths = torch.tensor([4, 6, 9]), torch.tensor([True, False, True])
    for x, others in ((whole, [2.5, 1j, 3]), (truths, [2, 2.5, True]), (whole / 2, [2, 3.5, 1j])):
        graphs = 0 if write is torch.Tensor.sub_ and x is truths else None  # nothing is subtracted from truth values
        assert_same_as_eager(program, x, others[0], then=[(x, other) for other in others[1:]], backend=backend, graphs=graphs)
    if write is not WRITES[-1]:
        assert_same_as_eager(program, whole, whole, then=[(whole, torch.tensor(2.5)), (whole, whole / 2)], backend=backend)


def writes_to_one_of_several_views(x, sizes):
    y = x * 1
    first, *_ = y.split(sizes)
    try:
        first += 1
    except RuntimeError as error:
        return "is a view" in str(error), y
    return y, first


def writes_to_a_view_made_without_gradients(x):
    y = x * 1
    with torch.no_grad():
        z = y.view(-1)
    try:
        z.add_(1)
    except RuntimeError as error:
        return "no_grad" in str(error), y
    return y, z


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_that_may_not_be_written_is_handed_out_as_one(backend: str) -> None:
    """Autograd refuses to change one of several views also where a compiled graph made them."""
    for x in (torch.ones(4, requires_grad=True), torch.ones(4)):
        for sizes in (2, [1, 3]):
            assert_same_as_eager(writes_to_one_of_several_views, x, sizes, backend=backend)
        assert_same_as_eager(writes_to_a_view_made_without_gradients, x, backend=backend)


def writes_to_rows(x):
    y = x * 1
    try:
        for row in y:
            row.mul_(2)
    except RuntimeError as error:
        return "Unbind" in str(error), y.detach()
    return y


def writes_to_a_row_taken_apart(x):
    first, *rest = x * 1
    try:
        first += 1
    except RuntimeError as error:
        return "Unbind" in str(error), rest
    return first, rest


@pytest.mark.parametrize("program", [writes_to_rows, writes_to_a_row_taken_apart])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_rows_of_a_tensor_are_several_views_that_one_operator_gave(program: Any, backend: str) -> None:
    """Walking a tensor is `unbind`: autograd refuses to change one of the rows if they have a history, and allows it if not."""
    leaf = torch.arange(4.0).reshape(2, 2).requires_grad_()
    for x in (leaf.detach(), leaf, leaf * 2, leaf.detach()):
        assert_same_as_eager(program, x, backend=backend)


def product_into(out, x):
    return torch.matmul(x, x, out=out)


def power_into(out, x):
    return torch.linalg.matrix_power(x, 2, out=out)


def product_into_a_view(out, x):
    return torch.matmul(x, x, out=out.t())


@pytest.mark.parametrize("into", [product_into, power_into, product_into_a_view])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_out_of_a_decomposed_operator_gets_no_history(into: Any, backend: str) -> None:
    """`out=` refuses operands that require gradients, also where a decomposition of the operator would not."""

    def program(x, wanted):
        out = torch.zeros(2, 2)
        try:
            with torch.set_grad_enabled(wanted):
                into(out, x)
        except RuntimeError as error:
            return x * 2, "don't support automatic differentiation" in str(error)
        return out + x * x

    leaf = torch.arange(4.0).reshape(2, 2).requires_grad_()
    for x in (leaf.detach(), leaf, leaf * 2, leaf.detach()):
        for wanted in (True, False):
            assert_same_as_eager(program, x, wanted, backend=backend)


def clamped(x, number):
    return torch.clamp(x, min=number)


def filled_in_place(x, number):
    return x.clone().fill_(number)


def filled_anew(x, number):
    return torch.full((2,), number, dtype=x.dtype)


def to_a_power(x, number):
    return x**number


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "nobody uses it"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("convert", "dtype", "too_large"),
    [
        (clamped, torch.float32, 1e300), (filled_in_place, torch.int8, 300), (filled_anew, torch.int32, 2**40),
        (to_a_power, torch.int32, -1),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_a_number_that_varies_may_be_too_large_for_a_dtype(
    convert: Any, dtype: torch.dtype, too_large: float, backend: str, is_used: bool
) -> None:
    """The operator raises when it runs; what the program did before it has happened, once."""

    def program(x, number, log):
        log.append("before")
        x.add_(1)
        y = convert(x, number)
        return (x * 2, y) if is_used else x * 2

    small = type(too_large)(2)
    first, *more = [(torch.ones(2, dtype=dtype), number, []) for number in (small, small + 1, too_large, small + 2)]
    assert_same_as_eager(program, *first, then=more, backend=backend)


def multiplied(x, other):
    return x @ other


def through_a_layer(x, other):
    return F.linear(x, other)


def normalized(x, other):
    return F.layer_norm(x, (2,), other[0])


def put_in(x, other):
    return x.clone().index_copy_(0, IN_RANGE, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mixed", [multiplied, through_a_layer, normalized, put_in])
def test_operators_that_refuse_two_dtypes_raise_though_nobody_uses_the_result(mixed: Any, backend: str) -> None:
    """Their fake forms do not refuse, and a compiler leaves out what nobody uses."""

    def program(x, other):
        x.add_(1)
        mixed(x, other)
        return x * 2

    other = torch.ones(2, 2)
    then = [(torch.ones(2, 2, dtype=torch.float64), other), (torch.ones(2, 2), other)]
    assert_same_as_eager(program, torch.ones(2, 2), other, then=then, backend=backend)


DOES_NOT_FIT = {
    "comparison": lambda x, y: x.eq_(y),
    "copysign": lambda x, y: x.copysign_(y),
    "power": lambda x, y: x.pow_(y),
    "limits": lambda x, y: x.clamp_(y),
    "logical": lambda x, y: x.logical_and_(y),
    "alias": lambda x, y: x.greater_(y),
    "outer product": lambda x, y: x.addr_(y[0], y[0]),
    "mask": lambda x, y: x.masked_scatter_(y > 0, y),
}


@pytest.mark.parametrize("write", DOES_NOT_FIT.values(), ids=DOES_NOT_FIT)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_result_does_not_fit_into_what_is_written_to(backend, write):
    """The program hears of the shapes, and may go on: the compiler, whose own words it does not catch, is not asked."""

    def fn(x, y):
        z = x * 2
        try:
            write(z, y)
        except RuntimeError as error:
            return z, type(error), str(error)
        return z

    rows = torch.arange(6.0).reshape(2, 3)
    for first in (torch.ones(3), torch.ones(1, 3), torch.ones(2, 3)):
        assert_same_as_eager(fn, first, rows, calls=2, backend=backend)
