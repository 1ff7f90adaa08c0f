"""Guards on tensor metadata that TENSOR_MATCH does not check.

The idea: TENSOR_MATCH checks what operators depend on (dtype, device, sizes, strides, requires_grad). Tensors that match may still
differ in `is_leaf`, `_is_view`, `storage_offset`, `output_nr` and `retains_grad`. When a program reads one of these, its value is
guarded, on the tensor itself and on every graph input that aliases its storage.

In: a tensor of the graph, and the name of the attribute that was read. Out: guards. PyTorch's counterpart: none; Dynamo reads the
fake tensor and installs no guard.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dynexplore.engine.aliasing.stale_views import is_leaf_unless_stale
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import example_value
from dynexplore.engine.provenance.sources import CallSource, Source

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

UNGUARDED_METADATA = frozenset({"is_leaf", "output_nr", "retains_grad", "_is_view", "storage_offset"})


class GraphTensor(Protocol):
    """The part of a tensor's tracker that this file uses: its fake tensor, and its source if it is an input."""

    fake: torch.Tensor
    real: torch.Tensor | None
    source: Source | None


def guard_on_metadata(ctx: TraceContext, tensor: GraphTensor, name: str) -> None:
    """Guard such an attribute on the input tensor itself, and on the inputs whose storage it shares.

    A fake tensor lacks some of them (`retains_grad`), and the live tensor does not reflect what the graph did to it.
    """
    if name == "storage_offset" and storage_of(tensor.fake) in ctx.graph.fake_mode.rows_chosen_of:
        ctx.break_graph("DX411", attribute=name)
    read = _metadata_getter(name)
    fake_value = read(tensor.fake)
    is_symbolic = type(fake_value) not in (bool, int)  # of a tensor with dynamic sizes
    if is_symbolic or (tensor.real is not None and read(tensor.real) != fake_value):
        ctx.break_graph("DX411", attribute=name)
    for source, value in _aliasing_inputs(ctx, tensor):
        make_source = functools.partial(CallSource, source, read, f"Tensor.{name}")
        ctx.guard(source.child(("state", name), make_source), "EQUALS", read(value))


def _aliasing_inputs(ctx: TraceContext, tensor: GraphTensor) -> Iterator[tuple[Source, torch.Tensor]]:
    if tensor.real is not None and tensor.source is not None and tensor.source.guardable:
        yield tensor.source, tensor.real
    storage = storage_of(tensor.fake)
    for graph_input in ctx.graph.inputs:
        fake = example_value(graph_input.node)
        is_alias = isinstance(fake, torch.Tensor) and storage_of(fake) == storage
        if is_alias and graph_input.source.guardable and graph_input.source is not tensor.source:
            yield graph_input.source, graph_input.example


@functools.cache
def _metadata_getter(name: str) -> Callable[[torch.Tensor], Any]:
    """A function that reads one attribute, or calls one method without arguments, bypassing `__torch_function__`."""

    def read(tensor: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            value = is_leaf_unless_stale(tensor) if name == "is_leaf" else getattr(tensor, name)
            return value() if callable(value) else value

    return read
