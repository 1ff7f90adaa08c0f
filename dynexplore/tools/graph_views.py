"""A live FX graph as a table and as a drawing, in the form that recordings use.

The idea: the views render records, and do not depend on torch. A minimized graph is in no recording, so its nodes are converted to
the same records here.

In: a GraphModule. Out: its nodes as events; HTML with a table and, if it is small enough to be legible, a drawing.

PyTorch's counterpart: `FxGraphDrawer` in torch/fx/passes/graph_drawer.py, and `print_tabular` in torch/fx/graph.py.
"""

from __future__ import annotations

import torch
import torch.fx

from dynexplore.engine.events import NodeAdded, clip
from dynexplore.engine.graph.qualified_names import target_text
from dynexplore.engine.translate.event_emitter import tensor_words
from dynexplore.recording.recording import GraphView
from dynexplore.views import html_report, svg

MOST_DRAWN = 60
"""The maximum number of nodes that are drawn; a larger graph is only a table."""


def graph_view(graph: torch.fx.GraphModule, name: str) -> GraphView:
    """The graph in the form that views use."""
    return GraphView(name, 0, 0, tuple(_node(node, name) for node in graph.graph.nodes), None)


def _node(node: torch.fx.Node, graph: str) -> NodeAdded:
    dtype, shape, device = tensor_words(node.meta.get("example_value", node.meta.get("val")))
    return NodeAdded(
        frame=0,
        graph=graph,
        name=node.name,
        op=node.op,
        target=target_text(node),
        args=clip(str(node.args)),
        kwargs=clip(str(node.kwargs)),
        inputs=tuple(entry.name for entry in node.all_input_nodes),
        dtype=dtype,
        shape=shape,
        device=device,
    )


def graph_html(graph: torch.fx.GraphModule, name: str) -> str:
    """The graph as a table and, if it is small enough, a drawing."""
    view = graph_view(graph, name)
    header = ("opcode", "name", "target", "args", "kwargs", "result")
    cells = [(node.op, node.name, node.target, node.args, node.kwargs, f"{node.dtype}{node.shape}") for node in view.nodes]
    return html_report.rows(header, cells) + _drawing(view)


def _drawing(view: GraphView) -> str:
    if len(view.nodes) > MOST_DRAWN:
        return html_report.line(f"{len(view.nodes)} nodes are too many for a readable drawing")
    return html_report.drawing(svg.svg([view], note=f"the graph {view.name} as a drawing"))
