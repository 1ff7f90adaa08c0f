"""Subscripts by integer tensors: captured once, whatever the backend, and lowered for those that cannot trace them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine.variables.torch_.test_data_dependent_indexing import ALIASES, ONE_GRAPH, X, asks_by_layout, narrows
from recorded import recorded
from torch.utils.checkpoint import checkpoint

from dynexplore.engine import events as ev
from engine_checks import CountingBackend, assert_same_as_eager

OF_THE_BACKEND = {"STORAGE_OVERLAP"}  # what AOTAutograd relies on; a graph that runs as captured relies on nothing of it


def captured(program: Any, backend: Any) -> list[Any]:
    """The nodes of each graph and the guards of each frame, as the recording has them."""
    recording = recorded(program, (X.clone(), torch.tensor(1)), backend=backend)
    nodes = [
        [(node.op, node.name, node.target, node.args, node.kwargs, node.dtype, node.shape) for node in graph.nodes]
        for graph in recording.graphs
    ]
    guards = [(one.source, one.kind, one.expected) for one in recording.of(ev.GuardInstalled) if one.kind not in OF_THE_BACKEND]
    return [nodes, guards, [broke.kind for broke in recording.breaks]]


@pytest.mark.parametrize("program", [*ONE_GRAPH, *(program for program in ALIASES if program is not asks_by_layout), narrows])
def test_what_is_captured_does_not_depend_on_the_backend(program: Any) -> None:
    """Nodes, guards and breaks under "eager", AOTAutograd and a backend of the program's own are the same, one by one."""
    first, *others = (captured(program, backend) for backend in ("eager", "aot_eager", CountingBackend()))
    assert first[0]
    assert all(other == first for other in others)


def test_a_backend_gets_an_index_operator_and_the_recording_says_so() -> None:
    """`w[t]` is captured as written, and is `aten.index` where the backend gets it."""
    backend = CountingBackend()
    (compiled,) = recorded(lambda x, t: (x[t] * 2).sum(), (X, torch.tensor(1)), backend=backend).of(ev.SubgraphCompiled)
    assert backend.targets() == [["index.Tensor", "mul", "sum"]]
    assert compiled.lowerings == ("data-dependent indexing: getitem",)
    assert "index" not in compiled.code


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_row_inside_a_checkpoint(backend: str) -> None:
    """A subgraph is lowered as the graph around it is."""

    def run(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda y: y.sin()[t] * 2, x, use_reentrant=False).sum()

    calls = [(X.clone().requires_grad_(), torch.tensor(number)) for number in (1, 0, 2)]
    assert_same_as_eager(run, *calls[0], then=calls[1:], graphs=range(2), breaks=0, backend=backend)


def fills_rows(mask: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    mask = mask.clone()
    mask[0, lengths[0] :] = 0
    mask[1, : lengths[1]] = 7
    mask[..., -2 : lengths[2]] = 5
    return mask * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", CountingBackend()])
def test_slices_that_end_where_tensors_say(backend: Any) -> None:
    """Ends that are negative or lie outside fill what eager fills, and each backend gets the same capture."""
    calls = [(torch.ones(2, 5), torch.tensor(ends)) for ends in ([1, 3, 4], [-2, -1, 9], [9, 0, -1])]
    assert_same_as_eager(fills_rows, *calls[0], then=calls[1:], graphs=1, breaks=0, backend=backend)
