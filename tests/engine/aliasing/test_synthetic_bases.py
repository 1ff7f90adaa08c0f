"""What the alias matrix cannot say of overlapping inputs: which graphs reach a backend, how a second layout is served, Inductor.

Values, mutations, views and version counters are cells of test_alias_matrix.py.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.aliasing.synthetic_bases import bases_of
from engine_checks import CountingBackend

needs_compiler = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="Inductor wants a C++ compiler")
pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=needs_compiler)]


def mutates_first(a, b, c):
    a.add_(1)
    return a * b + c


def shifted() -> tuple[torch.Tensor, ...]:
    base = torch.arange(12.0)
    return base[:4], base[2:6], base[8:]


def same_places() -> tuple[torch.Tensor, ...]:
    base = torch.arange(4.0)
    return base[:], base.view(4), torch.ones(4)


def base_and_view() -> tuple[torch.Tensor, ...]:
    base = torch.arange(4.0)
    return base, base.view(4), torch.ones(4)


def strided() -> tuple[torch.Tensor, ...]:
    base = torch.arange(16.0).view(4, 4)
    return base[1], base[:, 2], base.diagonal()


def at_an_offset() -> tuple[torch.Tensor, ...]:
    base = torch.arange(20.0)[5:]
    return base[:4], base[1:5], base[3:7]


def two_storages() -> tuple[torch.Tensor, ...]:
    base = torch.arange(8.0)
    return base[:4], base[3:7], torch.arange(8.0)[2:6]


def without_common_base() -> tuple[torch.Tensor, ...]:
    a, base = torch.empty(0), torch.arange(8.0)
    a.set_(base.untyped_storage(), 1, (4,), (1,))
    return a, base[3:7], torch.ones(4)


def apart() -> tuple[torch.Tensor, ...]:
    return torch.arange(4.0), torch.arange(4.0), torch.arange(4.0)


LAYOUTS = [shifted, same_places, base_and_view, strided, at_an_offset, two_storages, without_common_base]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_backend_gets_the_graph(layout: Any) -> None:
    """A graph whose inputs overlap goes to its backend, and the event names the pass."""
    backend = CountingBackend("aot_eager")
    (compiled,) = recorded(mutates_first, layout(), backend=backend).of(ev.SubgraphCompiled)
    assert len(backend.graphs) == 1
    assert compiled.because is None
    assert "synthetic bases" in compiled.passes


def test_a_second_layout_runs_as_captured() -> None:
    """The first layout is compiled; from the second one on a single entry serves every layout, and says why."""
    backend = CountingBackend("aot_eager")
    run = dynexplore.optimize(backend)(mutates_first)
    for layout in (shifted, at_an_offset, same_places, strided, shifted, two_storages):
        run(*layout())
    assert len(backend.graphs) == 1
    assert sum(dynexplore.counters["backend_skipped"].values()) == dynexplore.counters["stats"]["recompiles"] >= 1


def grad_leaves() -> tuple[torch.Tensor, ...]:
    base = torch.arange(6.0)
    return base[:4].detach(), base[2:].detach().requires_grad_()


def other_dtype() -> tuple[torch.Tensor, ...]:
    base = torch.arange(4.0)
    return base, base.view(torch.int32)


def other_base_and_a_view_is_returned() -> tuple[torch.Tensor, ...]:
    a, b, _ = without_common_base()
    return a, b


def varying_size() -> tuple[torch.Tensor, ...]:
    base = torch.arange(6.0)
    a, b = base[:4], base[2:]
    torch._dynamo.mark_dynamic(a, 0)
    torch._dynamo.mark_dynamic(b, 0)
    return a, b


def multiplies(a, b):
    a.add_(1)
    return a * b


def takes_a_view(a, b):
    a.add_(1)
    return b[1:]


WITHOUT_BASE = [
    (multiplies, other_dtype), (multiplies, grad_leaves), (multiplies, varying_size),
    (takes_a_view, other_base_and_a_view_is_returned),
]  # fmt: skip


@pytest.mark.parametrize(("program", "make"), WITHOUT_BASE, ids=lambda value: value.__name__)
def test_inputs_without_base_run_as_captured(program: Any, make: Any) -> None:
    """Where there can be no base the backend is skipped, and the program does what eager does."""
    inputs = make()
    expected = [tensor.tolist() for tensor in (program(*inputs), *inputs)]
    backend, inputs = CountingBackend("aot_eager"), make()
    result = dynexplore.optimize(backend)(program)(*inputs)
    assert [tensor.tolist() for tensor in (result, *inputs)] == expected
    assert backend.graphs == []
    assert [line[:4] for line in dynexplore.counters["backend_skipped"]] == ["BE16"]


def weighs(a, b, w):
    a.add_(1)
    return (a * w + b).sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_what_is_computed_with_overlapping_inputs(backend: str) -> None:
    """The gradient of a leaf beside them is eager's, over several layouts."""
    results = []
    for wrap in (lambda fn: fn, dynexplore.optimize(backend, nopython=True)):
        run = wrap(weighs)
        for make in (shifted, shifted, at_an_offset, apart):
            a, b, w = make()
            leaf = w.detach().clone().requires_grad_()
            run(a, b, leaf).backward()
            results.append([tensor.tolist() for tensor in (a, b, leaf, leaf.grad)])
    assert results[: len(results) // 2] == results[len(results) // 2 :]
    assert dynexplore.counters["stats"]["graphs"] >= 1


def test_a_base_is_where_plain_tensors_of_one_dtype_overlap() -> None:
    """The bases of tensors: places, offsets, elements, and whether they are views of one tensor."""
    base = torch.arange(12.0)
    assert bases_of([base[:4], torch.ones(3), base[2:6]], [0]) == (((0, 2), (0, 2), 12, True),)
    assert bases_of([base[:4], base[4:]], [0]) == ()
    assert bases_of([base, base.view(torch.int32)], [0]) is None
    assert dynexplore.optimize("aot_eager")(multiplies)(base[:4].clone(), base[:4]).tolist() == [0.0, 2.0, 6.0, 12.0]
    assert dynexplore.counters["stats"]["graphs"] == 1
