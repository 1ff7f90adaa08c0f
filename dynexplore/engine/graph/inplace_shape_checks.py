"""Shape checks of in-place operators that some meta kernels lack: the result must fit into the mutated tensor.

The idea: `x.add_(y)` cannot resize x, so a y with more dimensions, or with a larger size in one of them, is an error. Fake tensors
raise it for `add_`, but not for `copysign_`, `eq_` and `pow_`. A backend, which creates a new tensor instead, then fails with an
error of its own, while the program expects the shape error and may catch it. So the shape of the result is computed here, for
elementwise operators.

In: an ATen operator and its arguments. Out: its exception, or nothing. PyTorch's counterpart: none; the backend fails there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def check_inplace_shape(operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise an in-place operator's error if its result has another shape than the mutated tensor."""
    shapes_beside = _shapes_of_result(operator)
    if shapes_beside is None:
        return
    written = args[0]
    assert isinstance(written, torch.Tensor)
    shapes = shapes_beside([other for other in (*args[1:], *kwargs.values()) if isinstance(other, torch.Tensor)])
    if any(len(shape) > 0 for shape in shapes):  # numbers always fit
        result: Sequence[int] = torch.broadcast_shapes(written.shape, *shapes)  # type: ignore[no-untyped-call]
        if result != written.shape:
            raise RuntimeError(f"output with shape {list(written.shape)} doesn't match the broadcast shape {list(result)}")


Shapes = list[Sequence[int]]


def _of_all(others: Sequence[torch.Tensor]) -> Shapes:
    return [other.shape for other in others]


def _of_mask(others: Sequence[torch.Tensor]) -> Shapes:
    """The mask's shape: the source may have any shape."""
    return [others[0].shape]


def _of_outer_product(others: Sequence[torch.Tensor]) -> Shapes:
    return [(*others[0].shape, *others[1].shape)]


_OF_SOME = {
    torch.ops.aten.masked_scatter_.default: _of_mask,
    torch.ops.aten.addr_.default: _of_outer_product,
    torch.ops.aten.floor_divide_.Tensor: _of_all,  # elementwise, though it lacks the tag
}


@functools.cache
def _shapes_of_result(operator: Any) -> Callable[[Sequence[torch.Tensor]], Shapes] | None:
    """A function from the other tensors to the shapes with which the mutated tensor's shape is broadcast; None: unknown."""
    schema = operator._schema
    if not (schema.name.endswith("_") and schema.arguments and schema.arguments[0].is_write):
        return None
    anew = getattr(torch.ops.aten, schema.name.partition("::")[2].rstrip("_"), None)  # the out-of-place operator has the tag
    same = getattr(anew, schema.overload_name or "default", operator)
    elementwise = torch.Tag.pointwise in operator.tags or torch.Tag.pointwise in same.tags
    return _of_all if elementwise else _OF_SOME.get(operator)
