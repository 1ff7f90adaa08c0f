"""Tensors as Scalar arguments (`alpha=`, `value=`): the bits, the exceptions and the gradients of eager."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend

METHODS = ["add", "sub", "addcmul", "addcdiv", "add_", "sub_", "addcmul_", "addcdiv_"]
EXACT = [torch.float32, torch.float64, torch.complex64]
BROKEN = [torch.bfloat16, torch.float16, torch.int64]
FACTORS = {
    "a number": lambda: torch.randn(()),
    "a double": lambda: torch.randn((), dtype=torch.float64),
    "an integer": lambda: torch.tensor(3),
}
REFUSED = {
    "one element in a dimension": lambda: torch.randn(1),
    "one that needs a gradient": lambda: torch.randn((), requires_grad=True),
    "a complex number": lambda: torch.randn((), dtype=torch.complex64),
    "a truth value": lambda: torch.tensor(True),
}


def _scaled(method: str) -> Any:
    keyword = "value" if "addc" in method else "alpha"

    def scaled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        others = (y, z) if keyword == "value" else (y,)
        result: torch.Tensor = getattr(x * 1, method)(*others, **{keyword: factor})
        return result

    return scaled


def _outcome(function: Any, *values: torch.Tensor) -> Any:
    try:
        return function(*values)
    except (TypeError, RuntimeError) as error:
        return type(error), str(error)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and left.requires_grad == right.requires_grad and torch.equal(left, right)
    return bool(left == right)


SHAPES = [(33,), (7,), (3, 5)]


def _differences(method: str, dtype: torch.dtype, factor: Any, backend: Any, shapes: Any) -> list[object]:
    function, differences = _scaled(method), []
    captured = dynexplore.optimize(backend)(function)
    for shape in shapes:
        x, y, z = ((torch.randn(shape) * 9).to(dtype) for _ in range(3))
        number = factor()
        expected, got = _outcome(function, x, y, z, number), _outcome(captured, x, y, z, number)
        if not _same(expected, got):
            differences.append((shape, number, expected, got))
    return differences


@pytest.mark.parametrize(("method", "factor"), list(itertools.product(METHODS, FACTORS)))
def test_a_factor_rounds_as_in_eager(method: str, factor: str) -> None:
    """Whole, and equal to the last bit."""
    torch.manual_seed(0)
    for dtype in EXACT:
        dynexplore.reset()
        backend = CountingBackend()
        assert _differences(method, dtype, FACTORS[factor], backend, SHAPES) == []
        assert backend.graphs
    assert sum(dynexplore.counters["graph_break"].values()) == 0


@pytest.mark.parametrize("method", METHODS)
def test_where_no_decomposition_rounds_alike_the_operator_is_called(method: str) -> None:
    """Half precision and integers; factors that eager refuses raise its exception."""
    torch.manual_seed(0)
    drawn = [(torch.float32, name) for name in REFUSED] + [(torch.complex64, "a double"), (torch.complex64, "a complex number")]
    for dtype, name in [*zip(BROKEN, FACTORS, strict=True), *drawn]:
        dynexplore.reset()
        assert _differences(method, dtype, (FACTORS | REFUSED)[name], CountingBackend(), [(33,), ()]) == []
    assert dynexplore.graph_breaks()


@pytest.mark.parametrize("method", METHODS[:4])
def test_gradients(method: str) -> None:
    """Those of the operands are eager's, whether the call is captured or not."""
    function = _scaled(method)
    backend = CountingBackend()
    captured = dynexplore.optimize(backend)(function)
    torch.manual_seed(0)
    for _ in range(2):
        operands, factor = [torch.randn(9) for _ in range(3)], torch.randn(())
        grads = []
        for run in (function, captured):
            leaves = [value.clone().requires_grad_() for value in operands]
            run(*leaves, factor).sin().sum().backward()
            grads.append([leaf.grad for leaf in leaves])
        assert all(left is right or _same(left, right) for left, right in zip(*grads, strict=True))
    assert backend.graphs
