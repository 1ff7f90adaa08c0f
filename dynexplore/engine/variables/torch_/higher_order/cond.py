"""torch.cond: a data-dependent branch, with both branches in the graph.

The idea: a predicate that is known while tracing selects its branch, as `if` does. Otherwise both branches are traced, one after
the other, and each becomes a submodule (hop_subgraph.py); values that either branch captures are operands of both. torch's HOP is
the node: it defines outputs and gradients. What cannot be traced breaks the graph, and torch runs the call or raises its own
error.

In: calls of `torch.cond`. Out: a node, and tensors in the structure that the branches return.
PyTorch's counterpart: CondHigherOrderVariable in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.cond import cond, cond_op

from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.hop_subgraph import HopSubgraph, unflatten
from dynexplore.engine.variables.torch_.higher_order.speculate_subgraph import refuse
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@builtin(cond)
def _cond(
    ctx: TraceContext, pred: VariableTracker, true_fn: VariableTracker, false_fn: VariableTracker,
    operands: VariableTracker | None = None,
) -> VariableTracker:
    arguments = operands.unpack(ctx) if operands is not None else []
    if not isinstance(pred, TensorVariable):
        return (true_fn if pred.truth(ctx) is True else false_fn).call(ctx, arguments, {})
    if pred.fake.dtype is not torch.bool or pred.fake.numel() != 1:
        refuse(ctx, "torch.cond", "the condition is not a single bool")
    branches = [HopSubgraph(ctx, "torch.cond", function, arguments) for function in (true_fn, false_fn)]
    if _output_metadata(branches[0]) != _output_metadata(branches[1]):
        refuse(ctx, "torch.cond", "the branches differ in what they return")
    inputs = [*dict.fromkeys(node for branch in branches for node in branch.inputs)]
    bodies = [branch.extract(ctx, name, inputs) for branch, name in zip(branches, ("true_branch", "false_branch"), strict=True)]
    tensors = TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in inputs])
    results = iter(ctx.operation("call_function", cond_op, [pred, *bodies, tensors], {}).unpack(ctx))
    return unflatten(branches[0].out_spec, results)


def _output_metadata(branch: HopSubgraph) -> Any:
    """The metadata on which both branches must agree."""
    fakes = [tensor.fake for tensor in branch.tensors]
    return branch.out_spec, [(fake.dtype, fake.device, fake.shape, fake.stride(), fake.layout, type(fake)) for fake in fakes]
