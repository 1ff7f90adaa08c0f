"""A finished graph: what the builder hands over, and what passes, backends and wrappers take.

In: the module, inputs and outputs of a closed graph. Out: `FinishedGraph`. PyTorch's counterpart: the GraphModule and the example
inputs that `OutputGraph.compile_and_call_fx_graph` (torch/_dynamo/output_graph.py) passes to the backend.
"""

from __future__ import annotations

import copy
from dataclasses import field
from typing import Any

import torch
import torch.fx

from dynexplore.engine.aliasing.metadata import GraphMetadata
from dynexplore.engine.events import GraphPiece, SkipReason
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.records import record


@record(frozen=False)
class GraphInput:
    """A placeholder and the source of its value at run time."""

    node: torch.fx.Node
    source: Source
    example: Any


@record(frozen=False)
class FinishedGraph:
    """A graph ready for a backend: the module, the ordered inputs and outputs."""

    module: torch.fx.GraphModule
    inputs: list[GraphInput]
    outputs: list[torch.fx.Node]
    meta: GraphMetadata = field(default_factory=GraphMetadata)  # what it aliases and mutates (aliasing/metadata.py)
    backend_skipped: SkipReason | None = None  # why the backend is skipped (aliasing/eligibility.py)
    captured: torch.fx.GraphModule | None = None  # the captured graph, if a pass has changed `module` since
    lowerings: tuple[str, ...] = ()  # the passes that changed it (aliasing/lowerings.py, lower_indexing.py)
    pieces: list[GraphPiece] = field(default_factory=list)  # the pieces, if it was split for DistributedDataParallel


def copy_of_graph(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a graph that shares parameters and buffers with it: a deep copy would cut off its gradients."""
    return torch.fx.GraphModule(module, copy.deepcopy(module.graph))


def example_value(node: torch.fx.Node) -> Any:
    """The fake value of a node."""
    return node.meta["example_value"]
