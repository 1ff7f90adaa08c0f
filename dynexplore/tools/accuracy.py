"""Comparison of two results: the first difference between nested structures of tensors and plain values, in words.

The idea: compilers may reorder floating-point sums, so two correct results differ by rounding errors, and a wrong one by more. The
tolerance depends on the dtype; a mismatch is reported with its path (`[0]["loss"]`), the largest difference, its index, and the
tolerance.

In: expected and actual value, any nesting of tuples, lists, dicts, tensors and plain values. Out: `Difference` or None.

PyTorch's counterpart: `same` in torch/_dynamo/utils.py, and `torch.testing.assert_close`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.runtime import numpy_state

ALLOWED = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
"""The tolerance between two correct results, relative to the largest expected element: the sum of all rounding errors."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The place of the first difference between two results, and its description."""

    path: str
    words: str

    def __str__(self) -> str:
        joint = " " if self.words.startswith("differs") else ": "
        return f"{self.path}{joint}{self.words}" if self.path else self.words


def first_difference(expected: Any, actual: Any, tolerance: float | None = None, path: str = "") -> Difference | None:
    """The first place where `actual` differs from `expected`, or None.

    `tolerance` is the allowed difference relative to the largest expected element; None: the default of the dtype; infinity: accept
    any values of the right type, dtype and shape.

    >>> first_difference([1, torch.ones(2)], [1, torch.ones(2) + 1e-6])
    >>> print(first_difference({"loss": torch.ones(2)}, {"loss": torch.tensor([1.0, 1.01])}))
    ["loss"] differs by 0.01 at [1] (allowed: 0.0001)
    """
    return next(_differences(expected, actual, tolerance, path), None)


def named_parts(title: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Values by the names by which the program reaches them, as parts to compare, each with its own title. A name that begins with
    a dot is an attribute of the object that is called.

    >>> named_parts("after the call", {".cache": 1, "total": 2}, {".cache": 1, "total": 3})
    [('after the call, `self.cache`', 1, 1), ('after the call, `total`', 2, 3)]
    """
    if list(expected) != list(actual):
        return [(title, expected, actual)]
    names = {name: f"self{name}" if name.startswith(".") else name for name in expected}
    return [(f"{title}, `{shown}`", expected[name], actual[name]) for name, shown in names.items()]


def common_parts(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that both have.

    >>> common_parts({"a": 1, "b": 2}, {"b": 3})
    ({'b': 2}, {'b': 3})
    """
    names = [name for name in expected if name in actual]
    return {name: expected[name] for name in names}, {name: actual[name] for name in names}


def _differences(expected: Any, actual: Any, tolerance: float | None, path: str) -> Iterator[Difference]:
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        words = _of_tensors(expected, actual, tolerance)
        if words:
            yield Difference(path, words)
    elif type(expected) is not type(actual):
        yield Difference(path, f"{type(expected).__name__} expected, {type(actual).__name__} found")
    elif numpy_state.is_array(expected):
        tensors = [numpy_state.as_tensor(value) for value in (expected, actual)]
        is_numeric = all(tensor is not None for tensor in tensors)
        first, second = tensors if is_numeric else (expected.tolist(), actual.tolist())
        yield from _differences(first, second, tolerance, path)
    elif isinstance(expected, tuple | list):
        if len(expected) != len(actual):
            yield Difference(path, f"{len(expected)} items expected, {len(actual)} found")
        for number, pair in enumerate(zip(expected, actual, strict=False)):
            yield from _differences(*pair, tolerance, f"{path}[{number}]")
    elif isinstance(expected, Mapping):
        if list(expected) != list(actual):
            yield Difference(path, f"keys {list(expected)} expected, {list(actual)} found")
        for key in expected:
            place = f'["{key}"]' if isinstance(key, str) else f"[{key}]"
            yield from _differences(expected[key], actual[key], tolerance, path + place)
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            yield from _differences(getattr(expected, field.name), getattr(actual, field.name), tolerance, f"{path}.{field.name}")
    elif tolerance != math.inf and not _same_plain(expected, actual):
        yield Difference(path, f"{expected!r} expected, {actual!r} found")


def _same_plain(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float):
        return expected == actual or (math.isnan(expected) and math.isnan(actual)) or math.isclose(expected, actual, rel_tol=1e-6)
    if "__eq__" not in {name for base in type(expected).__mro__[:-1] for name in vars(base)}:
        return True  # an object of the program without a usable comparison
    return bool(expected == actual)


def _of_tensors(expected: torch.Tensor, actual: torch.Tensor, tolerance: float | None) -> str:
    for name in ("dtype", "shape", "device"):
        reference, candidate = getattr(expected, name), getattr(actual, name)
        if reference != candidate:
            return f"{name} {_plain(reference)} expected, {_plain(candidate)} found"
    if tolerance == math.inf:
        return ""
    reference, candidate = expected.detach(), actual.detach()
    if torch.equal(reference, candidate) or not reference.numel():
        return ""
    if not (reference.is_floating_point() or reference.is_complex()):
        return f"{int((reference != candidate).sum())} of {reference.numel()} elements differ"
    return _too_far_apart(reference, candidate, ALLOWED.get(reference.dtype, 1e-4) if tolerance is None else tolerance)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, torch.Size) else value


def _too_far_apart(reference: torch.Tensor, candidate: torch.Tensor, tolerance: float) -> str:
    if not torch.equal(reference.isnan(), candidate.isnan()):
        return f"NaN in {int(candidate.isnan().sum())} elements, {int(reference.isnan().sum())} expected"
    infinite = reference.isinf()
    if not torch.equal(torch.where(infinite, reference, 0), torch.where(candidate.isinf(), candidate, 0)):
        return "infinities in unexpected places"
    dark = infinite | reference.isnan()
    wide = torch.complex128 if reference.is_complex() else torch.float64
    apart = (reference.to(wide) - candidate.to(wide)).abs().masked_fill(dark, 0)
    allowed = tolerance * max(1.0, float(reference.to(wide).abs().masked_fill(dark, 0).max()))
    largest = float(apart.max())
    if largest <= allowed:
        return ""
    place = [int(index) for index in torch.unravel_index(apart.argmax(), apart.shape)]
    return f"differs by {largest:.3g} at {place} (allowed: {allowed:.3g})"
