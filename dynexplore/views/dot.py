"""A captured graph as DOT text, for graphviz: nodes with ids, grouped by the nn.Module they stand in.

Which idea lives here: a graph is drawn by others (the `dot` program, WebAssembly in the browser, layered.py); this file
only writes the text. Every node has an `id` and a `class`, which graphviz keeps in its SVG, so that a click finds the
node. Nodes of one module path stand in one cluster, clusters nest as the modules do (groups.py).

In:  the nodes of a graph (events `NodeAdded`), and which groups are closed.
Out: DOT text. It is never executed, every label is escaped, and no font but Courier is asked for (`monospace` gets
     boxes too narrow). static/explorer/dot.js writes the same text in the browser.

PyTorch's counterpart: torch/fx/passes/graph_drawer.py, which needs pydot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dynexplore.engine.events import NodeAdded
from dynexplore.views.groups import Box, Group, closed_box, drawn, grouped

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
) -> str:
    """Return the graph of `nodes` as DOT text. `horizontal` lays it out from left to right; the groups whose paths are
    `closed` are one box each; `piece_of` says in which piece of a split graph a node stands (`GraphView.piece_of`): it has
    that piece's border and class.

    >>> print(dot([NodeAdded(frame=1, graph="g", name="x", op="placeholder", target="x")], name="g"))
    digraph "g" {
      graph [rankdir="TB", bgcolor="transparent", fontname="Courier", compound=true];
      node [shape="box", style="rounded,filled", fontname="Courier", fontsize=10];
      edge [fontname="Courier", fontsize=9];
      "x" [id="node-x", class="placeholder", label="x\\nplaceholder x", tooltip="x", fillcolor="#dbeafe"];
    }
    """
    lines = [f"digraph {_quoted(name)} {{"]
    rank = "LR" if horizontal else "TB"
    lines.append(f'  graph [rankdir="{rank}", bgcolor="transparent", fontname="Courier", compound=true];')
    lines.append('  node [shape="box", style="rounded,filled", fontname="Courier", fontsize=10];')
    lines.append('  edge [fontname="Courier", fontsize=9];')
    root = grouped(nodes)
    boxes, edges = drawn(root, closed, piece_of or {})
    lines += _cluster_lines(root, boxes, closed, "  ")
    for source, target in edges:
        lines.append(f"  {_quoted(source)} -> {_quoted(target)} [id={_quoted(f'edge-{source}-{target}')}];")
    return "\n".join([*lines, "}"])


def _cluster_lines(group: Group, boxes: dict[str, Box], closed: Collection[str], indent: str) -> list[str]:
    lines = [f"{indent}{_box(boxes[node.name])}" for node in group.nodes]
    for inner in group.inner:
        if inner.path in closed:
            lines.append(f"{indent}{_box(closed_box(inner))}")
            continue
        lines.append(f"{indent}subgraph {_quoted('cluster_' + inner.path)} {{")
        ident = _quoted("module-" + inner.path)
        style = 'style="rounded,dashed", color="#94a3b8", fontsize=10'
        lines.append(f"{indent}  graph [id={ident}, label={_quoted(inner.title)}, {style}];")
        lines += _cluster_lines(inner, boxes, closed, indent + "  ")
        lines.append(indent + "}")
    return lines


def _box(box: Box) -> str:
    attributes = {
        "id": _quoted(box.ident),
        "class": _quoted(f"{box.kind} piece-{box.piece}" if box.piece else box.kind),
        "label": _label(box.lines),
        "tooltip": _quoted(box.tooltip),
        "fillcolor": _quoted(COLOURS.get(box.kind, OTHER)),
    }
    if box.piece:
        attributes |= {"color": _quoted(PIECE_COLOURS[(box.piece - 1) % len(PIECE_COLOURS)]), "penwidth": "2"}
    return f"{_quoted(box.name)} [{', '.join(f'{key}={value}' for key, value in attributes.items())}];"


def _label(lines: Iterable[str]) -> str:
    return '"' + "\\n".join(_escaped(line) for line in lines) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Text inside a DOT string: quotes and backslashes escaped, line ends and control characters as spaces."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
