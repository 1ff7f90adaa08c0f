"""The memory of numpy arrays as tensors: which arrays a graph can take, and whether two inputs lie apart.

The idea: a tensor on an array's memory costs no copy, so what the graph writes is written to the array. A compiler may rely on its
inputs not overlapping, though; where a graph writes to one, it is guarded that no other one lies there.

In: live arrays and tensors. Out: tensors, and the answers for guards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.sources import CallSource, ComputedSource

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import FinishedGraph
    from dynexplore.engine.variables.contract.context import TraceContext

TRACEABLE = frozenset(("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"))


def is_traceable(value: Any) -> bool:
    """Whether a graph can take a value as an array: of a plain number type, writeable, and walked forwards.

    >>> is_traceable(1)
    False
    """
    if type(value).__name__ != "ndarray" or type(value).__module__ != "numpy":
        return False
    return (
        value.dtype.name in TRACEABLE and value.dtype.isnative and value.flags.writeable and value.flags.aligned
        and all(stride >= 0 and stride % value.itemsize == 0 for stride in value.strides)
    )


def tensor_on(array: Any) -> torch.Tensor:
    """A tensor on the array's memory. Raises ValueError for one that a graph cannot take, so that its guard fails."""
    if not array.flags.writeable:
        raise ValueError("an array that may be written to was expected")
    return torch.from_numpy(array)


def lie_apart(tensor: torch.Tensor, *others: torch.Tensor) -> bool:
    """Whether no other tensor's memory reaches into that of the first."""
    start, end = _extent(tensor)
    return all(other_end <= start or end <= other_start for other_start, other_end in map(_extent, others))


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def guard_memory(ctx: TraceContext, graph: FinishedGraph) -> None:
    """Where a graph writes to its inputs, no array among them may lie in another input's memory."""
    tensors = [(place, one) for place, one in enumerate(graph.inputs) if isinstance(one.example, torch.Tensor)]
    for place, one in tensors:
        if not isinstance(one.source, CallSource) or one.source.function is not tensor_on:
            continue
        others = [other for other_place, other in tensors
                  if other is not one and (place in graph.written or other_place in graph.written)]
        if not others:
            continue
        if not lie_apart(one.example, *[other.example for other in others]):
            ctx.break_graph("DX207", function="writing to an array that lies in another input's memory")
        names = ", ".join(["{}"] * (len(others) + 1))
        apart = ComputedSource(one.source, lie_apart, tuple(other.source for other in others), f"lie_apart({names})")
        ctx.guard(apart, "EQUALS", True)
