"""Models of arrays: real arrays of the same layout with made-up content, of which numpy itself is asked what an operation gives.

The idea stands at the head of array.py. Here is what needs no tracker: making a model, carrying an operation out on models, what
follows from them for the graph (the dtype to compute in), and whether a fake tensor is what numpy says.

In: arrays, numpy's functions, fake tensors. Out: models; words for what differs. PyTorch has no counterpart.
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
    """An array of the same layout with made-up content: numbers that differ, no index out of range, nothing that overflows."""
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
    """What numpy gives on the models; an exception or a warning (other than `quiet`) is the program's to see: a graph break."""
    numpy: Any = sys.modules["numpy"]
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("error")
        if quiet is not None:
            warnings.simplefilter("ignore", quiet)
        try:
            return function(*args, **kwargs)
        except Exception as error:  # numpy may raise anything; run for real, it raises the same
            ctx.break_graph("DX207", function=f"{name} ({type(error).__name__}: {error})")


_HALF = "float16"


def sums_halves(name: str, models: Sequence[Any]) -> bool:
    """Whether halves are added up: torch rounds otherwise than numpy does, in products of matrices as well."""
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
    """Sums, and whole numbers that give fractions, are computed in the dtype of the result; torch has defaults of its own."""
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
    """What the fake tensor and numpy disagree about, in words."""
    dtype = str(fake.dtype).removeprefix("torch.")
    if dtype != expected.dtype.name:
        return f"{dtype} where numpy has {expected.dtype.name}"
    if tuple(map(hint, fake.shape)) != expected.shape:
        return f"{tuple(fake.shape)} where numpy has {expected.shape}"
    strides = [hint(stride) * expected.itemsize for stride in fake.stride()]
    dimensions = zip(expected.shape, strides, expected.strides, strict=True)
    if 0 not in expected.shape and any(size > 1 and fake_stride != numpy_stride for size, fake_stride, numpy_stride in dimensions):
        return "another layout than numpy's"
    return None


def hint(size: Any) -> Any:
    """The number that a size has in this call."""
    return size if isinstance(size, int) else size.node.hint
