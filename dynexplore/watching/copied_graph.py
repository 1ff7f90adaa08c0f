"""A copy of the nodes of a graph without references to torch's own, from which its code is generated when it is read.

The idea: generating the Python code of a graph takes torch longer than everything else that a watch reads of it, and most of it
is never shown. The graph itself cannot be kept: it holds the tensors of the compilation, and backends change it. So its nodes are
copied, with names in place of the nodes among their arguments, and the code is generated from a graph built of the copies, by the
same function of torch. A graph that contains an object of the program, or whose code depends on more than its nodes, is not
copied: its code is generated at once.

In: a graph. Out: `copied_arguments(node)`; `copy_of(node, ...)`; `code_of(copies)`.

PyTorch's counterpart: `Graph.python_code` in torch/fx/graph.py, which generates the code.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.fx
from torch.fx.node import map_aggregate


class NodeName(str):
    """The name of a node in the arguments of another one: printed as the node is."""

    __slots__ = ()
    __repr__ = str.__str__


class NodeCopy(NamedTuple):
    """A node, with `NodeName`s for the nodes in `args` and `kwargs`."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any
    type: Any


class _NotPlain(Exception):
    """An argument belongs to the program, or to torch's compilation."""


_PLAIN = frozenset(
    [type(None), bool, int, float, complex, str, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format]
)


def copied_arguments(node: torch.fx.Node) -> tuple[Any, Any] | None:
    """The arguments and keyword arguments of a node, with names in place of nodes; None if they hold more than constants."""
    try:
        args = map_aggregate(cast("Any", node.args), _copied)
        return args, map_aggregate(cast("Any", node.kwargs), _copied) if node.kwargs else {}
    except _NotPlain:
        return None


def _copied(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return NodeName(value.name)
    if type(value) in _PLAIN:
        return value
    raise _NotPlain


def copy_of(node: torch.fx.Node, arguments: tuple[Any, Any]) -> NodeCopy | None:
    """A copy of a node, whose arguments were copied; None if its target or its annotation may belong to the program."""
    target, annotation = node.target, node.type
    if not (isinstance(target, str) or _is_torchs(target)) or not (annotation is None or _is_torchs(annotation)):
        return None
    return None if node.meta.get("is_wrapped") else NodeCopy(node.op, node.name, target, *arguments, annotation)


def _is_torchs(value: Any) -> bool:
    return type(value) is types.BuiltinFunctionType or str(getattr(value, "__module__", "")).partition(".")[0] == "torch"


def has_plain_code(graph: torch.fx.Graph) -> bool:
    """Whether the code of a graph depends on its nodes only."""
    codegen = graph._codegen
    return type(codegen) is torch.fx.graph.CodeGen and codegen._body_transformer is None


def code_of(copies: Sequence[NodeCopy]) -> str:
    """The code of a graph with these nodes, as `GraphModule.code` has it."""
    graph = torch.fx.Graph()
    nodes: dict[str, torch.fx.Node] = {}

    def node_of(value: Any) -> Any:
        return nodes[value] if type(value) is NodeName else value

    for op, name, target, args, kwargs, annotation in copies:
        operands: tuple[Any, Any] = map_aggregate(args, node_of), map_aggregate(kwargs, node_of)
        nodes[name] = graph.create_node(op, target, *operands, name, annotation)
    return str(graph.python_code("self").src)
