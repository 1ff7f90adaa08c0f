"""The concrete value of a node of the graph under construction.

The idea: while a frame is translated its inputs exist, but the operators have not run. A function whose result is assumed to be
constant needs real arguments: so all nodes so far run once (a later one may mutate an earlier one's value), on copies of the
inputs, and the RNG state is restored. A symbolic float is specialized to its value in this call, with a guard on each of its
symbols.

In: the builder and one of its nodes; a symbolic float. Out: its value; the guards. PyTorch's counterpart: `get_real_value` in
torch/_dynamo/utils.py.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg

from dynexplore.engine.graph.builder import GraphBuilder


def concrete_value(builder: GraphBuilder, target: torch.fx.Node) -> Any:
    """The value of `target` in this call, in storages separate from the program's. Raises the operators' exceptions."""
    examples = {graph_input.node: graph_input.example for graph_input in builder.inputs}
    values: dict[torch.fx.Node, Any] = {}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for node in builder.graph.nodes:
            if node.op == "placeholder":
                values[node] = _copy(examples[node])
            elif node.op == "get_attr":
                values[node] = _copy(builder.attributes[str(node.target)])
            else:
                values[node] = _run(node, values)
    return values[target]


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _run(node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    args = map_arg(node.args, values.__getitem__)
    kwargs = map_arg(node.kwargs, values.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target)
    return node.target(*args, **kwargs)


def specialize_float(value: torch.SymFloat) -> None:
    """Guard on each symbol of a symbolic float: from `ToFloat(s0) + 1e18 == 1e18` sympy would conclude that s0 is 0."""
    env = value.node.shape_env
    for symbol in value.node.expr.free_symbols:
        env.evaluate_expr(symbol, env.backed_var_to_val[symbol])
