"""Array models: real arrays with the same layout and made-up content, on which numpy itself predicts the result of an operation.

The idea is described at the head of array.py. This file has the parts that need no tracker: building a model, running an operation
on models, choosing the dtype in which the graph computes, and comparing a fake tensor with numpy's result.

In: arrays, numpy's functions, fake tensors. Out: models; a description of each difference. PyTorch's counterpart: none.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.numpy_.array_memory import TRACEABLE

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def model_of(value: Any) -> Any:
    """An array with the same layout and made-up content: distinct numbers, valid as indices, small enough not to overflow."""
    numpy: Any = sys.modules["numpy"]
    model = numpy.empty_like(value, subok=False)
    if model.strides != value.strides:
        extent = sum((size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True)) + value.itemsize
        buffer = numpy.empty(max(extent, value.itemsize), dtype=numpy.uint8)
        model = numpy.ndarray(value.shape, value.dtype, buffer, 0, value.strides)
    model[...] = 0 if value.dtype.kind != "f" else (numpy.arange(value.size) % 7 + 1).reshape(value.shape)
    return model


def on_models(
    ctx: TraceContext, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
    quiet: type[Warning] | None = None,
) -> Any:
    """The result of numpy on the models; an exception or a warning (other than `quiet`) must reach the program: a graph break."""
    numpy: Any = sys.modules["numpy"]
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("error")
        if quiet is not None:
            warnings.simplefilter("ignore", quiet)
        try:
            return function(*args, **kwargs)
        except Exception as error:  # numpy may raise anything; the real run raises the same
            ctx.break_graph("DX207", function=f"{name} ({type(error).__name__}: {error})")


_HALF = "float16"


def sums_halves(name: str, models: Sequence[Any]) -> bool:
    """Whether float16 numbers are summed: torch rounds differently from numpy, also in matrix products."""
    halves = any(model.dtype.name == _HALF for model in models)
    return halves and name.removeprefix("ndarray.") in _ADDING_UP


_ADDING_UP = _words(
    "sum mean std var prod cumsum cumprod dot trace matmul inner tensordot kron round around einsum linalg.norm"
)


_SUMS = _words("sum prod cumsum cumprod")


def _is_ufunc(function: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    return function if isinstance(function, numpy.ufunc) and function is not numpy.matmul else None


def dtype_to_compute_in(name: str, expected: Any, models: Sequence[Any]) -> str | None:
    """The dtype in which the graph computes: that of the result for sums and for true
    division of integers, where torch's defaults differ.
    """
    numpy: Any = sys.modules["numpy"]
    plain = name.removeprefix("ndarray.")
    dtypes = {model.dtype.name for model in models}
    if plain in _SUMS and dtypes != {result_dtype := expected.dtype.name} and result_dtype in TRACEABLE:
        return str(result_dtype)
    if plain == "square" or (_is_ufunc(getattr(numpy, plain, None)) is None and plain not in ("mean", "std", "var")):
        return None
    dtype = getattr(expected, "dtype", None)
    if dtype is None or dtype.kind != "f" or any(model.dtype.kind == "f" for model in models):
        return None
    return str(dtype.name)


def difference(fake: torch.Tensor, expected: Any) -> str | None:
    """A description of how the fake tensor differs from numpy's result; None if it does not."""
    dtype = str(fake.dtype).removeprefix("torch.")
    if dtype != expected.dtype.name:
        return f"{dtype} where numpy has {expected.dtype.name}"
    if tuple(map(hint, fake.shape)) != expected.shape:
        return f"{tuple(fake.shape)} where numpy has {expected.shape}"
    strides = [hint(stride) * expected.itemsize for stride in fake.stride()]
    dimensions = zip(expected.shape, strides, expected.strides, strict=True)
    if 0 not in expected.shape and any(size > 1 and fake_stride != numpy_stride for size, fake_stride, numpy_stride in dimensions):
        return "a layout that differs from numpy's"
    return None


def hint(size: Any) -> Any:
    """The hint of a size: its number in this call."""
    return size if isinstance(size, int) else size.node.hint
