"""A captured graph as DOT text, for graphviz: nodes with ids, grouped by the nn.Module they stand in.

Which idea lives here: a graph is drawn by others (the `dot` program, WebAssembly in the browser, svg.py); this file only
makes the text, and the package `graphviz` writes it. Every node has an `id` and a `class`, which graphviz keeps in its SVG, so
that a click finds the node. Nodes of one module path stand in one cluster, clusters nest as the modules do (groups.py). An edge
bears the dtype and shape of what goes along it.

In:  the nodes of a graph (events `NodeAdded`), and which groups are closed.
Out: DOT text. It is never executed, no text of a program is taken for markup, and no font but Courier is asked for
     (`monospace` gets boxes too narrow). static/explorer/dot.js writes the same text in the browser.

PyTorch's counterpart: torch/fx/passes/graph_drawer.py, which needs pydot.
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
"""Fill colour by FX opcode."""

OTHER = "#f1f5f9"
"""Of a closed group."""


PIECE_COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2")
"""Border colours of the pieces that a graph was split into, over and over."""


def dot(
    nodes: Sequence[NodeAdded],
    *,
    name: str = "graph",
    horizontal: bool = False,
    closed: Collection[str] = (),
    piece_of: Mapping[str, int] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> str:
    """Return the graph of `nodes` as DOT text. `horizontal` lays it out from left to right; the groups whose paths are
    `closed` are one box each; `piece_of` says in which piece of a split graph a node stands (`GraphView.piece_of`): it has
    that piece's border and class; `inputs` what the program calls inputs of the graph.

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
    """An empty graph in the style of all our drawings."""
    filled = {"fillcolor": node_colour} if node_colour else {}
    graph: graphviz.Digraph = _package().Digraph(
        literal(name),
        graph_attr={"bgcolor": "transparent", "fontname": "Courier", **graph_attributes},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "Courier", "fontsize": "10", **filled},
        edge_attr={"fontname": "Courier", "fontsize": "9"},
    )
    return graph


def _package() -> Any:
    return needed("graphviz", "Writing a graph as DOT text")


def text_of(graph: graphviz.Digraph) -> str:
    """The DOT text of a graph, without a line end."""
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
    """Text that graphviz shows as it is: no escapes, no HTML; line ends and control characters are spaces."""
    escaped: str = _package().escape("".join(letter if letter.isprintable() else " " for letter in text))
    return escaped


def identifier(name: str) -> str:
    """The name of a node. The package takes a colon in an edge for a port, and `<...>` for HTML: both are spelled out."""
    return literal(name.replace(":", "%3A").replace("<", "%3C"))
