"""Data-parallel training: a graph is split where DistributedDataParallel's buckets end.

The idea, and why it is needed. DistributedDataParallel (DDP) trains one copy of a model in each process and averages the
gradients with an all-reduce. It does not wait for the whole backward: parameters are grouped into *buckets* in the
order in which their gradients come, which is about the reverse of the order in which forward used them, and a bucket is
sent as soon as its last gradient is there. So sending overlaps with the rest of backward, and costs little.

A compiler undoes that. One graph for the whole model has one backward, which autograd runs as a single node: every gradient
comes at its very end, and only then does the first all-reduce start. So the graph is split into *pieces*, each compiled by
itself, each with a backward of its own:

    forward   piece 1 -> piece 2 -> piece 3          a border stands just before the first node that uses a parameter of
    backward  piece 1 <- piece 2 <- piece 3          the bucket: with the backward of that node the bucket is complete
    sent            bucket 2  bucket 1  bucket 0

How DDP fills buckets (torch/csrc/distributed/c10d/reducer.cpp, `compute_bucket_assignment_by_size`, which is asked here as
well): parameters in the order of their gradients, until the bucket holds `bucket_bytes_cap` bytes; the first one may be smaller
(1 MiB unless `bucket_cap_mb` is given), so that sending begins early. With `find_unused_parameters` the order is that
of registration. A gradient is complete when the backward of the *first* node that used the parameter has run.

DDP's own forward (buffers are broadcast, hooks of the reducer made ready, `join` told) runs as plain Python around the
graphs, and says through `_get_active_ddp_module` whose parameters they are. Parameters are inputs of the graphs, the very
objects, so DDP's gradient hooks fire. Under `no_grad`, and with `config.optimize_ddp` off, a graph stays whole.

In:  a finished graph, while a DDP module runs its forward. Out: its pieces, and one callable that runs them in order.

torch/_dynamo/backends/distributed.py (DDPOptimizer) does the same job.
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
from dynexplore.engine.graph.builder import FinishedGraph
from dynexplore.engine.graph.partition import Piece, calls, can_be_cut, cut
from dynexplore.engine.provenance.data_parallel import active_ddp
from dynexplore.engine.records import record

_torch_distributed: Any = torch.distributed


def pieces_of(graph: FinishedGraph) -> list[Piece]:
    """The pieces of a graph that is captured now; none where it is to stay whole.

    The result is also in `graph.pieces`, as records, and in the meta of the nodes, as `piece`.
    """
    ddp = active_ddp()
    if ddp is None or not config.optimize_ddp or not torch.is_grad_enabled() or not can_be_cut(graph.module):
        return []
    uses = _first_uses(graph, ddp)
    assignment = _buckets(ddp, [use.parameter for use in uses])
    starts = _borders(uses, assignment)
    if not starts:
        return []
    pieces = cut(graph.module, starts)
    graph.pieces = [_record(piece, uses, assignment) for piece in pieces]
    return pieces


# -- which parameters, and where they are used first ---------------------------------------------------------


@record()
class _Use:
    """A parameter that DDP reduces, its place in the order of registration, and the first node that uses it: with the backward of
    that node its gradient is complete.
    """

    parameter: torch.nn.Parameter
    name: str
    place: int
    node: Node
    position: int


def _reduced(ddp: DistributedDataParallel) -> list[torch.nn.Parameter]:
    """The parameters whose gradients DDP averages, in the order of registration."""
    return [parameter for parameter in ddp._module_parameters if parameter.requires_grad]


def _first_uses(graph: FinishedGraph, ddp: DistributedDataParallel) -> list[_Use]:
    """The parameters of this graph in the order in which their gradients come: the last used first."""
    position = {node: place for place, node in enumerate(calls(graph.module))}
    names = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
    places = {id(parameter): place for place, parameter in enumerate(_reduced(ddp))}
    uses = []
    for graph_input in graph.inputs:
        users = [user for user in graph_input.node.users if user in position]
        key = id(graph_input.example)
        if key in places and users:
            first = min(users, key=position.__getitem__)
            uses.append(_Use(graph_input.example, names.get(key, ""), places[key], first, position[first]))
    return sorted(uses, key=lambda use: (-use.position, -use.place))


# -- buckets -------------------------------------------------------------------------------------------------


def _buckets(ddp: DistributedDataParallel, used: Sequence[torch.nn.Parameter]) -> list[list[int]]:
    """DDP's buckets in the order in which they are sent, each as the places of its parameters in the order of registration."""
    parameters = _reduced(ddp)
    if ddp.find_unused_parameters and not ddp.static_graph:  # these stay as they were made
        return list(reversed(_assigned(ddp, parameters, ordered=False)))
    return _assigned(ddp, _in_order_of_gradients(parameters, used), ordered=True)


