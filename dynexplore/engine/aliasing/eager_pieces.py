"""Recurrent layers (LSTM, GRU, RNN) run eagerly: the graph is partitioned, and the backend compiles the rest.

The idea: an LSTM over a hundred steps is one operator with a fused kernel on most devices (cuDNN, oneDNN). AOTAutograd decomposes
it into a node for each gate of each step of each layer, which takes minutes to compile and runs slower. So the graph stays one
graph with one set of guards, and is cut where such an operator begins and where its last result is unpacked; the pieces with a
recurrent layer run as captured. A graph that mutates in place stays whole: its pieces could observe each other's storages.

In: a finished graph. Out: its pieces, none if it stays whole. PyTorch's counterpart: none; Dynamo breaks the graph at such a
module (`allow_rnn` in torch/_dynamo/config.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.aliasing.inference_mode import has_blocks
from dynexplore.engine.aliasing.lowerings import EAGER_NODE
from dynexplore.engine.graph.finished_graph import FinishedGraph, example_value
from dynexplore.engine.graph.partition import Piece, calls, can_be_cut, cut, joined
from dynexplore.engine.graph.recurrent_meta_kernels import is_recurrent

CompilePiece = Callable[[torch.fx.GraphModule, list[Any], str], Callable[..., Any]]


def has_eager_node(module: torch.fx.GraphModule) -> bool:
    """Whether a graph has a recurrent layer, or another node that no backend gets."""
    return any(map(_runs_eager, module.graph.nodes))


def _runs_eager(node: torch.fx.Node) -> bool:
    """Whether a node is a recurrent layer, or one that no backend may get (aliasing/lowerings.py)."""
    return node.op != "placeholder" and (is_recurrent(node.target) or bool(node.meta.get(EAGER_NODE)))


def pieces_of(graph: FinishedGraph) -> list[Piece]:
    """The pieces of a graph around its recurrent layers; none if there is no such layer, or the graph must stay whole."""
    module = graph.module
    if not has_eager_node(module) or graph.meta.has_mutation or has_blocks(module) or not can_be_cut(module):
        return []
    return cut(module, _piece_starts(module))


def _piece_starts(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes at which a piece begins: an eager node, and the node after the last one that unpacks its result.

    A piece cannot pass a tuple on, so a layer that begins before that node moves the end of the piece after its own last item.
    """
    nodes = calls(module)
    position = {node: number for number, node in enumerate(nodes)}
    borders: list[torch.fx.Node] = []
    end = -1  # of the piece with the current layer: none yet
    for number, node in enumerate(nodes):
        is_layer = _runs_eager(node)
        if number == end or (is_layer and number > end):
            borders.append(node)
        if is_layer:
            gives_a_tuple = is_recurrent(node.target) or isinstance(node.meta.get("example_value"), tuple | list)
            parts = node.users if gives_a_tuple else ()
            end = max(end, number + 1, *(position[user] + 1 for user in parts if user in position))
    return borders


def compile_pieces(graph: FinishedGraph, pieces: Sequence[Piece], name: str, compile_piece: CompilePiece) -> Callable[..., Any]:
    """Compile each piece separately (`__compiled_fn_0 (piece 1 of 2)`); returns the callable for the whole graph."""
    compiled = [
        compile_piece(
            piece.module, [example_value(node) for node in piece.inputs], f"{name} (piece {piece.number} of {len(pieces)})"
        )
        for piece in pieces
    ]
    run: Callable[..., Any] = joined(graph.module, pieces, compiled).forward
    return run
