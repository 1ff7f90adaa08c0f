"""Aliasing as a matrix: kind of input, mutation, view that is returned, grad mode, backend. Each cell is what eager makes of it.

A program is put together from the words of its cell, so a cell is read by its name, and a new kind of input, mutation or view is
one row. What a cell compares: values, exceptions, version counters, which tensors are views of which, which share a
storage, whether they require grad, then a write of the caller into what came back, and the gradients of leaves. It is called four
times: the capture, a hit, another size, and inputs of another kind. `make test` draws one cell for each input, mode and backend, so
that each mutation and each view is met a few times; a long run goes through all cells.

In:  INPUTS, MUTATIONS, RETURNED, MODES. Out: one test for each input, mode and backend.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

import dynexplore

Tensors = tuple[torch.Tensor, ...]


# -- inputs of a size: `a` is written to, `b` is read, `w` is a leaf that requires grad -----------------------------------


def leaf(size: int) -> torch.Tensor:
    return (torch.arange(float(size)) / 4 + 0.5).requires_grad_()  # sums of which are exact in any order


def numbers(size: int) -> torch.Tensor:
    return torch.arange(float(size))


def plain(size: int) -> Tensors:
    return numbers(size) + 1, numbers(size), leaf(size)


def requires_grad(size: int) -> Tensors:
    return leaf(size), numbers(size), leaf(size)


def non_leaf(size: int) -> Tensors:
    return leaf(size) * 2, numbers(size), leaf(size)


def view_of_base(size: int) -> Tensors:
    return numbers(2 * size)[3 : 3 + size], numbers(size), leaf(size)


def view_of_non_leaf(size: int) -> Tensors:
    return torch.cat([leaf(size) * 2, leaf(size)])[3 : 3 + size], numbers(size), leaf(size)


def overlapping(size: int) -> Tensors:
    base = numbers(size + 3)
    return base[:size], base[3:], leaf(size)


def overlapping_at_an_offset(size: int) -> Tensors:
    base = numbers(2 * size)[5:]
    return base[:size], base[1 : size + 1], leaf(size)


def row_and_column(size: int) -> Tensors:
    base = numbers(size * size).view(size, size)
    return base[1], base[:, 2], leaf(size)


def base_and_view(size: int) -> Tensors:
    base = numbers(size)
    return base, base.view(size), leaf(size)


def without_common_base(size: int) -> Tensors:
    a, base = torch.empty(0), numbers(size + 3)
    a.set_(base.untyped_storage(), 1, (size,), (1,))  # type: ignore[call-overload]
    return a, base[3:], leaf(size)


def of_two_dtypes(size: int) -> Tensors:
    base = numbers(size)
    return base, base.view(torch.int32), leaf(size)


def two_halves(size: int) -> Tensors:
    base = numbers(2 * size)
    return base[:size], base[size:], leaf(size)


def same_tensor_twice(size: int) -> Tensors:
    a = numbers(size)
    return a, a, leaf(size)


def no_grad_view(size: int) -> Tensors:
    base = leaf(size) * 2
    with torch.no_grad():
        return base.view(size), numbers(size), leaf(size)


def inference_tensor(size: int) -> Tensors:
    with torch.inference_mode():
        a = numbers(size) + 1
    return a, numbers(size), leaf(size)


def inference_leaves(size: int) -> Tensors:
    with torch.inference_mode():
        return leaf(size), numbers(size), leaf(size)


def parameter(size: int) -> Tensors:
    return torch.nn.Parameter(numbers(size)), numbers(size), leaf(size)


def expanded(size: int) -> Tensors:
    return numbers(size)[1:2].expand(size), numbers(size), leaf(size)


def marked_dynamic(size: int) -> Tensors:
    base = numbers(size + 2)
    a, b = base[:size], base[2:]
    torch._dynamo.maybe_mark_dynamic(a, 0)
    torch._dynamo.maybe_mark_dynamic(b, 0)
    return a, b, leaf(size)


INPUTS = [
    plain, requires_grad, non_leaf, view_of_base, view_of_non_leaf, overlapping, overlapping_at_an_offset, row_and_column,
    base_and_view, without_common_base, of_two_dtypes, two_halves, same_tensor_twice, no_grad_view, inference_tensor,
    inference_leaves, parameter, expanded, marked_dynamic,
]  # fmt: skip


# -- mutations, with what was read before and is returned, if anything ----------------------------------------------------


def nothing(a: Any, b: Any, w: Any) -> Any:
    pass


def in_place(a: Any, b: Any, w: Any) -> Any:
    a.mul_(2)


def with_a_grad_fn(a: Any, b: Any, w: Any) -> Any:
    a.add_(w)


def of_an_item(a: Any, b: Any, w: Any) -> Any:
    a[1:3] = b[0]


def through_a_view(a: Any, b: Any, w: Any) -> Any:
    a.view(2, -1)[1].add_(b[:1])


def through_data(a: Any, b: Any, w: Any) -> Any:
    a.data.add_(1)


def through_data_behind_a_product(a: Any, b: Any, w: Any) -> Any:
    y = a * (a * w)
    a.data[1:].mul_(3)
    return y


def through_detach(a: Any, b: Any, w: Any) -> Any:
    a.detach().mul_(3)


def through_detach_with_a_grad_fn(a: Any, b: Any, w: Any) -> Any:
    alias = a.detach()
    alias[...] = w.sum()
    return alias


def as_out(a: Any, b: Any, w: Any) -> Any:
    torch.add(b, 1, out=a)


def without_gradients(a: Any, b: Any, w: Any) -> Any:
    with torch.no_grad():
        a.add_(w)


def in_inference_mode(a: Any, b: Any, w: Any) -> Any:
    with torch.inference_mode():
        a.add_(1)


def outside_of_inference_mode(a: Any, b: Any, w: Any) -> Any:
    with torch.inference_mode(False):
        a.add_(1)
        return w * 2


def of_both(a: Any, b: Any, w: Any) -> Any:
    a.add_(1)
    b.mul_(2)
    a.sub_(b)


def of_a_list(a: Any, b: Any, w: Any) -> Any:
    torch._foreach_add_([a, a, b], 1)


def of_the_metadata(a: Any, b: Any, w: Any) -> Any:
    a.unsqueeze_(0)


def of_the_metadata_and_back(a: Any, b: Any, w: Any) -> Any:
    flat = a.view(-1)
    a.unsqueeze_(0).squeeze_(0)
    return flat.clone()


def of_the_storage(a: Any, b: Any, w: Any) -> Any:
    a.resize_(3)


def of_the_data(a: Any, b: Any, w: Any) -> Any:
    a.data = b * 2


def of_a_clone(a: Any, b: Any, w: Any) -> Any:
    y = a.clone()
    y.add_(1)
    return y, y._version, y.view(-1)._version


def after_a_read(a: Any, b: Any, w: Any) -> Any:
    read = a.clone() * w
    a.neg_()
    return read


def between_two_reads(a: Any, b: Any, w: Any) -> Any:
    first = a * 3
    a.mul_(2)
    second = a.exp2() * w
    a.add_(1)
    return first * w + second


def under_a_view(a: Any, b: Any, w: Any) -> Any:
    view = a[1:]
    read = view.clone() * w[1:]
    a.add_(1)
    return read + view.clone() * w[:-1]


def at_an_index(a: Any, b: Any, w: Any) -> Any:
    a.index_copy_(0, torch.tensor([1, 3]), b[:2] * 2)


def of_itself(a: Any, b: Any, w: Any) -> Any:
    a[:1].copy_(a[1:2] * 2)


def then_an_error(a: Any, b: Any, w: Any) -> Any:
    total = b.sum()
    a.copy_(b + total)
    return b.index_select(0, torch.tensor([100]))


def then_an_error_of_the_data(a: Any, b: Any, w: Any) -> Any:
    a[:2].copy_(b[:2] * 2)
    return b.index_select(0, (b[-1:] * 100).long())


def of_one_storage_by_as_strided(a: Any, b: Any, w: Any) -> Any:
    a.as_strided((2,), (1,)).add_(1)


def of_a_view_by_as_strided(a: Any, b: Any, w: Any) -> Any:
    view = a[1:].as_strided((2,), (1,))
    view.neg_()
    return view


def that_is_refused(a: Any, b: Any, w: Any) -> Any:
    try:
        a.expand(3, -1).add_(1)
    except RuntimeError:
        return b + 1


def that_overlaps_what_it_reads(a: Any, b: Any, w: Any) -> Any:
    y = b * 1
    y[:1].add_(y[2:3])
    try:
        y[1:].add_(y[:-1])
    except RuntimeError:
        return y


def of_elements_that_overlap(a: Any, b: Any, w: Any) -> Any:
    y = b * 1
    y.unfold(0, 3, 1).add_(1)
    y.as_strided((2, 2), (1, 1), 1).mul_(2)
    return y


def after_a_break(a: Any, b: Any, w: Any) -> Any:
    y = a * w
    dynexplore.graph_break()
    a.add_(1)
    return y, a._version > 0


def by_a_gradient(a: Any, b: Any, w: Any) -> Any:
    a.add_(torch.autograd.grad((b * w).sum(), w)[0])


MUTATIONS = [
    nothing, in_place, with_a_grad_fn, of_an_item, through_a_view, through_data, through_data_behind_a_product, through_detach,
    through_detach_with_a_grad_fn, as_out, without_gradients, in_inference_mode, outside_of_inference_mode, of_both, of_a_list,
    of_the_metadata, of_the_metadata_and_back, of_the_storage, of_the_data, of_a_clone, after_a_read, between_two_reads,
    under_a_view, at_an_index, of_itself, then_an_error, then_an_error_of_the_data, of_one_storage_by_as_strided,
    of_a_view_by_as_strided, that_is_refused, that_overlaps_what_it_reads, of_elements_that_overlap, after_a_break, by_a_gradient,
]  # fmt: skip


# -- what is returned beside `a * w` -------------------------------------------------------------------------------------


def no_view(a: Any, b: Any, w: Any) -> Any:
    return b + 1


def the_input(a: Any, b: Any, w: Any) -> Any:
    return a


def view_of_the_input(a: Any, b: Any, w: Any) -> Any:
    return a.view(-1)[1:]


def views_of_both_inputs(a: Any, b: Any, w: Any) -> Any:
    return a[:1], b.view(-1), a[:1] * b[:1]


def several_views(a: Any, b: Any, w: Any) -> Any:
    return a.split(3)


def detached(a: Any, b: Any, w: Any) -> Any:
    return a.detach()


def data(a: Any, b: Any, w: Any) -> Any:
    return a.data[1:], a._version > 3


def made_in_no_grad(a: Any, b: Any, w: Any) -> Any:
    with torch.no_grad():
        return a.view(-1)


def view_of_a_no_grad_view(a: Any, b: Any, w: Any) -> Any:
    with torch.no_grad():
        view = a.view(-1)
        with torch.enable_grad():
            inner = view[1:]
    return view[:2], inner


def made_with_gradients(a: Any, b: Any, w: Any) -> Any:
    with torch.enable_grad():
        y = w * 2
        return a.view(-1), y.view(-1), y


def made_in_inference_mode(a: Any, b: Any, w: Any) -> Any:
    y = b * 1
    with torch.inference_mode():
        z = y.view(-1) * 2
    return y, z, z[1:]


def made_outside_of_inference_mode(a: Any, b: Any, w: Any) -> Any:
    with torch.inference_mode(False):
        return w.square() * w


def view_of_a_dead_intermediate(a: Any, b: Any, w: Any) -> Any:
    return (b * w)[2:]


def two_views_of_an_intermediate(a: Any, b: Any, w: Any) -> Any:
    y = b * 2
    y.view(-1)[1:].mul_(3)
    return y[:2], y.view(2, -1)


def intermediate_mutated_after_a_break(a: Any, b: Any, w: Any) -> Any:
    y = b * w
    y.view(-1).mul_(2)
    row = y[1:]
    dynexplore.graph_break()
    y[0].add_(w.sum())
    row.mul_(3)
    return y, row


def views_mutated_after_a_break(a: Any, b: Any, w: Any) -> Any:
    first = (b.detach() * 2)[1:]
    second = first[1:]
    dynexplore.graph_break()
    second += w[2:]
    return first, second


def no_grad_view_mutated_after_a_break(a: Any, b: Any, w: Any) -> Any:
    y = b.detach() * 2
    with torch.no_grad():
        view = y[1:]
    dynexplore.graph_break()
    view += w[1:]
    return y


def detached_intermediate(a: Any, b: Any, w: Any) -> Any:
    y = b * w
    alias = y.view(-1).detach()[1:]
    alias.mul_(2)
    y.view(-1).mul_(3)
    return alias, y


def detached_view_mutated_after_a_break(a: Any, b: Any, w: Any) -> Any:
    alias = a.detach()[1:]
    vector = alias.view(-1)
    dynexplore.graph_break()
    alias *= w.sum()
    return vector


def real_part_of_a_complex(a: Any, b: Any, w: Any) -> Any:
    y = (b * 2).to(torch.complex64)
    torch.view_as_real(y)[..., 0].mul_(3)
    real = y.real
    dynexplore.graph_break()
    real[1:] += w.sum()
    return y.real * w


def integers(a: Any, b: Any, w: Any) -> Any:
    y = (b * 4).long()
    row = y[1:]
    dynexplore.graph_break()
    row[0] = w.sum()
    return y.detach()


def expanded_intermediate(a: Any, b: Any, w: Any) -> Any:
    y = b[:1] * 2
    wide = y.expand(3)
    y.view(-1).mul_(2)
    dynexplore.graph_break()
    return wide * 2


def new_leaf(a: Any, b: Any, w: Any) -> Any:
    weight = torch.ones_like(b, requires_grad=True)
    return weight * b, weight


def chained_outputs(a: Any, b: Any, w: Any) -> Any:
    y = b * w
    return y, y * 3


def by_as_strided(a: Any, b: Any, w: Any) -> Any:
    return a.as_strided((2,), (1,)) * 2, b.as_strided((2,), (2,), 1)


RETURNED = [
    no_view, the_input, view_of_the_input, views_of_both_inputs, several_views, detached, data, made_in_no_grad,
    view_of_a_no_grad_view, made_with_gradients, made_in_inference_mode, made_outside_of_inference_mode,
    view_of_a_dead_intermediate, two_views_of_an_intermediate, intermediate_mutated_after_a_break, views_mutated_after_a_break,
    no_grad_view_mutated_after_a_break, detached_intermediate, detached_view_mutated_after_a_break, real_part_of_a_complex,
    integers, expanded_intermediate, new_leaf, chained_outputs, by_as_strided,
]  # fmt: skip

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode,
}  # fmt: skip


# -- one cell ------------------------------------------------------------------------------------------------------------

Make = Callable[[int], Tensors]
Call = tuple[Make, int]


def program(mutate: Any, view: Any) -> Callable[..., Any]:
    """The program of a cell: it reads `a`, writes to it, reads it again and returns a view."""

    def cell(a: Any, b: Any, w: Any) -> Any:
        before = b * w
        read = mutate(a, b, w)
        return before, a * w, view(a, b, w), read

    return cell


def flat(values: Any) -> list[Any]:
    """The items of nested tuples."""
    return [item for value in values for item in flat(value)] if isinstance(values, tuple) else [values]


def elements(tensor: torch.Tensor) -> str:
    """The elements of a tensor, where a nan equals a nan."""
    return str(tensor.tolist())


def facts(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """What can be seen of tensors and their relations."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors]
    return [
        [
            elements(tensor), tensor.dtype, tensor.stride(), tensor.storage_offset(), tensor.requires_grad, tensor.is_leaf,
            tensor.is_inference(), storages.index(storage), [tensor is other for other in tensors],
            [tensor._base is other for other in tensors],
        ]
        for tensor, storage in zip(tensors, storages, strict=True)
    ]  # fmt: skip


