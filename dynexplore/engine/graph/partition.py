"""Partitioning: a graph is split into submodules that run one after the other.

The idea: a graph is a list of nodes in execution order, so a piece is a contiguous section of that list. A value that a piece uses
and an earlier one computed (or that is an input of the whole graph) is an input of the piece; a value that it computes and a later
one uses (or the whole graph returns) is an output. The *joined* graph has one call per piece and the same inputs and outputs as
the whole: parameters stay inputs, the same objects, so that autograd finds them. The order of nodes is preserved, and with it
random numbers and mutations.

Two more rules: a torch mode that is entered in one piece and exited in a later one (autocast) is exited at each end and entered
again at each beginning, so that each piece can be compiled separately; and a tensor with a symbolic size adds the input that
defines the symbol, since a backend needs it.

In: a GraphModule, and the nodes that begin a new piece. Out: `Piece`s, each with its own GraphModule; `joined` creates the
GraphModule that runs their compiled forms. PyTorch's counterpart: torch/fx/passes/split_module.py.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import torch
import torch.fx
from torch.fx.node import Node

from dynexplore.engine.records import record

_SET_GRAD: Any = torch._C._set_grad_enabled
_LEFT_BY: dict[Any, Any] = {
    torch.amp.autocast_mode._enter_autocast: torch.amp.autocast_mode._exit_autocast,
    torch.autograd.grad_mode._enter_inference_mode: torch.autograd.grad_mode._exit_inference_mode,
}
"""For each call that enters a mode: the call that exits it, given the first one's result."""


def can_be_cut(graph: torch.fx.GraphModule) -> bool:
    """Whether every input of a piece can be passed to it: no data-dependent size, and no mode that is set permanently."""
    reversible_modes = {_SET_GRAD, *_LEFT_BY, *_LEFT_BY.values()}
    return not any(
        node.meta.get("unbacked_bindings") or (node.meta.get("sets_mode") and node.target not in reversible_modes)
        for node in graph.graph.nodes
    )


@record(frozen=False)
class Piece:
    """A contiguous section of a graph. `inputs` and `outputs` are nodes of the whole graph, in the order in which `module` takes
    and returns their values (outputs always as a tuple).
    """

    number: int
    nodes: list[Node]
    module: torch.fx.GraphModule
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)


def calls(graph: torch.fx.GraphModule) -> list[Node]:
    """The nodes that are divided among pieces: all but inputs, attributes and the output."""
    return [node for node in graph.graph.nodes if node.op.startswith("call_")]


def cut(graph: torch.fx.GraphModule, starts: Sequence[Node]) -> list[Piece]:
    """The pieces of `graph`: a new one begins at each node of `starts`. Numbers begin with 1 and are stored in `meta["piece"]`.

    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) * x)
    >>> first, second = cut(traced, [calls(traced)[1]])
    >>> [node.name for node in first.nodes], [node.name for node in second.nodes], [node.name for node in second.inputs]
    (['add'], ['relu', 'mul'], ['add', 'x'])
    """
    nodes = calls(graph)
    borders = [0, *sorted({nodes.index(start) for start in starts} - {0}), len(nodes)]
    stretches = [nodes[begin:end] for begin, end in itertools.pairwise(borders)]
    for number, stretch in enumerate(stretches, 1):
        for node in stretch:
            node.meta["piece"] = number
    open_modes = [list(_open_before(nodes, border)) for border in borders]
    return [
        _piece(graph, number, stretch, open_modes[number - 1], open_modes[number]) for number, stretch in enumerate(stretches, 1)
    ]


def _open_before(nodes: Sequence[Node], border: int) -> Iterator[Node]:
    """The nodes of modes active where a piece begins: modes entered and not yet exited, and the last setting of the grad mode."""
    if border in (0, len(nodes)):
        return
    later = set(nodes[border:])
    setting = None
    for node in nodes[:border]:
        if node.target in _LEFT_BY and any(user in later for user in node.users if user.target is _LEFT_BY[node.target]):
            yield node
        if node.target is _SET_GRAD:
            setting = node
    if setting is not None:
        yield setting


