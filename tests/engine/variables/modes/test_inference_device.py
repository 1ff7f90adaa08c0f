"""`torch.set_default_device`, and a block of `torch.device` around the call: the mode stays active, frames are captured under it.

The rules stand in engine/runtime/foreign_modes.py and engine/provenance/torch_guards.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch

import dynexplore
from engine_checks import CountingBackend

X = torch.ones(2)


@contextlib.contextmanager
def set_for_good(device: str) -> Iterator[None]:
    """`torch.set_default_device`, undone behind the block."""
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


def makers(x: torch.Tensor) -> list[torch.Tensor]:
    """Tensors from constructors that name no device, one from one that does, and one from another tensor."""
    default = torch.get_default_device()
    return [torch.zeros(2), torch.arange(3), torch.rand(2), torch.full((2,), 1.5), torch.zeros(1, device="cpu"), x * 2,
            torch.ones(1, device=default)]


def placed(tensors: list[torch.Tensor]) -> list[str]:
    """The device of each tensor."""
    return [str(tensor.device) for tensor in tensors]


@pytest.mark.parametrize("way", [set_for_good, torch.device])
@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_tensors_are_made_on_the_default_device(way: Callable[[str], Any], inner: str) -> None:
    """One graph for each default device; a call under another one, or none, does not get its tensors."""
    backend = CountingBackend(inner)
    optimized = dynexplore.optimize(backend)(makers)
    for device in ("cpu", "meta", "cpu", "meta"):
        with way(device):
            assert placed(optimized(X)) == placed(makers(X))
    assert (len(backend.graphs), backend.runs) == (2, 4)
    assert placed(optimized(X)) == ["cpu"] * 7
    assert len(backend.graphs) == 3
    assert dynexplore.counters["graph_break"].total() == 0


def test_a_break_under_a_default_device() -> None:
    """What follows a break is captured under the device, too, and a block inside changes it for itself."""

    def program() -> tuple[torch.Tensor, ...]:
        first = torch.ones(2)
        dynexplore.graph_break()
        with torch.device("cpu"):
            second = torch.zeros(3)
        return first, second, torch.ones(1)

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(program)
    with torch.device("meta"):
        assert placed(list(optimized())) == ["meta", "cpu", "meta"]
    assert placed(list(optimized())) == ["cpu", "cpu", "cpu"]
    assert len(backend.graphs) == 4


def test_the_device_is_what_a_recompile_names() -> None:
    """A miss says which default device was there at capture, and which is there now."""
    reasons = []
    optimized = dynexplore.optimize(CountingBackend())(lambda: torch.ones(2) + 1)
    optimized()
    with dynexplore.config.patch(error_on_recompile=True), torch.device("meta"):
        with pytest.raises(dynexplore.exc.RecompileError) as error:
            optimized()
        reasons.append(str(error.value))
    assert "no TorchFunctionMode" in reasons[0]
    assert "default device meta" in reasons[0]


def of_arrays(x: torch.Tensor, array: Any) -> list[torch.Tensor]:
    """Tensors of an array: conversions and copies go to the default device, `from_numpy` stays on the array's memory."""
    return [torch.tensor(array), torch.as_tensor(array), torch.asarray(array), torch.tensor(array[0]), torch.from_numpy(array),
            torch.tensor(array, device="cpu"), x * 2]  # fmt: skip


@pytest.mark.parametrize("way", [set_for_good, torch.device])
@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_tensors_of_arrays_go_to_the_default_device(way: Callable[[str], Any], inner: str) -> None:
    """An array lies in the CPU's memory, and a tensor that is made of it need not."""
    backend, array = CountingBackend(inner), numpy.arange(3.0)
    optimized = dynexplore.optimize(backend)(of_arrays)
    for device in ("cpu", "meta", "cpu"):
        with way(device):
            assert placed(optimized(X, array)) == placed(of_arrays(X, array))
    assert len(backend.graphs) == 2


def computes_with_arrays(x: torch.Tensor, array: Any) -> Any:
    """numpy computes where the arrays are, whatever numbers and lists stand beside them."""
    total = numpy.add(array.sum(), 2.5)
    return x * 2, total, numpy.maximum(array, 0.5), array * [1.0, 2.0, 3.0], numpy.power(array, 2), numpy.sqrt(array)


@pytest.mark.parametrize("way", [set_for_good, torch.device])
@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_arrays_do_not_go_to_the_default_device(way: Callable[[str], Any], inner: str) -> None:
    """What a graph computes of arrays lies in the CPU's memory, as numpy's own results do."""
    backend = CountingBackend(inner)
    optimized = dynexplore.optimize(backend)(computes_with_arrays)
    for device in ("cpu", "meta", "cpu"):
        array = numpy.arange(3.0, dtype=numpy.float32)
        with way(device):
            results, expected = optimized(X, array), computes_with_arrays(X, array)
        for result, wanted in zip(results[1:], expected[1:], strict=True):
            numpy.testing.assert_allclose(result, wanted, strict=True)
    assert len(backend.graphs) == 2