def said(act: Callable[[], Any]) -> Any:
    """What an action gives, or the type of the exception that it raises."""
    try:
        return act()
    except Exception as error:
        return type(error).__name__


def outcome(run: Callable[..., Any], call: Call, mode: str) -> list[Any]:
    """All that a caller can see of one call: then of a write into what came back, then of backward."""
    make, size = call
    inputs = make(size)
    versions = [None if tensor.is_inference() else tensor._version for tensor in inputs]
    with MODES[mode]():
        returned = flat(said(lambda: run(*inputs)))
    outputs = [value for value in returned if isinstance(value, torch.Tensor)]
    seen = [[value if not isinstance(value, torch.Tensor) else "tensor" for value in returned]]
    seen.append(said(lambda: facts([*inputs, *outputs])))
    seen.append([old is not None and tensor._version > old for tensor, old in zip(inputs, versions, strict=True)])
    for output in outputs[2:]:
        seen.append(said(lambda tensor=output: tensor.mul_(2) is tensor))
    seen.append(said(lambda: [elements(tensor) for tensor in (*inputs, *outputs)]))
    roots = [tensor for tensor in outputs if tensor.requires_grad]
    if roots:
        seen.append(said(lambda: torch.stack([tensor.sum() for tensor in roots]).sum().backward()))
        leaves = [tensor for tensor in inputs if said(lambda tensor=tensor: tensor.is_leaf) is True]
        seen.append([None if tensor.grad is None else elements(tensor.grad) for tensor in leaves])
    return seen


