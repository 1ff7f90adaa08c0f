"""Shape checks of in-place operators that some meta kernels lack: a result must fit into the tensor that it is written to.

The idea: `x.add_(y)` makes x no larger, so that a y with more dimensions, or with more elements in one of them, is refused. Fake
tensors refuse it for `add_`, and let `copysign_`, `eq_` and `pow_` pass. A compiler, which makes a new tensor in their place, then
fails in words of its own, where the program would hear of the shapes and may catch what it hears. So the shape of the result is
worked out here, for the operators that give one element for each.

In:  an operator of the dispatcher and its arguments. Out: what it raises, or nothing.
PyTorch has no counterpart: there the compiler fails.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


def refuse_what_does_not_fit(operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise what an operator in place raises where its result has another shape than what it writes to."""
    shapes_beside = _shapes_of_result(operator)
    if shapes_beside is None:
        return
    written = args[0]
    assert isinstance(written, torch.Tensor)
    shapes = shapes_beside([other for other in (*args[1:], *kwargs.values()) if isinstance(other, torch.Tensor)])
    if any(len(shape) > 0 for shape in shapes):  # a number beside it always fits
        result: Sequence[int] = torch.broadcast_shapes(written.shape, *shapes)  # type: ignore[no-untyped-call]
        if result != written.shape:
            raise RuntimeError(f"output with shape {list(written.shape)} doesn't match the broadcast shape {list(result)}")


Shapes = list[Sequence[int]]


def _of_all(others: Sequence[torch.Tensor]) -> Shapes:
    return [other.shape for other in others]


def _of_mask(others: Sequence[torch.Tensor]) -> Shapes:
    """The source beside it is a row of numbers, of whatever shape."""
    return [others[0].shape]


def _of_outer_product(others: Sequence[torch.Tensor]) -> Shapes:
    return [(*others[0].shape, *others[1].shape)]


_OF_SOME = {
    torch.ops.aten.masked_scatter_.default: _of_mask,
    torch.ops.aten.addr_.default: _of_outer_product,
    torch.ops.aten.floor_divide_.Tensor: _of_all,  # element by element without the tag
}


@functools.cache
def _shapes_of_result(operator: Any) -> Callable[[Sequence[torch.Tensor]], Shapes] | None:
    """What shapes the result has together with that of the tensor written to, from the other tensors; None: it is not known."""
    schema = operator._schema
    if not (schema.name.endswith("_") and schema.arguments and schema.arguments[0].is_write):
        return None
    anew = getattr(torch.ops.aten, schema.name.partition("::")[2].rstrip("_"), None)  # what makes a new tensor has the tag
    same = getattr(anew, schema.overload_name or "default", operator)
    elementwise = torch.Tag.pointwise in operator.tags or torch.Tag.pointwise in same.tags
    return _of_all if elementwise else _OF_SOME.get(operator)
