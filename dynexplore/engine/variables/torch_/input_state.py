"""What a program may ask of an input tensor that its TENSOR_MATCH does not say.

The idea: TENSOR_MATCH compares what operators depend on (dtype, device, sizes, strides, requires_grad). Two tensors that agree in
all of that may still differ in whether they are leaves or views, where in their storage they begin, and whether they keep their
gradient. A program that asks is told what holds in this call, so the answer becomes a guard of its own, on the tensor that was
asked and on every input that it may be a view of.

In:  a tensor of the graph and the name of what was asked. Out: guards.
PyTorch's Dynamo answers from the fake tensor, and has no such guards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dynexplore.engine.graph.builder import example_value
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.provenance.sources import CallSource, Source

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

UNMATCHED = frozenset({"is_leaf", "output_nr", "retains_grad", "_is_view", "storage_offset"})


class GraphTensor(Protocol):
    """What is asked of a tensor's tracker: its fake value, and where the real one comes from if it is an input."""

    fake: torch.Tensor
    real: torch.Tensor | None
    source: Source | None


def rely_on_state(ctx: TraceContext, tensor: GraphTensor, name: str) -> None:
    """Guard what an input tensor answers under one of these names: the one at hand, and those whose storage it shares.

    A fake tensor does not know of all of it (`retains_grad`), nor does the tensor know of what the graph did to it.
    """
    if name == "storage_offset" and storage_of(tensor.fake) in ctx.graph.fake_mode.rows_chosen_of:
        ctx.break_graph("DX411", attribute=name)
    known = _asked(name)(tensor.fake)
    varies = type(known) not in (bool, int)  # a symbol, of a tensor whose sizes vary
    if varies or (tensor.real is not None and _asked(name)(tensor.real) != known):
        ctx.break_graph("DX411", attribute=name)
    for source, value in _inputs_behind(ctx, tensor):
        asked = functools.partial(CallSource, source, _asked(name), f"Tensor.{name}")
        ctx.guard(source.child(("state", name), asked), "EQUALS", _asked(name)(value))


def _inputs_behind(ctx: TraceContext, tensor: GraphTensor) -> Iterator[tuple[Source, torch.Tensor]]:
    if tensor.real is not None and tensor.source is not None and tensor.source.guardable:
        yield tensor.source, tensor.real
    storage = storage_of(tensor.fake)
    for one in ctx.graph.inputs:
        fake = example_value(one.node)
        is_behind = isinstance(fake, torch.Tensor) and storage_of(fake) == storage
        if is_behind and one.source.guardable and one.source is not tensor.source:
            yield one.source, one.example


@functools.cache
def _asked(name: str) -> Callable[[torch.Tensor], Any]:
    """The question as a function, which asks no `__torch_function__`."""

    def ask(tensor: torch.Tensor) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            answer = getattr(tensor, name)
            return answer() if callable(answer) else answer

    return ask
