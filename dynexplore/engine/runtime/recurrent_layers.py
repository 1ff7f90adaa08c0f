"""Recurrent layers in a graph that one of torch's compilers is given: they run as they stand, and the rest is compiled around them.

The idea: an LSTM over a hundred steps is one operator, for which devices have code of their own (cuDNN, oneDNN). AOTAutograd knows
it as its parts: a node for each gate of each step of each layer. That takes minutes to compile, and what comes out is slower. So
the graph stays one graph with one set of guards, and is cut where such an operator begins and where its results have been taken;
the pieces with a recurrent layer run as they stand. A graph that writes in place stays whole: its pieces could see each other's
memory.

In:  a finished graph. Out: its pieces, none where it stays whole.
PyTorch's Dynamo breaks the graph at such a module instead (`allow_rnn` in torch/_dynamo/config.py).
"""

from __future__ import annotations

import torch.fx

from dynexplore.engine.graph.builder import FinishedGraph
from dynexplore.engine.graph.pieces import Piece, calls, can_be_cut, cut
from dynexplore.engine.graph.recurrent import is_recurrent
from dynexplore.engine.runtime.inference_blocks import has_blocks


def has_recurrent_layer(module: torch.fx.GraphModule) -> bool:
    """Whether a graph calls a recurrent layer over all of its steps."""
    return any(is_recurrent(node.target) for node in module.graph.nodes)


def pieces_of(graph: FinishedGraph) -> list[Piece]:
    """The pieces of a graph around its recurrent layers; none where there is no such layer, or the graph is to stay whole."""
    module = graph.module
    if not has_recurrent_layer(module) or graph.written_inside or has_blocks(module) or not can_be_cut(module):
        return []
    return cut(module, _borders(module))


def _borders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Where a piece begins: at a recurrent layer, and behind the last node that takes a part of its result.

    A piece hands on no tuple, so a layer that begins before that node moves the end of the piece behind its own last part.
    """
    nodes = calls(module)
    place = {node: number for number, node in enumerate(nodes)}
    borders: list[torch.fx.Node] = []
    end = -1  # of the piece with the layer at hand: there is none yet
    for number, node in enumerate(nodes):
        is_layer = is_recurrent(node.target)
        if number == end or (is_layer and number > end):
            borders.append(node)
        if is_layer:
            end = max(end, number + 1, *(place[user] + 1 for user in node.users if user in place))
    return borders