def _in_order_of_gradients(parameters: Sequence[torch.nn.Parameter], used: Sequence[torch.nn.Parameter]) -> list[Any]:
    """All parameters in the order that backward is expected to take: this graph's as known, those registered after them before."""
    used_ids = {id(parameter) for parameter in used}
    last = max((place for place, parameter in enumerate(parameters) if id(parameter) in used_ids), default=-1)
    others = [(place, parameter) for place, parameter in reversed(list(enumerate(parameters))) if id(parameter) not in used_ids]
    return [
        *(parameter for place, parameter in others if place > last),
        *used,
        *(parameter for place, parameter in others if place < last),
    ]


def _assigned(ddp: DistributedDataParallel, parameters: Sequence[torch.nn.Parameter], *, ordered: bool) -> list[list[int]]:
    """What torch's own rule makes of parameters in this order; `ordered`: buckets keep it, too."""
    if not parameters:
        return []
    order = list(range(len(parameters))) if ordered else []
    sparse = _sparse(ddp)
    buckets, _ = _torch_distributed._compute_bucket_assignment_by_size(
        list(parameters), bucket_limits(ddp), [id(parameter) in sparse for parameter in parameters], order
    )
    places = {id(parameter): place for place, parameter in enumerate(_reduced(ddp))}
    return [[places[id(parameters[number])] for number in bucket] for bucket in buckets]


def bucket_limits(ddp: DistributedDataParallel) -> list[int]:
    """How many bytes close a bucket, of the first, of the second, ...; the last number holds for all others."""
    listed = list(getattr(ddp, "bucket_bytes_cap_list", ()))
    if listed:
        return [int(limit) for limit in listed]
    first = _torch_distributed._DEFAULT_FIRST_BUCKET_BYTES if ddp.bucket_bytes_cap_default else ddp.bucket_bytes_cap
    return [int(first), int(ddp.bucket_bytes_cap)]


def _sparse(ddp: DistributedDataParallel) -> set[int]:
    """The parameters whose gradients are sparse: each has a bucket of its own."""
    tables = [module for module in ddp.modules() if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag)]
    return {id(table.weight) for table in tables if table.sparse}


# -- borders -------------------------------------------------------------------------------------------------


def _borders(uses: Sequence[_Use], buckets: Iterable[Sequence[int]]) -> list[Node]:
    """The nodes that begin a piece: where a bucket is complete, and parameters are left for the piece before."""
    by_place = {use.place: use for use in uses}
    borders = {}
    for bucket in buckets:
        positions = [by_place[place] for place in bucket if place in by_place]
        if positions and min(bucket) >= min(by_place):  # else it is complete only with an earlier graph's gradients
            complete = min(positions, key=lambda use: use.position)
            if any(use.position < complete.position for use in uses):
                borders[complete.position] = complete.node
    return [borders[position] for position in sorted(borders)]


def _record(piece: Piece, uses: Sequence[_Use], buckets: Sequence[Sequence[int]]) -> GraphPiece:
    """A piece as a record."""
    piece_nodes = set(piece.nodes)
    own = [use for use in uses if use.node in piece_nodes]
    numbers = sorted({number for number, bucket in enumerate(buckets) for use in own if use.place in bucket})
    return GraphPiece(
        number=piece.number,
        nodes=tuple(node.name for node in piece.nodes),
        buckets=tuple(numbers),
        parameters=tuple(use.name for use in reversed(own)),
        parameter_bytes=sum(use.parameter.numel() * use.parameter.element_size() for use in own),
    )
