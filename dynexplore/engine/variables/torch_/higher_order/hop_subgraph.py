"""HopSubgraph: a traced function that moves out of the graph into a GraphModule, an argument of a higher-order operator.

The idea: the function is traced in place (speculate_subgraph.py) and must return new tensors. Its nodes then move into a
submodule, which becomes an argument of the operator's node; values that it captured from outside are lifted to operands (lifted
free variables). A loop passes another tensor in each iteration: for these the function is traced with placeholders that move with
it.

In: a function of the program and its arguments. Out: a submodule, its operands, and the structure of its result.
PyTorch's counterpart: speculate_subgraph in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.subgraphs import as_module, is_module, outside_values
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.higher_order.speculate_subgraph import refuse, speculate_subgraph
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext


class _SubgraphVariable(VariableTracker):
    """A subgraph, as an argument of the operator."""

    kind = "body"

    def __init__(self, node: Node) -> None:
        self.node = node

    def python_type(self) -> type[Any]:
        return torch.fx.GraphModule

    def as_proxy(self) -> Any:
        return self.node


class HopSubgraph:
    """A traced function: its nodes, the tensors that it returns, and the structure of its result (`out_spec`).

    `placeholders` represent the arguments that the operator passes, which differ in each iteration; they are its first inputs.
    It may return one of them, or a view of one, if the operator copies its results (`may_return_inputs`).
    """

    def __init__(
        self, ctx: TraceContext, operator: str, function: VariableTracker, operands: Sequence[VariableTracker],
        placeholders: Sequence[TensorVariable] = (), *, may_return_inputs: bool = False,
    ) -> None:
        self.operator = operator
        self.placeholders = [placeholder.as_proxy() for placeholder in placeholders]
        random, ctx.graph.fake_mode.draws_random_numbers = ctx.graph.fake_mode.draws_random_numbers, False
        bodies = len(ctx.graph.bodies)
        try:
            result, self.nodes = speculate_subgraph(ctx, operator, function, [*placeholders, *operands], {})
        except ObservedException:  # torch raises an exception of its own for it
            if not placeholders:
                raise
            refuse(ctx, operator, "the function raises")
        if ctx.graph.fake_mode.draws_random_numbers or len(ctx.graph.bodies) > bodies:
            refuse(ctx, self.operator, "a body draws random numbers or is checkpointed")
        ctx.graph.fake_mode.draws_random_numbers = random
        self.tensors: list[TensorVariable] = []
        self.out_spec = self._flatten(ctx, result)
        used = outside_values(self.nodes)
        self.modules = [node for node in used if is_module(ctx.graph.root, node)]
        self.inputs = [node for node in used if node not in self.modules and node not in self.placeholders]
        self._check(ctx, may_return_inputs)

    def _flatten(self, ctx: TraceContext, result: VariableTracker) -> Any:
        if type(result) in (TupleVariable, ListVariable):
            items = [self._flatten(ctx, item.read(ctx)) for item in result.unpack(ctx)]
            return tuple(items) if type(result) is TupleVariable else items
        if type(result) is DictVariable and all(type(name) is str for name in result.entries):
            return {str(name): self._flatten(ctx, pair[1].read(ctx)) for name, pair in result.entries.items()}
        if not isinstance(result, TensorVariable):
            refuse(ctx, self.operator, "a body returns an object that is not a tensor")
        self.tensors.append(result)
        return None

    def _check(self, ctx: TraceContext, may_return_inputs: bool) -> None:
        values: list[Any] = [node.meta.get("example_value") for node in (*self.placeholders, *self.inputs)]
        if not all(isinstance(value, torch.Tensor) for value in values) or any(map(_is_symbolic, self.nodes)):
            refuse(ctx, self.operator, "a body uses a symbolic number")
        returnable = [*self.nodes, *self.placeholders] if may_return_inputs else self.nodes
        storages = [storage_of(value) for value in (values[len(self.placeholders):] if may_return_inputs else values)]
        for tensor in self.tensors:
            if storage_of(tensor.fake) in storages or tensor.as_proxy() not in returnable:
                refuse(ctx, self.operator, "a body returns an existing tensor, a view of one, or the same tensor twice")
            storages.append(storage_of(tensor.fake))

    def extract(self, ctx: TraceContext, name: str, inputs: Sequence[Node], bare: bool = False) -> _SubgraphVariable:
        """Move the nodes to a module that takes placeholders and `inputs`, and returns a tuple or (`bare`) one tensor."""
        graph = ctx.graph.graph
        outputs = [tensor.as_proxy() for tensor in self.tensors]
        module = as_module(ctx.graph.root, [*self.modules, *self.nodes], [*self.placeholders, *inputs], outputs, name, bare)
        for node in (*reversed(self.nodes), *self.modules, *self.placeholders):
            graph.erase_node(node)
        node = graph.create_node("get_attr", ctx.graph.submodule(name, module))
        node.meta["example_value"] = module
        return _SubgraphVariable(node)


def _is_symbolic(node: Node) -> bool:
    values = pytree.tree_leaves(node.meta.get("example_value"))
    numbers = [number for value in values for number in (value.shape if isinstance(value, torch.Tensor) else [value])]
    return any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in numbers)


def unflatten(out_spec: Any, results: Any) -> VariableTracker:
    """The tensors in the structure that the function returned."""
    if out_spec is None:
        tensor: VariableTracker = next(results)
        return tensor
    if isinstance(out_spec, dict):
        return DictVariable({name: (ConstantVariable(name), unflatten(item, results)) for name, item in out_spec.items()})
    items = [unflatten(item, results) for item in out_spec]
    return TupleVariable(items) if isinstance(out_spec, tuple) else ListVariable(items)


def placeholder_of(ctx: TraceContext, tensor: VariableTracker, operator: str, *, part: bool) -> TensorVariable:
    """A placeholder for the tensor that a loop passes to its body: with the same metadata,
    or (`part`) that of its slices along dim 0.
    """
    if not isinstance(tensor, TensorVariable):
        refuse(ctx, operator, "an argument is not a tensor")
    with ctx.graph.fake_mode:
        like = tensor.fake.detach()
        fake = (like[0] if part else like).clone()
    fake.requires_grad_(tensor.fake.requires_grad)
    return new_placeholder(ctx, fake)


def new_placeholder(ctx: TraceContext, fake: torch.Tensor) -> TensorVariable:
    """A placeholder for a tensor with this metadata."""
    node = ctx.graph.graph.create_node("placeholder", "slot", (), {})
    node.meta["example_value"] = fake
    return TensorVariable(node, fake)
