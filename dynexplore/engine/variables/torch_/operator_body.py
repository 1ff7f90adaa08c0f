"""A body of a higher-order operator that is moved out of the graph at once: a branch of `cond`, a step of `scan`.

The idea: the function is inlined (traced_body.py), which adds its nodes to the graph. What it returns must be new tensors. Then its
nodes move into a module, which is an argument of the operator's node; what they use from outside are further operands. A loop
passes its body another tensor in each step: for these the body is traced with slots, nodes that leave the graph with the body.

In: a function of the program and its arguments. Out: a module in the graph, and what the body takes and returns.
torch/_dynamo/variables/higher_order_ops.py (speculate_subgraph) does the same job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from dynexplore.engine.graph.bodies import as_module, is_module, outside_values
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import UserRaised
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse, trace_body

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext


class _BodyVariable(VariableTracker):
    """A body, as an argument of the operator."""

    kind = "body"

    def __init__(self, node: Node) -> None:
        self.node = node

    def python_type(self) -> type[Any]:
        return torch.fx.GraphModule

    def as_proxy(self) -> Any:
        return self.node


class OperatorBody:
    """A traced body: its nodes, the tensors that it returns, the nest that they stand in.

    `slots` are those of its arguments that the operator itself passes, another one in each step: the body's first inputs. It may
    return one of them, or a view of one, where the operator makes new tensors of what it returns (`gives_slots`).
    """

    def __init__(
        self, ctx: TraceContext, operator: str, function: VariableTracker, operands: Sequence[VariableTracker],
        slots: Sequence[TensorVariable] = (), *, gives_slots: bool = False,
    ) -> None:
        self.operator = operator
        self.slots = [slot.as_proxy() for slot in slots]
        random, ctx.graph.fake_mode.draws_random_numbers = ctx.graph.fake_mode.draws_random_numbers, False
        bodies = len(ctx.graph.bodies)
        try:
            result, self.nodes = trace_body(ctx, operator, function, [*slots, *operands], {})
        except UserRaised:  # torch raises something of its own about it
            if not slots:
                raise
            refuse(ctx, operator, "the function raises")
        if ctx.graph.fake_mode.draws_random_numbers or len(ctx.graph.bodies) > bodies:
            refuse(ctx, self.operator, "a body draws random numbers or is checkpointed")
        ctx.graph.fake_mode.draws_random_numbers = random
        self.tensors: list[TensorVariable] = []
        self.nest = self._take_apart(ctx, result)
        used = outside_values(self.nodes)
        self.modules = [node for node in used if is_module(ctx.graph.root, node)]
        self.inputs = [node for node in used if node not in self.modules and node not in self.slots]
        self._check(ctx, gives_slots)

    def _take_apart(self, ctx: TraceContext, result: VariableTracker) -> Any:
        if type(result) in (TupleVariable, ListVariable):
            items = [self._take_apart(ctx, item.read(ctx)) for item in result.unpack(ctx)]
            return tuple(items) if type(result) is TupleVariable else items
        if type(result) is DictVariable and all(type(name) is str for name in result.entries):
            return {str(name): self._take_apart(ctx, pair[1].read(ctx)) for name, pair in result.entries.items()}
        if not isinstance(result, TensorVariable):
            refuse(ctx, self.operator, "a body returns what is no tensor")
        self.tensors.append(result)
        return None

    def _check(self, ctx: TraceContext, gives_slots: bool) -> None:
        values: list[Any] = [node.meta.get("example_value") for node in (*self.slots, *self.inputs)]
        if not all(isinstance(value, torch.Tensor) for value in values) or any(map(_is_symbolic, self.nodes)):
            refuse(ctx, self.operator, "a body uses a number that varies")
        known = [*self.nodes, *self.slots] if gives_slots else self.nodes
        taken = [storage_of(value) for value in (values[len(self.slots):] if gives_slots else values)]
        for tensor in self.tensors:
            if storage_of(tensor.fake) in taken or tensor.as_proxy() not in known:
                refuse(ctx, self.operator, "a body returns a tensor that was there before, a view of one, or one tensor twice")
            taken.append(storage_of(tensor.fake))

    def moved_out(self, ctx: TraceContext, name: str, inputs: Sequence[Node], bare: bool = False) -> _BodyVariable:
        """The body as a module that takes its slots and `inputs`, and gives a tuple or (`bare`) one tensor; its nodes leave."""
        graph = ctx.graph.graph
        outputs = [tensor.as_proxy() for tensor in self.tensors]
        module = as_module(ctx.graph.root, [*self.modules, *self.nodes], [*self.slots, *inputs], outputs, name, bare)
        for node in (*reversed(self.nodes), *self.modules, *self.slots):
            graph.erase_node(node)
        node = graph.create_node("get_attr", ctx.graph.submodule(name, module))
        node.meta["example_value"] = module
        return _BodyVariable(node)


def _is_symbolic(node: Node) -> bool:
    values = pytree.tree_leaves(node.meta.get("example_value"))
    numbers = [number for value in values for number in (value.shape if isinstance(value, torch.Tensor) else [value])]
    return any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in numbers)


def put_together(nest: Any, results: Any) -> VariableTracker:
    """Tensors in a nest like the one that a body returned."""
    if nest is None:
        tensor: VariableTracker = next(results)
        return tensor
    if isinstance(nest, dict):
        return DictVariable({name: (ConstantVariable(name), put_together(item, results)) for name, item in nest.items()})
    items = [put_together(item, results) for item in nest]
    return TupleVariable(items) if isinstance(nest, tuple) else ListVariable(items)


def slot_of(ctx: TraceContext, tensor: VariableTracker, operator: str, *, part: bool) -> TensorVariable:
    """What a loop passes its body for a tensor: one of the same kind, or (`part`) one like its parts along the first side."""
    if not isinstance(tensor, TensorVariable):
        refuse(ctx, operator, "it is given what is no tensor")
    with ctx.graph.fake_mode:
        like = tensor.fake.detach()
        fake = (like[0] if part else like).clone()
    fake.requires_grad_(tensor.fake.requires_grad)
    return slot_like(ctx, fake)


def slot_like(ctx: TraceContext, fake: torch.Tensor) -> TensorVariable:
    """A slot for a tensor of this kind."""
    node = ctx.graph.graph.create_node("placeholder", "slot", (), {})
    node.meta["example_value"] = fake
    return TensorVariable(node, fake)