def is_alike(expected: list[Any], actual: list[Any], backend: str) -> bool:
    """Whether two outcomes are equal. That eager's backward refuses the caller's write, and a compiled one does not, is DIFF29."""
    ends_in_backward = len(expected) > 2 and expected[-2] == "RuntimeError"
    return actual[:-2] == expected[:-2] if ends_in_backward and backend != "eager" else actual == expected


def calls_of(row: int) -> tuple[list[Call], str]:
    """The calls of a row, and their mode: capture, guards that hold, another size, inputs of another row."""
    make, mode = ROWS[row]
    other = ROWS[row - len(MODES)][0]
    return [(make, 6), (make, 6), (make, 8), (other, 6)], mode


def assert_alike(cells: Iterable[tuple[Any, Any]], row: int, backend: str) -> None:
    """Each cell is what eager makes of it, over all its calls."""
    calls, mode = calls_of(row)
    wrong, graphs = [], 0
    for mutate, view in cells:
        cell = program(mutate, view)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = [outcome(cell, call, mode) for call in calls]
            dynexplore.reset()
            run = dynexplore.optimize(backend)(cell)
            for number, call in enumerate(calls):
                if not is_alike(expected[number], actual := outcome(run, call, mode), backend):
                    wrong.append(f"{mutate.__name__}, {view.__name__}, call {number}:\n  {expected[number]}\n  {actual}")
                    break
        graphs += dynexplore.counters["stats"]["graphs"]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:6])
    assert graphs > 0


