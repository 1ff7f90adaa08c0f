"""A captured graph as DOT text for graphviz: nodes with ids, clustered by nn.Module.

The idea: drawing is left to other programs (`dot`, WebAssembly in the browser, svg.py); this file only produces the text,
through the package `graphviz`. Every node has an `id` and a `class`, which graphviz keeps in its SVG, so that a click can be
mapped to the node. Nodes of one module path form a cluster, and clusters nest as the modules do (groups.py). An edge is labeled
with the dtype and shape of its value.

In: the nodes of a graph (events `NodeAdded`), and the collapsed groups. Out: DOT text. It is never executed, text of a program
is escaped, and the only font is Courier (with `monospace` graphviz underestimates box widths). static/explorer/dot.js produces
the same text in the browser. PyTorch's counterpart: torch/fx/passes/graph_drawer.py, which needs pydot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.events import NodeAdded
from dynexplore.views.groups import Box, Group, closed_box, drawn, grouped
from dynexplore.views.packages import needed

if TYPE_CHECKING:
    import graphviz

COLOURS = {
    "placeholder": "#dbeafe",
    "get_attr": "#e0e7ff",
    "call_function": "#dcfce7",
    "call_method": "#dcfce7",
    "call_module": "#fef9c3",
    "output": "#fee2e2",
}
"""Fill color by FX opcode."""

OTHER = "#f1f5f9"
"""The fill color of a collapsed group."""


PIECE_COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2")
"""Border colors of the pieces that a graph was split into, used cyclically."""


def dot(
    nodes: Sequence[NodeAdded],
    *,
    name: str = "graph",
    horizontal: bool = False,
    closed: Collection[str] = (),
    piece_of: Mapping[str, int] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return the graph of `nodes` as DOT text. `horizontal` lays it out from left to right; groups whose paths are in `closed` are
    drawn as one box each; `piece_of` maps a node to its piece of a split graph (`GraphView.piece_of`), which sets border and
    class; `inputs` are the program's names for graph inputs.

    >>> print(dot([NodeAdded(frame=1, graph="g", name="x", op="placeholder", target="x")], name="g").splitlines()[-2].strip())
    x [class=placeholder fillcolor="#dbeafe" id="node-x" label="x\\nplaceholder x" tooltip=x]
    """
    graph = digraph(name, rankdir="LR" if horizontal else "TB", compound="true")
    root = grouped(nodes)
    boxes, edges = drawn(root, closed, piece_of, inputs)
    _fill(graph, root, boxes, closed)
    for source, target, flow in edges:
        facts = {"id": literal(f"edge-{source}-{target}")}
        if flow:
            facts["label"] = _package().nohtml(literal(flow))
        graph.edge(identifier(source), identifier(target), _attributes=facts)
    return text_of(graph)


def digraph(name: str, *, node_colour: str = "", **graph_attributes: str) -> graphviz.Digraph:
    """An empty graph in the style shared by all drawings."""
    filled = {"fillcolor": node_colour} if node_colour else {}
    graph: graphviz.Digraph = _package().Digraph(
        literal(name),
        graph_attr={"bgcolor": "transparent", "fontname": "Courier", **graph_attributes},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "Courier", "fontsize": "10", **filled},
        edge_attr={"fontname": "Courier", "fontsize": "10"},
    )
    return graph


def _package() -> Any:
    return needed("graphviz", "Writing a graph as DOT text")


def text_of(graph: graphviz.Digraph) -> str:
    """The DOT text of a graph, without a trailing newline."""
    return str(graph.source).rstrip("\n")


def _fill(graph: graphviz.Digraph, group: Group, boxes: dict[str, Box], closed: Collection[str]) -> None:
    for node in group.nodes:
        _add(graph, boxes[node.name])
    for inner in group.inner:
        if inner.path in closed:
            _add(graph, closed_box(inner))
            continue
        facts = {"id": literal("module-" + inner.path), "label": literal(inner.title)}
        style = {"style": "rounded,dashed", "color": "#94a3b8", "fontsize": "10"}
        cluster = _package().Digraph(literal("cluster_" + inner.path), graph_attr={**facts, **style})
        _fill(cluster, inner, boxes, closed)
        graph.subgraph(cluster)


def _add(graph: graphviz.Digraph, box: Box) -> None:
    attributes = {
        "id": literal(box.ident),
        "class": literal(f"{box.kind} piece-{box.piece}" if box.piece else box.kind),
        "label": _package().nohtml("\\n".join(map(literal, box.lines))),
        "tooltip": literal(box.tooltip),
        "fillcolor": COLOURS.get(box.kind, OTHER),
    }
    if box.piece:
        attributes |= {"color": PIECE_COLOURS[(box.piece - 1) % len(PIECE_COLOURS)], "penwidth": "2"}
    graph.node(identifier(box.name), _attributes=attributes)


def literal(text: str) -> str:
    """Text that graphviz shows literally: no escapes, no HTML; newlines and control characters become spaces."""
    escaped: str = _package().escape("".join(letter if letter.isprintable() else " " for letter in text))
    return escaped


def identifier(name: str) -> str:
    """The name of a node. The package interprets a colon in an edge as a port, and `<...>` as HTML, so both are escaped."""
    return literal(name.replace(":", "%3A").replace("<", "%3C"))
