"""Tracing a function argument of a higher-order operator (HOP), and checking it for side effects.

The idea: a HOP may run its function several times, or not at all, so the function must be pure. It is inlined, and the graph
breaks if it mutated an object or tensor that existed before, drew from Python's random module, or left a mode switched on. The
program's own call then runs eagerly.

In: a function and its arguments. Out: its result, and the nodes that it added.
PyTorch's counterpart: speculate_subgraph in torch/_dynamo/variables/higher_order_ops.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import torch

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.modes import Modes
from dynexplore.engine.graph.subgraphs import last_node, nodes_after, outside_values
from dynexplore.engine.variables.contract.base import VariableTracker, progress

if TYPE_CHECKING:
    from torch.fx.node import Node

    from dynexplore.engine.variables.contract.context import TraceContext


def refuse(ctx: TraceContext, operator: str, reason: str) -> NoReturn:
    """Break the graph: this call of a higher-order operator is not traced."""
    ctx.break_graph("DX421", function=operator, because=reason)


def speculate_subgraph(
    ctx: TraceContext, operator: str, function: VariableTracker,
    args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker],
) -> tuple[VariableTracker, list[Node]]:
    """Inline the function argument of `operator`; any side effect breaks the graph."""
    if ctx.function_modes.entered or torch._C._functorch.peek_interpreter_stack() is not None:
        refuse(ctx, operator, "a mode or a transform is active, and would not be where the function runs")
    fake_mode, before, modes, draws = ctx.graph.fake_mode, last_node(ctx.graph.graph), Modes.now(), len(ctx.effects.draws)
    written, fake_mode.written = fake_mode.written, set()
    with progress.of_a_body() as made_inside, ctx.journal.mutations_during() as changed:
        try:
            result = function.call(ctx, args, kwargs).read(ctx)
        finally:  # also when the program raises
            mutated_inside, fake_mode.written = fake_mode.written, written | fake_mode.written
    if not all(map(made_inside, changed)):
        refuse(ctx, operator, "the function mutates an object from outside")
    if len(ctx.effects.draws) > draws or Modes.now() != modes:
        refuse(ctx, operator, "the function draws random numbers of Python's, or leaves a mode switched on")
    nodes = nodes_after(ctx.graph.graph, before)
    values = [node.meta.get("example_value") for node in outside_values(nodes)]
    if any(isinstance(value, torch.Tensor) and storage_of(value) in mutated_inside for value in values):
        refuse(ctx, operator, "the function mutates a tensor from outside")
    return result, nodes
