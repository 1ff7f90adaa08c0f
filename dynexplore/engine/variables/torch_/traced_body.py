"""A function of the program as a body: it is inlined, and one looks at what it did beside its operators.

The idea: a higher-order operator runs its functions when it likes: twice, or not at all. So what such a function may do is return
what it computes. Changes of objects or tensors that were there before, random numbers of Python's, and modes that stay on break
the graph, and the program's own call does what it does.

In: a function and its arguments. Out: what it returned, and the nodes that it added.
torch/_dynamo/variables/higher_order_ops.py (speculate_subgraph) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import torch

from dynexplore.engine.graph.bodies import last_node, nodes_after, outside_values
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.modes import Modes
from dynexplore.engine.variables.contract.base import VariableTracker, progress

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext


def refuse(ctx: TraceContext, operator: str, reason: str) -> NoReturn:
    """Break the graph: this call of a higher-order operator is not traced."""
    ctx.break_graph("DX421", function=operator, because=reason)


def trace_body(
    ctx: TraceContext, operator: str, function: VariableTracker,
    args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker],
) -> tuple[VariableTracker, list[Node]]:
    """Inline a function that is given to `operator`; what is more than its result breaks the graph."""
    if ctx.function_modes.entered or torch._C._functorch.peek_interpreter_stack() is not None:
        refuse(ctx, operator, "a mode or a transform is active, and would not be where the function runs")
    fake_mode, before, modes, draws = ctx.graph.fake_mode, last_node(ctx.graph.graph), Modes.now(), len(ctx.draws)
    written, fake_mode.written = fake_mode.written, set()
    with progress.of_a_body() as made_inside, ctx.journal.noted_inside() as changed:
        try:
            result = ctx.call_function(function, args, kwargs).read(ctx)
        finally:  # also when the program raises
            inside, fake_mode.written = fake_mode.written, written | fake_mode.written
    if not all(map(made_inside, changed)):
        refuse(ctx, operator, "the function changes an object that was there before")
    if len(ctx.draws) > draws or Modes.now() != modes:
        refuse(ctx, operator, "the function draws random numbers of Python's, or leaves a mode switched on")
    nodes = nodes_after(ctx.graph.graph, before)
    values = [node.meta.get("example_value") for node in outside_values(nodes)]
    if any(isinstance(value, torch.Tensor) and storage_of(value) in inside for value in values):
        refuse(ctx, operator, "the function writes to a tensor that was there before")
    return result, nodes
