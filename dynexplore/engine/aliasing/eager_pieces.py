"""Recurrent layers (LSTM, GRU, RNN) run eagerly: the graph is partitioned, and the backend compiles what is around them.

The idea: an LSTM over a hundred steps is one operator, for which devices have code of their own (cuDNN, oneDNN). AOTAutograd knows
it as its parts: a node for each gate of each step of each layer. That takes minutes to compile, and what comes out is slower. So
the graph stays one graph with one set of guards, and is cut where such an operator begins and where its results have been taken;
the pieces with a recurrent layer run as they stand. A graph that writes in place stays whole: its pieces could see each other's
memory.

In:  a finished graph. Out: its pieces, none where it stays whole.
PyTorch's Dynamo breaks the graph at such a module instead (`allow_rnn` in torch/_dynamo/config.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.aliasing.inference_mode import has_blocks
from dynexplore.engine.aliasing.lowerings import EAGER_NODE
from dynexplore.engine.graph.builder import FinishedGraph, example_value
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
    """The pieces of a graph around its recurrent layers; none where there is no such layer, or the graph is to stay whole."""
    module = graph.module
    if not has_eager_node(module) or graph.meta.has_mutation or has_blocks(module) or not can_be_cut(module):
        return []
    return cut(module, _borders(module))


def _borders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Where a piece begins: at an eager node, and behind the last node that takes a part of its result.

    A piece hands on no tuple, so a layer that begins before that node moves the end of the piece behind its own last part.
    """
    nodes = calls(module)
    place = {node: number for number, node in enumerate(nodes)}
    borders: list[torch.fx.Node] = []
    end = -1  # of the piece with the layer at hand: there is none yet
    for number, node in enumerate(nodes):
        is_layer = _runs_eager(node)
        if number == end or (is_layer and number > end):
            borders.append(node)
        if is_layer:
            gives_a_tuple = is_recurrent(node.target) or isinstance(node.meta.get("example_value"), tuple | list)
            parts = node.users if gives_a_tuple else ()
            end = max(end, number + 1, *(place[user] + 1 for user in parts if user in place))
    return borders


def compile_pieces(graph: FinishedGraph, pieces: Sequence[Piece], name: str, compile_piece: CompilePiece) -> Callable[..., Any]:
    """Have each piece compiled by itself (`__compiled_fn_0 (piece 1 of 2)`); the callable for the whole graph."""
    compiled = [
        compile_piece(
            piece.module, [example_value(node) for node in piece.inputs], f"{name} (piece {piece.number} of {len(pieces)})"
        )
        for piece in pieces
    ]
    run: Callable[..., Any] = joined(graph.module, pieces, compiled).forward
    return run
