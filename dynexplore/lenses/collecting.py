"""A backend that keeps each graph and runs it eagerly: how torch.compile and this engine are observed.

The idea: torch.compile and this engine have the same interface, a backend that receives graphs. So both are observed in the
same way, and the graphs that they passed to it can be compared row by row.

In: a compiled function, its backend and the graph-break counters. Out: `Captured`. PyTorch's counterpart:
`EagerAndRecordGraphs` in torch/_dynamo/testing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.events import clip
from dynexplore.lenses import fx_rows
from dynexplore.lenses.lens import Call, Captured


class Collecting:
    """A backend that appends each graph to `graphs`."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        return graph.forward


def first_call(
    compiled: Callable[..., Any], collecting: Collecting, call: Call, breaks: Callable[[], Mapping[str, int]]
) -> Captured:
    """Call once and keep the graphs that the backend received; graphs of later calls are only counted.

    `breaks` returns the number of graph breaks so far, by reason.
    """
    before = dict(breaks())
    compiled(*call.args, **call.kwargs)
    captured = list(collecting.graphs)
    reasons = [
        clip(str(reason).strip().splitlines()[0], 200) for reason, count in breaks().items() if count > before.get(reason, 0)
    ]
    return Captured(
        lambda: [fx_rows.graph_of(graph, f"graph {number}") for number, graph in enumerate(captured)],
        compiled,
        count=lambda: len(collecting.graphs),
        breaks=lambda: reasons,
    )
