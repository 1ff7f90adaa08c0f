"""Subgraphs of higher-order operators: a section of nodes becomes a GraphModule, which one node calls.

The idea: a function passed to a higher-order operator (`checkpoint`) is inlined like any other, so its operators are in the graph,
one after the other. Which of their values the rest of the graph uses is known when the graph is closed. Then the section moves
into a module, and one node in its place calls the operator with that module. A node whose value is used outside stays the same
object, and becomes "item i of the operator's result".

In: a graph, the first and last nodes of sections. Out: the same graph with one call each. PyTorch's counterpart:
`speculate_subgraph` in torch/_dynamo/variables/higher_order_ops.py, which traces the function into a separate graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
import torch.fx
from torch.fx.node import Node

from dynexplore.engine.records import record

_WHERE = ("offset", "line", "function", "module_path")


@record(frozen=False)
class Body:
    """A section of nodes, and the call that replaces it: `target(module, *inputs, **kwargs)`, which returns a tuple."""

    nodes: set[Node]
    target: Callable[..., Any]
    kwargs: Mapping[str, Any]
    name: str
    meta: Mapping[str, Any] = field(default_factory=dict)  # entries of the module's `meta` for the operator


def last_node(graph: torch.fx.Graph) -> Node | None:
    """The current last node, after which the next one will be inserted."""
    return next(iter(reversed(graph.nodes)), None)


def nodes_after(graph: torch.fx.Graph, last: Node | None) -> list[Node]:
    """The nodes added since `last`, without inputs and attributes, which precede all others."""
    added = []
    for node in reversed(graph.nodes):
        if node is last:
            break
        if node.op not in ("placeholder", "get_attr"):
            added.append(node)
    return added[::-1]


def outside_values(nodes: Collection[Node]) -> list[Node]:
    """The values that the nodes use and do not compute, in order."""
    used = dict.fromkeys(source for node in nodes for source in node.all_input_nodes)
    return [node for node in used if node not in nodes]


def move_out(
    graph: torch.fx.Graph, root: torch.nn.Module, bodies: Sequence[Body], register: Callable[[str, torch.nn.Module], str]
) -> None:
    """Move sections into modules, and call these in their place; a section nested in another one comes before it.

    `register` stores a module and returns the name of its attribute.
    """
    for index, body in enumerate(bodies):
        call = _move_out(graph, root, body, register)
        for outer_body in bodies[index + 1 :]:
            if not outer_body.nodes.isdisjoint(body.nodes):
                outer_body.nodes = outer_body.nodes - body.nodes | {call} | {node for node in body.nodes if node in call.users}


def _move_out(
    graph: torch.fx.Graph, root: torch.nn.Module, body: Body, register: Callable[[str, torch.nn.Module], str]
) -> Node:
    nodes = dict.fromkeys(node for node in graph.nodes if node in body.nodes)
    used = outside_values(nodes)
    modules = [node for node in used if is_module(root, node)]
    inputs = [node for node in used if node not in modules]
    outputs = [node for node in nodes if any(user not in nodes for user in node.users)]
    submodule = as_module(root, [*modules, *nodes], inputs, outputs, body.name)
    submodule.meta.update(body.meta)
    name = register(body.name, submodule)
    first, last = next(iter(nodes)), next(reversed(nodes))
    with graph.inserting_before(first):
        module = graph.create_node("get_attr", name)
        call = graph.create_node("call_function", body.target, (module, *inputs), dict(body.kwargs))
    call.meta = {key: value for key, value in last.meta.items() if key in _WHERE}
    call.meta["example_value"] = tuple(node.meta["example_value"] for node in outputs)
    module.meta["example_value"] = None
    for node in reversed(nodes):
        if node in outputs:
            node.op, node.target, node.args, node.kwargs = "call_function", operator.getitem, (call, outputs.index(node)), {}
            node.meta["unpacked"] = True
        else:
            graph.erase_node(node)
    for node in modules:
        graph.erase_node(node)
    return call


def is_module(root: torch.nn.Module, node: Node) -> bool:
    """Whether a node is the body of another one."""
    return node.op == "get_attr" and isinstance(getattr(root, str(node.target)), torch.nn.Module)


def as_module(
    root: torch.nn.Module, nodes: Sequence[Node], inputs: Sequence[Node], outputs: Sequence[Node], name: str, bare: bool = False
) -> torch.fx.GraphModule:
    """Copies of the nodes, as a module that takes the inputs; modules that they call are included.

    It returns a tuple of the outputs, or the only one (`bare`).
    """
    own_root, own, copies = torch.nn.Module(), torch.fx.Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = own.create_node("placeholder", node.name, (), {}, name=node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = own.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            own_root.add_module(str(node.target), getattr(root, str(node.target)))
    own.output(copies[outputs[0]] if bare else tuple(copies[node] for node in outputs))
    return torch.fx.GraphModule(own_root, own, class_name=name)
