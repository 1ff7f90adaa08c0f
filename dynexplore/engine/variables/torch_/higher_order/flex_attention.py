"""torch.nn.attention.flex_attention: score_mod and mask_mod are functions of the program, traced as subgraphs.

The idea: torch's Python wrapper is inlined; with `is_compiling()` true it calls one HOP. There the two functions are traced with
scalar placeholders (hop_subgraph.py): the score, and the indices of batch, head, query and key. They may index tensors with these,
which torch supports under TransformGetItemToIndex; that mode is entered while tracing, so that fake tensors behave as in the HOP,
and adds no node.

In: a call of the HOP. Out: a node, three tensors.
PyTorch's counterpart: FlexAttentionHigherOrderVariable in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.flex_attention import flex_attention
from torch.utils._pytree import tree_map_only

from dynexplore.engine.graph.finished_graph import example_value
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import late_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.higher_order.hop_subgraph import HopSubgraph, new_placeholder
from dynexplore.engine.variables.torch_.higher_order.speculate_subgraph import refuse
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_FUNCTION = "flex_attention"


@late_rule("torch._dynamo.decorators", "mark_static")
def _mark_static(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """The wrapper marks tensors for the compiler; not needed here, so it does nothing."""
    if not ctx.effects.observed_is_compiling:
        ctx.break_graph("DX203", function="torch._dynamo.decorators.mark_static")
    return NONE


@late_rule("torch.fx.experimental.symbolic_shapes", "has_free_unbacked_symbols")
def _has_free_unbacked_symbols(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """False for known lengths, as in eager; unbacked lengths break the graph."""
    has_free_unbacked_symbols = importlib.import_module("torch.fx.experimental.symbolic_shapes").has_free_unbacked_symbols
    if has_free_unbacked_symbols(tree_map_only(torch.fx.Node, example_value, [arg.as_proxy() for arg in args])):
        ctx.break_graph("DX203", function="torch.fx.experimental.symbolic_shapes.has_free_unbacked_symbols")
    return ConstantVariable(False)


def index_with_scalar_tensors(tensor: torch.Tensor, indices: list[torch.Tensor]) -> torch.Tensor:
    """`tensor[indices]` with scalar tensors as indices, as torch's TransformGetItemToIndex does it."""
    result: torch.Tensor = _late_module().mod_index(tensor, indices)
    return result


def _late_module() -> Any:
    return importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op")  # slow to import


@late_rule("torch._dynamo._trace_wrapped_higher_order_op", "ModIndex.apply")
def _mod_index(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """The index operation of a mask when the program itself evaluates it under the mode (`create_block_mask`): one node."""
    return ctx.operation("call_function", index_with_scalar_tensors, args[1:], kwargs)


@builtin(flex_attention)
def _flex_attention(
    ctx: TraceContext, query: VariableTracker, key: VariableTracker, value: VariableTracker, score_mod: VariableTracker,
    block_mask: VariableTracker, scale: VariableTracker, kernel_options: VariableTracker, /,
) -> VariableTracker:
    *mask, mask_mod = [item.read(ctx) for item in block_mask.unpack(ctx)]
    if not isinstance(query, TensorVariable):
        refuse(ctx, _FUNCTION, "the query is not a tensor")
    score = _scalar_subgraph(ctx, score_mod, query, with_score=True)
    masked = _scalar_subgraph(ctx, mask_mod, query, with_score=False)
    bodies = [body.extract(ctx, name, body.inputs, bare=True) for body, name in ((score, "score_mod"), (masked, "mask_fn"))]
    others = [TupleVariable([TensorVariable(node, node.meta["example_value"]) for node in body.inputs]) for body in (score, masked)]
    arguments = [query, key, value, bodies[0], TupleVariable([*mask, bodies[1]]), scale, kernel_options, *others]
    return ctx.operation("call_function", flex_attention, arguments, {})


def _scalar_subgraph(ctx: TraceContext, function: VariableTracker, query: TensorVariable, *, with_score: bool) -> HopSubgraph:
    """Trace one function with a placeholder for each scalar that the operator passes."""
    with ctx.graph.fake_mode:
        index = query.fake.new_empty((), dtype=torch.int32)
        score = query.fake.detach().new_empty(()).requires_grad_(query.fake.requires_grad)
    placeholders = [new_placeholder(ctx, fake) for fake in ([score] if with_score else []) + [index.clone() for _ in range(4)]]
    with _late_module().TransformGetItemToIndex():
        body = HopSubgraph(ctx, _FUNCTION, function, [], placeholders, may_return_inputs=True)
    if body.out_spec is not None or body.tensors[0].fake.dim():
        refuse(ctx, _FUNCTION, "a function returns more than a scalar")
    return body
