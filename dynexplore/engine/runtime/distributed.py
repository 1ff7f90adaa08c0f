"""Data-parallel training: a graph is split at the bucket boundaries of DistributedDataParallel.

The idea: DistributedDataParallel (DDP) trains one copy of a model in each process and averages the gradients with an all-reduce.
It does not wait for the whole backward: parameters are grouped into *buckets* in the order in which their gradients become ready,
which is roughly the reverse of the order in which forward used them, and the all-reduce of a bucket starts as soon as its last
gradient is ready. So communication overlaps with the rest of backward.

A compiler removes that overlap. One graph for the whole model has one backward, which autograd runs as a single node: all
gradients become ready at its end, and only then does the first all-reduce start. So the graph is split into *pieces*, each
compiled separately, each with its own backward:

    forward   piece 1 -> piece 2 -> piece 3          a boundary is just before the first node that uses a parameter of
    backward  piece 1 <- piece 2 <- piece 3          the bucket: with the backward of that node the bucket is complete
    sent            bucket 2  bucket 1  bucket 0

How DDP fills buckets (torch/csrc/distributed/c10d/reducer.cpp, `compute_bucket_assignment_by_size`, which is called here as well):
parameters in the order of their gradients, until the bucket holds `bucket_bytes_cap` bytes; the first one may be smaller (1 MiB
unless `bucket_cap_mb` is set), so that communication starts early. With `find_unused_parameters` the order is that of
registration. A gradient is complete when the backward of the *first* node that used the parameter has run.

DDP's own forward (broadcast of buffers, preparation of the reducer's hooks, notification of `join`) runs as plain Python around
the graphs, and `_get_active_ddp_module` returns the module. Parameters are inputs of the graphs, the same objects, so DDP's
gradient hooks fire. Under `no_grad`, and with `config.optimize_ddp` off, a graph stays whole.

In: a finished graph, while a DDP module runs its forward. Out: its pieces, and one callable that runs them in order. PyTorch's
counterpart: `DDPOptimizer` in torch/_dynamo/backends/distributed.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed
from torch.fx.node import Node
from torch.nn.parallel import DistributedDataParallel

from dynexplore.engine.config import config
from dynexplore.engine.events import GraphPiece
from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.graph.partition import Piece, calls, can_be_cut, cut
from dynexplore.engine.provenance.data_parallel import active_ddp
from dynexplore.engine.records import record

_torch_distributed: Any = torch.distributed


def pieces_of(graph: FinishedGraph) -> list[Piece]:
    """The pieces of a graph captured now; none if it stays whole.

    The result is also stored in `graph.pieces`, as records, and in the meta of the nodes, as `piece`.
    """
    ddp = active_ddp()
    if ddp is None or not config.optimize_ddp or not torch.is_grad_enabled() or not can_be_cut(graph.module):
        return []
    uses = _first_uses(graph, ddp)
    assignment = _buckets(ddp, [use.parameter for use in uses])
    starts = _piece_starts(uses, assignment)
    if not starts:
        return []
    pieces = cut(graph.module, starts)
    graph.pieces = [_record(piece, uses, assignment) for piece in pieces]
    return pieces


# -- which parameters, and where they are used first ---------------------------------------------------------


@record()
class _Use:
    """A parameter that DDP reduces, its registration index, and its first user: the backward of that node completes its gradient.
    """

    parameter: torch.nn.Parameter
    name: str
    index: int
    node: Node
    position: int


def _reduced(ddp: DistributedDataParallel) -> list[torch.nn.Parameter]:
    """The parameters whose gradients DDP averages, in the order of registration."""
    return [parameter for parameter in ddp._module_parameters if parameter.requires_grad]


def _first_uses(graph: FinishedGraph, ddp: DistributedDataParallel) -> list[_Use]:
    """The parameters of this graph in the order in which their gradients become ready: the last used first."""
    position = {node: index for index, node in enumerate(calls(graph.module))}
    names = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
    index_of = {id(parameter): index for index, parameter in enumerate(_reduced(ddp))}
    uses = []
    for graph_input in graph.inputs:
        users = [user for user in graph_input.node.users if user in position]
        key = id(graph_input.example)
        if key in index_of and users:
            first = min(users, key=position.__getitem__)
            uses.append(_Use(graph_input.example, names.get(key, ""), index_of[key], first, position[first]))
    return sorted(uses, key=lambda use: (-use.position, -use.index))


# -- buckets -------------------------------------------------------------------------------------------------


def _buckets(ddp: DistributedDataParallel, used: Sequence[torch.nn.Parameter]) -> list[list[int]]:
    """DDP's buckets in the order of their all-reduces, each as the registration indices of its parameters."""
    parameters = _reduced(ddp)
    if ddp.find_unused_parameters and not ddp.static_graph:  # then DDP keeps the initial buckets
        return list(reversed(_assigned(ddp, parameters, ordered=False)))
    return _assigned(ddp, _in_order_of_gradients(parameters, used), ordered=True)


