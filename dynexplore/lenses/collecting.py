"""A backend that keeps each graph and runs it uncompiled: how the two methods that read bytecode are observed.

Which idea lives here: torch.compile and this engine have the same interface, a backend that is given graphs, so they are
watched in the same way, and what they were given can be compared row by row.

In:  a compiled function, its backend and the counters of graph breaks.
Out: `Captured`.

PyTorch's counterpart: torch/_dynamo/testing.py (EagerAndRecordGraphs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.events import clip
from dynexplore.lenses import fx_rows
from dynexplore.lenses.lens import Call, Captured


class Collecting:
    """A backend: keeps the graphs in `graphs`."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        return graph.forward


def first_call(
    compiled: Callable[..., Any], collecting: Collecting, call: Call, breaks: Callable[[], Mapping[str, int]]
) -> Captured:
    """Call once, and keep what the backend was given until then; later graphs are only counted.

    `breaks` says how often graphs broke so far, by the reason.
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