CELLS = list(itertools.product(MUTATIONS, RETURNED))
ROWS = list(itertools.product(INPUTS, MODES))
BACKENDS = ["eager", "aot_eager"]
STEP = 149
"""`make test` takes one cell for each row and backend: so many after the one before, so that each word is met a few times."""
ids = [f"{make.__name__}-{mode}" for make, mode in ROWS]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", range(len(ROWS)), ids=ids)
def test_a_cell_is_what_eager_makes_of_it(row: int, backend: str) -> None:
    """One cell of each input, mode and backend."""
    assert_alike([CELLS[(len(BACKENDS) * row + BACKENDS.index(backend)) * STEP % len(CELLS)]], row, backend)


FOUND: dict[tuple[Make, str], list[tuple[Any, Any]]] = {
    (plain, "grad"): [(of_the_data, the_input), (of_the_data, several_views)],
    # of no_grad views `facts` reads no `is_leaf`, which would give a stale view its grad_fn (test_stale_views.py)
    (no_grad_view, "grad"): [
        *((mutate, detached_view_mutated_after_a_break) for mutate in (nothing, through_data, of_a_clone, of_the_data)),
        (of_the_data, view_of_a_no_grad_view),
    ],
    # AOTAutograd returned the views of a mutated leaf as memory of their own
    (requires_grad, "grad"): [
        (mutate, several_views) for mutate in (in_inference_mode, without_gradients, through_detach, through_data)
    ],
    # version counters that inputs without a common base do not share
    (without_common_base, "no_grad"): [(through_detach, no_view), (through_a_view, the_input)],
    # as a view of a view, it could not be replayed on the base, and the backend raised
    (base_and_view, "inference"): [(of_one_storage_by_as_strided, no_view)],
    # what a graph had done before it raised could not be undone of an expanded tensor, and its inference mode stayed
    (expanded, "grad"): [
        (in_inference_mode, the_input), (between_two_reads, views_of_both_inputs), (of_itself, views_of_both_inputs),
    ],
}  # fmt: skip
"""Cells that were wrong once; the slice may leave them out."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("make", "mode"), FOUND, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_a_cell_that_was_wrong_once(make: Make, mode: str, backend: str) -> None:
    """As the slice."""
    assert_alike(FOUND[make, mode], ROWS.index((make, mode)), backend)


@pytest.mark.soak
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", range(len(ROWS)), ids=ids)
def test_each_cell_is_what_eager_makes_of_it(row: int, backend: str) -> None:
    """The whole matrix."""
    assert_alike(CELLS, row, backend)