def _piece(graph: torch.fx.GraphModule, number: int, nodes: list[Node], before: list[Node], after: list[Node]) -> Piece:
    """Build the module of one section: enter the active modes, run the nodes, exit the modes that are still active."""
    inputs, outputs = _inputs(graph, nodes), _outputs(nodes)
    root, own, copies = torch.nn.Module(), torch.fx.Graph(), dict[Node, Node]()
    for node in inputs:
        copies[node] = own.create_node("placeholder", node.name, (), {}, name=node.name)
        copies[node].meta = dict(node.meta)
    for node in [*_attributes(nodes), *before, *nodes]:
        copies[node] = own.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            _share(graph, root, str(node.target))
    for node in reversed(after):
        if node.target in _LEFT_BY:
            own.call_function(_LEFT_BY[node.target], (copies[node],))
    own.output(tuple(copies[node] for node in outputs))
    return Piece(number, nodes, torch.fx.GraphModule(root, own, class_name=f"piece_{number}"), inputs, outputs)


def _inputs(graph: torch.fx.GraphModule, nodes: Sequence[Node]) -> list[Node]:
    """The values that the nodes use and do not compute, and the symbols in their sizes."""
    piece_nodes = set(nodes)
    used = dict.fromkeys(node for user in nodes for node in user.all_input_nodes)
    inputs = [node for node in used if node not in piece_nodes and node.op != "get_attr" and node.target not in _LEFT_BY]
    symbols = {symbol for node in inputs for symbol in _symbols(node)}
    naming = [node for node in graph.graph.nodes if symbols and node.op == "placeholder" and _named_symbol(node) in symbols]
    return [*dict.fromkeys([*naming, *inputs])]


def _symbols(node: Node) -> set[Any]:
    """The symbols in the sizes and strides of a value."""
    value = node.meta.get("example_value")
    numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) and value.layout is torch.strided else [value]
    return {symbol for number in numbers if isinstance(number, torch.SymInt) for symbol in number.node.expr.free_symbols}


def _named_symbol(node: Node) -> Any:
    """The symbol that an input defines; None for a tensor or an expression."""
    value = node.meta.get("example_value")
    return value.node.expr if isinstance(value, torch.SymInt) and value.node.expr.is_symbol else None


def _attributes(nodes: Sequence[Node]) -> list[Node]:
    used = dict.fromkeys(node for user in nodes for node in user.all_input_nodes)
    return [node for node in used if node.op == "get_attr"]


def _outputs(nodes: Sequence[Node]) -> list[Node]:
    """The values of these nodes that later pieces, or the caller of the whole graph, use."""
    piece_nodes = set(nodes)
    return [node for node in nodes if node.target not in _LEFT_BY and any(user not in piece_nodes for user in node.users)]


def _share(graph: torch.fx.GraphModule, root: torch.nn.Module, name: str) -> None:
    """Set an attribute of the whole graph on a piece: the same object."""
    value = operator.attrgetter(name)(graph)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        root.register_buffer(name, value, persistent=False)
    else:
        setattr(root, name, value)


class _Compiled(torch.nn.Module):
    """The backend's callable for a piece, as a module that a graph can call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def joined(graph: torch.fx.GraphModule, pieces: Sequence[Piece], compiled: Sequence[Callable[..., Any]]) -> torch.fx.GraphModule:
    """The graph that runs the compiled pieces in order, with the inputs and outputs of the whole graph."""
    root, own, copies = torch.nn.Module(), torch.fx.Graph(), dict[Node, Node]()
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            copies[node] = own.node_copy(node)
            if node.op == "get_attr":
                _share(graph, root, str(node.target))
    for piece, function in zip(pieces, compiled, strict=True):
        name = f"piece_{piece.number}"
        root.add_module(name, _Compiled(function))
        called = own.call_module(name, tuple(copies[node] for node in piece.inputs))
        for index, node in enumerate(piece.outputs):
            copies[node] = own.call_function(operator.getitem, (called, index))
    output = next(iter(reversed(graph.graph.nodes)))
    own.output(torch.fx.node.map_arg(output.args[0], copies.__getitem__))
    return torch.fx.GraphModule(root, own, class_name="joined_pieces")