def _in_order_of_gradients(parameters: Sequence[torch.nn.Parameter], used: Sequence[torch.nn.Parameter]) -> list[Any]:
    """All parameters in the expected order of backward: for this graph's as used, those registered after them before."""
    used_ids = {id(parameter) for parameter in used}
    last = max((index for index, parameter in enumerate(parameters) if id(parameter) in used_ids), default=-1)
    others = [(index, parameter) for index, parameter in reversed(list(enumerate(parameters))) if id(parameter) not in used_ids]
    return [
        *(parameter for index, parameter in others if index > last),
        *used,
        *(parameter for index, parameter in others if index < last),
    ]


def _assigned(ddp: DistributedDataParallel, parameters: Sequence[torch.nn.Parameter], *, ordered: bool) -> list[list[int]]:
    """Torch's own bucket assignment for parameters in this order; `ordered`: the buckets keep the order, too."""
    if not parameters:
        return []
    order = list(range(len(parameters))) if ordered else []
    sparse = _sparse(ddp)
    buckets, _ = _torch_distributed._compute_bucket_assignment_by_size(
        list(parameters), bucket_limits(ddp), [id(parameter) in sparse for parameter in parameters], order
    )
    index_of = {id(parameter): index for index, parameter in enumerate(_reduced(ddp))}
    return [[index_of[id(parameters[number])] for number in bucket] for bucket in buckets]


def bucket_limits(ddp: DistributedDataParallel) -> list[int]:
    """The size limits in bytes of the first bucket, the second, ...; the last number applies to all others."""
    listed = list(getattr(ddp, "bucket_bytes_cap_list", ()))
    if listed:
        return [int(limit) for limit in listed]
    first = _torch_distributed._DEFAULT_FIRST_BUCKET_BYTES if ddp.bucket_bytes_cap_default else ddp.bucket_bytes_cap
    return [int(first), int(ddp.bucket_bytes_cap)]


def _sparse(ddp: DistributedDataParallel) -> set[int]:
    """The parameters with sparse gradients: each has a separate bucket."""
    tables = [module for module in ddp.modules() if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag)]
    return {id(table.weight) for table in tables if table.sparse}


# -- boundaries ---------------------------------------------------------------------------------------------


def _piece_starts(uses: Sequence[_Use], buckets: Iterable[Sequence[int]]) -> list[Node]:
    """The nodes that begin a piece: where a bucket is complete, and parameters remain for the previous piece."""
    use_of = {use.index: use for use in uses}
    borders = {}
    for bucket in buckets:
        positions = [use_of[index] for index in bucket if index in use_of]
        if positions and min(bucket) >= min(use_of):  # else it is complete only with an earlier graph's gradients
            complete = min(positions, key=lambda use: use.position)
            if any(use.position < complete.position for use in uses):
                borders[complete.position] = complete.node
    return [borders[position] for position in sorted(borders)]


def _record(piece: Piece, uses: Sequence[_Use], buckets: Sequence[Sequence[int]]) -> GraphPiece:
    """A piece as a record."""
    piece_nodes = set(piece.nodes)
    own = [use for use in uses if use.node in piece_nodes]
    numbers = sorted({number for number, bucket in enumerate(buckets) for use in own if use.index in bucket})
    return GraphPiece(
        number=piece.number,
        nodes=tuple(node.name for node in piece.nodes),
        buckets=tuple(numbers),
        parameters=tuple(use.name for use in reversed(own)),
        parameter_bytes=sum(use.parameter.numel() * use.parameter.element_size() for use in own),
    )
