"""views/printed_graph.py: a graph read back from its text."""

from __future__ import annotations

import pytest
import torch

import dynexplore
from dynexplore.tools.inductor_artifacts import inductor_artifacts
from dynexplore.views.printed_graph import VIEWS, PrintedGraph


def test_what_was_printed_is_read_back() -> None:
    """Inputs, nodes, operators, results, and bytes; a view is looked through."""
    made = inductor_artifacts(lambda x: (x.t().cos() * 2, x.view(6)), torch.ones(2, 3), backend="aot_eager", parts=("graph",))
    graph = PrintedGraph(made.find("graph"), ["x"])
    assert (graph.inputs, graph.results) == (["x"], ("mul", "x"))
    assert graph.reads == {"cos": ("x",), "mul": ("cos",)} and graph.operators == {"cos": "cos", "mul": "mul"}
    assert graph.bytes == {"x": 24, "cos": 24, "mul": 24}


@pytest.mark.plain("reads a text")
def test_another_text_is_an_empty_graph() -> None:
    """No graph, no error."""
    graph = PrintedGraph("no graph at all")
    assert (graph.inputs, graph.reads, graph.results) == ([], {}, ())


def test_every_view_is_one_for_torch() -> None:
    """The table of views names operators of ATen whose result shares its argument's memory."""
    assert dynexplore.explain(lambda x: x.view(2), torch.ones(2)).graph_count == 1
    for name in VIEWS - {"_unsafe_view", "reshape"}:
        packet = getattr(torch.ops.aten, name)
        assert any(getattr(packet, overload).is_view for overload in packet.overloads()), name
