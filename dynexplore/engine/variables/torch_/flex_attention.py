"""torch.nn.attention.flex_attention: attention whose scores and mask are functions of the program, in the graph.

The idea: torch checks and prepares in Python, which is interpreted; told that a compiler is at work it calls one higher-order
operator. There the two functions are traced as bodies of scalars (operator_body.py): a score, and the numbers of example, head,
query and key. They may index tensors with these numbers, which torch allows under a mode of its own; it is entered for real, so
that fake tensors do as the operator's own will, and nothing of it stands in the graph.

In: a call of the operator. Out: a node, three tensors.
torch/_dynamo/variables/higher_order_ops.py (FlexAttentionHigherOrderVariable) does the same job.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.flex_attention import flex_attention
from torch.utils._pytree import tree_map_only

from dynexplore.engine.graph.builder import example_value
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import NONE
from dynexplore.engine.variables.rules import late_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.operator_body import OperatorBody, slot_like
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.traced_body import refuse

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_FUNCTION = "flex_attention"


@late_rule("torch._dynamo.decorators", "mark_static")
def _mark_static(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Where a compiler alone comes by, it leaves no mark behind."""
    if not ctx.told_compiling:
        ctx.break_graph("DX203", function="torch._dynamo.decorators.mark_static")
    return NONE


@late_rule("torch.fx.experimental.symbolic_shapes", "has_free_unbacked_symbols")
def _has_free(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """False for lengths that are known, as in eager; those that only the run knows are left to it."""
    asked = importlib.import_module("torch.fx.experimental.symbolic_shapes").has_free_unbacked_symbols
    if asked(tree_map_only(torch.fx.Node, example_value, [arg.as_proxy() for arg in args])):
        ctx.break_graph("DX203", function="torch.fx.experimental.symbolic_shapes.has_free_unbacked_symbols")
    return ConstantVariable(False)


def index_by_numbers(tensor: torch.Tensor, indices: list[torch.Tensor]) -> torch.Tensor:
    """`tensor[indices]` where each index is a number in a tensor, as torch's mode for masks does it."""
    made: torch.Tensor = _late_module().mod_index(tensor, indices)
    return made


def _late_module() -> Any:
    return importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op")  # slow to import


@late_rule("torch._dynamo._trace_wrapped_higher_order_op", "ModIndex.apply")
def _mod_index(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """What a mask does under the mode when the program itself makes it (`create_block_mask`): one node."""
    return ctx.operation("call_function", index_by_numbers, args[1:], kwargs)


@builtin(flex_attention)
def _flex_attention(
    ctx: TraceContext, query: VariableTracker, key: VariableTracker, value: VariableTracker, score_mod: VariableTracker,
    block_mask: VariableTracker, scale: VariableTracker, kernel_options: VariableTracker, /,
) -> VariableTracker:
    *mask, mask_mod = [item.read(ctx) for item in block_mask.unpack(ctx)]
    if not isinstance(query, TensorVariable):
        refuse(ctx, _FUNCTION, "the query is no tensor")
    score = _body(ctx, score_mod, query, with_score=True)
    masked = _body(ctx, mask_mod, query, with_score=False)
    bodies = [body.moved_out(ctx, name, body.inputs, bare=True) for body, name in ((score, "score_mod"), (masked, "mask_fn"))]
    others = [TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in body.inputs]) for body in (score, masked)]
    given = [query, key, value, bodies[0], TupleVariable([*mask, bodies[1]]), scale, kernel_options, *others]
    return ctx.operation("call_function", flex_attention, given, {})


def _body(ctx: TraceContext, function: VariableTracker, query: TensorVariable, *, with_score: bool) -> OperatorBody:
    """Trace one function with a slot for each scalar that the operator passes."""
    with ctx.graph.fake_mode:
        place = query.fake.new_empty((), dtype=torch.int32)
        score = query.fake.detach().new_empty(()).requires_grad_(query.fake.requires_grad)
    slots = [slot_like(ctx, fake) for fake in ([score] if with_score else []) + [place.clone() for _ in range(4)]]
    with _late_module().TransformGetItemToIndex():
        body = OperatorBody(ctx, _FUNCTION, function, [], slots, gives_slots=True)
    if body.nest is not None or body.tensors[0].fake.dim():
        refuse(ctx, _FUNCTION, "a function gives more than a scalar")
    return body
