"""tools/graph_views.py: a live graph as a table and as a drawing."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from dynexplore.tools.graph_views import MOST_DRAWN, graph_html, graph_view


@pytest.mark.plain("shows graphs made by hand")
def test_table_and_drawing() -> None:
    """Every node with its target; one picture."""
    graph = torch.fx.symbolic_trace(lambda x: torch.tanh(x + 1))
    view = graph_view(graph, "before")
    assert [(node.op, node.target) for node in view.nodes][1:3] == [
        ("call_function", "operator.add"),
        ("call_function", "torch.tanh"),
    ]
    assert view.op_count == 2 and view.nodes[2].inputs == ("add",)
    page = graph_html(graph, "before")
    assert "torch.tanh" in page and 'alt="the graph before as a drawing"' in page


@pytest.mark.plain("shows graphs made by hand")
def test_a_large_graph_is_a_table() -> None:
    """It says why it is not drawn."""

    def long(x: torch.Tensor) -> torch.Tensor:
        for _ in range(MOST_DRAWN):
            x = x + 1
        return x

    assert "<img" not in (page := graph_html(torch.fx.symbolic_trace(long), "g")) and "too many for a readable drawing" in page
