"""Summaries of live values: what a recording stores of a tensor or a Python value.

The idea: a recording keeps no tensor alive. For a tensor it stores dtype, shape, device, whether it requires grad, minimum,
mean, maximum and the first few elements; for plain Python values a short repr; for any other object its class, because a
user-defined `__repr__` might print or mutate something.

In: a live value, under `quiet()` of snapshots.py. Out: keyword arguments of events.ValueObserved. PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from dynexplore.engine.events import clip, number

FIRST = 6
"""The number of elements of a tensor that are kept."""

_LONGEST = 120
_PLAIN: tuple[type[Any], ...] = (
    int, float, complex, bool, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size, torch.layout, range,
)  # fmt: skip
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def is_plain_tensor(value: object) -> bool:
    """Whether a value is a tensor whose elements can be read: not a subclass with custom operators, and strided."""
    return (
        isinstance(value, torch.Tensor)
        and (type(value) in _TENSORS or isinstance(value, torch.nn.Parameter))
        and value.layout is torch.strided
        and not value.is_quantized
        and not value.is_nested
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def summary(value: object) -> dict[str, Any]:
    """The summary of a value, as keyword arguments of ValueObserved."""
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    return {"text": describe(value)}


def describe(value: object, depth: int = 2) -> str:
    """A short text for a Python value; runs no code of the program."""
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(value)}{shape_text(value)} {value.device}"
    kind = type(value)
    if kind in _PLAIN:
        return clip(repr(value), _LONGEST)
    if kind in (tuple, list) and depth:
        shown = ", ".join(describe(item, depth - 1) for item in value[:4])  # type: ignore[index]
        more = ", ..." if len(value) > 4 else ""  # type: ignore[arg-type]
        return clip(f"{kind.__name__} of {len(value)}{shown and ': '}{shown}{more}", _LONGEST)  # type: ignore[arg-type]
    if kind is dict and depth:
        items = list(value.items())[:4]  # type: ignore[attr-defined]
        shown = ", ".join(f"{describe(key, 0)}: {describe(item, depth - 1)}" for key, item in items)
        return clip(f"dict of {len(value)}{shown and ': '}{shown}{', ...' if len(value) > 4 else ''}", _LONGEST)  # type: ignore[arg-type]
    return f"a {kind.__qualname__}"


def dtype_name(value: torch.Tensor) -> str:
    """The name of a dtype: `float32`."""
    return _name_of(value.dtype)


@functools.cache
def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def shape_text(value: torch.Tensor) -> str:
    """The shape as text: `[2, 3]`."""
    return f"[{', '.join(map(str, value.shape))}]"


def _of_tensor(value: torch.Tensor) -> dict[str, Any]:
    is_plain = is_plain_tensor(value)
    dtype, device = dtype_name(value), _device_text(value.device)
    shape = str(list(value.shape)) if is_plain else shape_text(value)
    words: dict[str, Any] = {
        "text": f"{dtype}{shape} {device}",
        "dtype": dtype,
        "shape": shape,
        "device": device,
        "requires_grad": value.requires_grad,
    }
    if is_plain and value.device.type != "meta" and value.numel():
        words["first"] = _first(value)
        if not value.is_complex():
            words["minimum"], words["mean"], words["maximum"] = _range(value)
    return words


@functools.cache
def _device_text(device: torch.device) -> str:
    return str(device)


def _first(value: torch.Tensor) -> tuple[Any, ...]:
    few = value.reshape(-1)[:FIRST] if value.is_contiguous() else value[(0,) * (value.dim() - 1)][:FIRST]
    return tuple([_element(item) for item in few.tolist()])


def _element(item: Any) -> float | str | int | bool:
    if isinstance(item, complex):
        return str(item)
    return number(item) if isinstance(item, float) else item


def _range(value: torch.Tensor) -> tuple[float | str, float | str, float | str]:
    if value.dtype is torch.bool:
        value = value.to(torch.uint8)
    if value.is_floating_point() and value.element_size() < 4:
        value = value.float()
    least, greatest = torch.aminmax(value)
    mean = value.mean() if value.is_floating_point() else value.to(torch.float64).mean()
    return number(float(least)), number(float(mean)), number(float(greatest))
