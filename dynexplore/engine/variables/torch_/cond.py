"""torch.cond: two functions of which a tensor chooses one, both in the graph.

The idea: a condition that is known while tracing takes its branch, as `if` does. Else both branches are traced, one after the
other (traced_body.py), and each is moved at once into a module; what either uses from outside is an operand of both. torch's own
operator is the node: it says what comes out, and how gradients go back. What is not traced breaks the graph, so that torch itself
takes the call or says what is wrong with it.

In: calls of `torch.cond`. Out: a node, tensors in the nest that the branches return.
torch/_dynamo/variables/higher_order_ops.py (CondHigherOrderVariable) does the same job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops.cond import cond, cond_op
from torch._subclasses.fake_tensor import FakeTensorMode

from dynexplore.engine.graph.bodies import as_module, is_module, outside_values
from dynexplore.engine.graph.fake_mode import WatchedFakeMode, storage_of
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse, trace_body

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext


# torch looks for what an operator does under a mode by the mode's very class
cond_op.py_impl(WatchedFakeMode)(cond_op.python_key_table[FakeTensorMode])


class _BodyVariable(VariableTracker):
    """A branch, as an argument of the operator."""

    kind = "body"

    def __init__(self, node: Node) -> None:
        self.node = node

    def python_type(self) -> type[Any]:
        return torch.fx.GraphModule

    def as_proxy(self) -> Any:
        return self.node


class _Branch:
    """A traced branch: its nodes, the tensors that it returns, the nest that they stand in."""

    def __init__(self, ctx: TraceContext, function: VariableTracker, operands: Sequence[VariableTracker]) -> None:
        random, ctx.graph.fake_mode.draws_random_numbers = ctx.graph.fake_mode.draws_random_numbers, False
        bodies = len(ctx.graph.bodies)
        result, self.nodes = trace_body(ctx, "torch.cond", function, operands, {})
        if ctx.graph.fake_mode.draws_random_numbers or len(ctx.graph.bodies) > bodies:
            refuse(ctx, "torch.cond", "a branch draws random numbers or is checkpointed")
        ctx.graph.fake_mode.draws_random_numbers = random
        self.tensors: list[TensorVariable] = []
        self.nest = self._taken_apart(ctx, result)
        used = outside_values(self.nodes)
        self.modules = [node for node in used if is_module(ctx.graph.root, node)]
        self.inputs = [node for node in used if node not in self.modules]
        self._check(ctx)

    def _taken_apart(self, ctx: TraceContext, result: VariableTracker) -> Any:
        if type(result) in (TupleVariable, ListVariable):
            items = [self._taken_apart(ctx, item.read(ctx)) for item in result.unpack(ctx)]
            return tuple(items) if type(result) is TupleVariable else items
        if not isinstance(result, TensorVariable):
            refuse(ctx, "torch.cond", "a branch returns what is no tensor")
        self.tensors.append(result)
        return None

    def _check(self, ctx: TraceContext) -> None:
        values: list[Any] = [node.meta.get("example_value") for node in self.inputs]
        if not all(isinstance(value, torch.Tensor) for value in values) or any(map(_is_symbolic, self.nodes)):
            refuse(ctx, "torch.cond", "a branch uses a number that varies")
        taken = [storage_of(value) for value in values]
        for tensor in self.tensors:
            if storage_of(tensor.fake) in taken or tensor.as_proxy() not in self.nodes:
                refuse(ctx, "torch.cond", "a branch returns a tensor that was there before, a view of one, or one tensor twice")
            taken.append(storage_of(tensor.fake))

    def moved_out(self, ctx: TraceContext, name: str, inputs: Sequence[Node]) -> _BodyVariable:
        """The branch as a module that takes `inputs`; its nodes leave the graph."""
        graph = ctx.graph.graph
        outputs = [tensor.as_proxy() for tensor in self.tensors]
        module = as_module(ctx.graph.root, [*self.modules, *self.nodes], inputs, outputs, name)
        for node in (*reversed(self.nodes), *self.modules):
            graph.erase_node(node)
        node = graph.create_node("get_attr", ctx.graph.submodule(name, module))
        node.meta["example_value"] = module
        return _BodyVariable(node)


@builtin(cond)
def _cond(
    ctx: TraceContext, pred: VariableTracker, true_fn: VariableTracker, false_fn: VariableTracker,
    operands: VariableTracker | None = None,
) -> VariableTracker:
    given = operands.unpack(ctx) if operands is not None else []
    if not isinstance(pred, TensorVariable):
        return ctx.call_function(true_fn if pred.truth(ctx) is True else false_fn, given, {})
    if pred.fake.dtype is not torch.bool or pred.fake.numel() != 1:
        refuse(ctx, "torch.cond", "the condition is not one boolean")
    branches = [_Branch(ctx, function, given) for function in (true_fn, false_fn)]
    if _form(branches[0]) != _form(branches[1]):
        refuse(ctx, "torch.cond", "the branches differ in what they return")
    inputs = [*dict.fromkeys(node for branch in branches for node in branch.inputs)]
    bodies = [branch.moved_out(ctx, name, inputs) for branch, name in zip(branches, ("true_branch", "false_branch"), strict=True)]
    tensors = TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in inputs])
    results = iter(ctx.operation("call_function", cond_op, [pred, *bodies, tensors], {}).unpack(ctx))
    return _put_together(branches[0].nest, results)


def _is_symbolic(node: Node) -> bool:
    values = pytree.tree_leaves(node.meta.get("example_value"))
    numbers = [number for value in values for number in (value.shape if isinstance(value, torch.Tensor) else [value])]
    return any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in numbers)


def _form(branch: _Branch) -> Any:
    """What must be the same of both branches."""
    fakes = [tensor.fake for tensor in branch.tensors]
    return branch.nest, [(fake.dtype, fake.device, fake.shape, fake.stride(), fake.layout, type(fake)) for fake in fakes]


def _put_together(nest: Any, results: Any) -> VariableTracker:
    if nest is None:
        tensor: VariableTracker = next(results)
        return tensor
    items = [_put_together(item, results) for item in nest]
    return TupleVariable(items) if isinstance(nest, tuple) else ListVariable(items)
