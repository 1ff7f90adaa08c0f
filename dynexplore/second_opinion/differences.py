"""The difference between two values: dtype, shape, device and, beyond rounding, elements.

The idea: eager kernels are deterministic, but a compiler may sum in another order, so the tolerance depends on the dtype. It is
relative to the element and to the largest element of the tensor: a small element of a sum of large ones carries their rounding
error. An error of 1e-2 in values around 1 is detected in float64, float32 and float16; in bfloat16 it is a rounding step.

In: the expected and the actual value. Out: a `Difference`, or None. PyTorch's counterpart: `same` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from dynexplore.engine.events import number
from dynexplore.second_opinion.summaries import describe, is_plain_tensor

RELATIVE: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-9, 1e-10),
    torch.float32: (1e-4, 2e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (2e-2, 1e-2),
}
"""dtype -> tolerance of an element, relative to itself and relative to the largest element."""

SMALLEST: dict[torch.dtype, float] = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2}
"""The absolute tolerance of an element."""

FLIPPED = 0.01
"""The fraction of integers and bools that may flip because of a compiler's rounding (x > 0.5)."""


class Difference(NamedTuple):
    """A difference: the aspect, the expected value, the actual value."""

    aspect: str
    expected: str
    actual: str


def difference(expected: Any, actual: Any, *, elements: bool = True, exact: bool = True) -> Difference | None:
    """The first difference between two values.

    `elements`: whether to compare elements. `exact`: whether integers must be equal (else a few may differ).
    """
    if isinstance(expected, tuple | list) and isinstance(actual, tuple | list):
        return _of_sequences(expected, actual, elements, exact)
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return _of_plain(expected, actual)
    for aspect in ("dtype", "shape", "device"):
        expected_aspect, got = getattr(expected, aspect), getattr(actual, aspect)
        if expected_aspect != got:
            return Difference(aspect, _text(expected_aspect), _text(got))
    if not elements or not (is_plain_tensor(expected) and is_plain_tensor(actual)) or not expected.numel():
        return None
    return _of_elements(expected, actual, exact)


def _text(value: Any) -> str:
    return str(list(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")


def _of_sequences(expected: Any, actual: Any, elements: bool, exact: bool) -> Difference | None:
    if len(expected) != len(actual):
        return Difference("length", str(len(expected)), str(len(actual)))
    pairs = (
        difference(expected_item, actual_item, elements=elements, exact=exact)
        for expected_item, actual_item in zip(expected, actual, strict=True)
    )
    return next((differing for differing in pairs if differing is not None), None)


def _of_plain(expected: Any, actual: Any) -> Difference | None:
    """Compare Python values: a bool, a number, a size. A float may differ by rounding."""
    if isinstance(expected, torch.Tensor) or isinstance(actual, torch.Tensor):
        return Difference("value", describe(expected), describe(actual))
    if isinstance(expected, float) and isinstance(actual, float):
        same = (
            expected == actual
            or abs(expected - actual) <= 1e-9 * max(abs(expected), abs(actual))
            or (expected != expected and actual != actual)
        )
    else:
        same = expected is actual or (type(expected) is type(actual) and bool(expected == actual))
    return None if same else Difference("value", describe(expected), describe(actual))


def _of_elements(expected: torch.Tensor, actual: torch.Tensor, exact: bool) -> Difference | None:
    if torch.equal(expected, actual):
        return None
    if expected.is_complex():
        expected, actual = torch.view_as_real(expected), torch.view_as_real(actual)
    if not expected.is_floating_point():
        wrong = expected != actual
        if not exact and float(wrong.double().mean()) <= FLIPPED:
            return None
        return _worst(expected, actual, wrong.to(torch.uint8))
    if expected.dtype not in RELATIVE:
        return None  # eight bits or fewer: a rounding step is as large as any difference
    wide, other = expected.double(), actual.double()
    own, whole = RELATIVE[expected.dtype]
    finite = wide[torch.isfinite(wide)]
    greatest = float(finite.abs().max()) if finite.numel() else 0.0
    allowed = SMALLEST[expected.dtype] * min(1.0, max(greatest, 1e-6)) + own * wide.abs() + whole * greatest
    off = (wide - other).abs()
    same = ((off <= allowed) & torch.isfinite(wide)) | (wide == other) | (torch.isnan(wide) & torch.isnan(other))
    if bool(same.all()):
        return None
    return _worst(expected, actual, torch.where(same, 0.0, torch.nan_to_num(off, nan=float("inf"))))


def _worst(expected: torch.Tensor, actual: torch.Tensor, off: torch.Tensor) -> Difference:
    """The element with the largest error, and that error."""
    place = int(off.reshape(-1).argmax())
    expected_number, got = expected.reshape(-1)[place].item(), actual.reshape(-1)[place].item()
    index = [int(coordinate) for coordinate in torch.unravel_index(torch.tensor(place), expected.shape)] if expected.dim() else []
    count = int((off.reshape(-1) > 0).sum())
    more = f" ({count} of {off.numel()} elements differ)"
    where = f"element {index}" if index else "value"
    return Difference(where, _short(expected_number), _short(got) + more)


def _short(value: Any) -> str:
    if isinstance(value, float):
        shown = number(value)
        return shown if isinstance(shown, str) else f"{shown:.6g}"
    return str(value)
