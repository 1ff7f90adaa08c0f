"""torch.cond: two functions of which a tensor chooses one, both in the graph.

The idea: a condition that is known while tracing takes its branch, as `if` does. Else both branches are traced, one after the
other (operator_body.py), and each is moved at once into a module; what either uses from outside is an operand of both. torch's own
operator is the node: it says what comes out, and how gradients go back. What is not traced breaks the graph, so that torch itself
takes the call or says what is wrong with it.

In: calls of `torch.cond`. Out: a node, tensors in the nest that the branches return.
torch/_dynamo/variables/higher_order_ops.py (CondHigherOrderVariable) does the same job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.cond import cond, cond_op

from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.operator_body import OperatorBody, put_together
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


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
    branches = [OperatorBody(ctx, "torch.cond", function, given) for function in (true_fn, false_fn)]
    if _form(branches[0]) != _form(branches[1]):
        refuse(ctx, "torch.cond", "the branches differ in what they return")
    inputs = [*dict.fromkeys(node for branch in branches for node in branch.inputs)]
    bodies = [branch.moved_out(ctx, name, inputs) for branch, name in zip(branches, ("true_branch", "false_branch"), strict=True)]
    tensors = TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in inputs])
    results = iter(ctx.operation("call_function", cond_op, [pred, *bodies, tensors], {}).unpack(ctx))
    return put_together(branches[0].nest, results)


def _form(branch: OperatorBody) -> Any:
    """What must be the same of both branches."""
    fakes = [tensor.fake for tensor in branch.tensors]
    return branch.nest, [(fake.dtype, fake.device, fake.shape, fake.stride(), fake.layout, type(fake)) for fake in fakes]
