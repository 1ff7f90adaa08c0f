"""A captured graph as DOT text, for graphviz: nodes with ids, grouped by the nn.Module they stand in.

Which idea lives here: a graph is drawn by others (the `dot` program, WebAssembly in the browser, a fallback); this file
only writes the text. Every node has an `id` and a `class`, which graphviz keeps in its SVG, so that a click finds the
node. Nodes of one module path stand in one cluster, clusters nest as the modules do.

In:  the nodes of a graph (events `NodeAdded`).
Out: DOT text. It is never executed, every label is escaped, and no font but Courier is asked for (`monospace` gets
     boxes too narrow).

PyTorch's counterpart: torch/fx/passes/graph_drawer.py, which needs pydot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dynexplore.engine.events import NodeAdded, clip

COLOURS = {
    "placeholder": "#dbeafe",
    "get_attr": "#e0e7ff",
    "call_function": "#dcfce7",
    "call_method": "#dcfce7",
    "call_module": "#fef9c3",
    "output": "#fee2e2",
}
"""Fill colour by FX opcode."""


@dataclass(slots=True)
class _Cluster:
    """The nodes directly in one module, and the modules inside it."""

    path: str
    nodes: list[NodeAdded] = field(default_factory=list)
    inner: dict[str, _Cluster] = field(default_factory=dict)


PIECE_COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2")
"""Border colours of the pieces that a graph was split into, over and over."""


def dot(
    nodes: Sequence[NodeAdded], *, name: str = "graph", horizontal: bool = False, piece_of: Mapping[str, int] | None = None
) -> str:
    """Return the graph of `nodes` as DOT text. `horizontal` lays it out from left to right; `piece_of` says in which piece
    of a split graph a node stands (`GraphView.piece_of`): it has that piece's border and class.

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
    lines += _cluster_lines(_clusters(nodes), "  ", piece_of or {})
    known = {node.name for node in nodes}
    for node in nodes:
        for source in dict.fromkeys(node.inputs):
            if source in known:
                edge = _quoted(f"edge-{source}-{node.name}")
                lines.append(f"  {_quoted(source)} -> {_quoted(node.name)} [id={edge}];")
    return "\n".join([*lines, "}"])


def _clusters(nodes: Iterable[NodeAdded]) -> _Cluster:
    root = _Cluster("")
    for node in nodes:
        at = root
        path = ""
        for part in node.module.split(".") if node.module else ():
            path = f"{path}.{part}" if path else part
            at = at.inner.setdefault(part, _Cluster(path))
        at.nodes.append(node)
    return root


def _cluster_lines(cluster: _Cluster, indent: str, piece_of: Mapping[str, int]) -> list[str]:
    lines = [f"{indent}{_node(node, piece_of.get(node.name, 0))}" for node in cluster.nodes]
    for part, inner in cluster.inner.items():
        lines.append(f"{indent}subgraph {_quoted('cluster_' + inner.path)} {{")
        ident = _quoted("module-" + inner.path)
        style = 'style="rounded,dashed", color="#94a3b8", fontsize=10'
        lines.append(f"{indent}  graph [id={ident}, label={_quoted(part)}, {style}];")
        lines += _cluster_lines(inner, indent + "  ", piece_of)
        lines.append(indent + "}")
    return lines


def _node(node: NodeAdded, piece: int) -> str:
    label = [node.name, clip(f"{node.op} {node.target}", 60)]
    if node.dtype or node.shape:
        label.append(f"{node.dtype}{node.shape}")
    if node.op == "output":
        label = ["output"]
    attributes = {
        "id": _quoted(f"node-{node.name}"),
        "class": _quoted(f"{node.op} piece-{piece}" if piece else node.op),
        "label": _label(label),
        "tooltip": _quoted(clip(f"{node.target}{node.args}" if node.args else node.target, 200)),
        "fillcolor": _quoted(COLOURS.get(node.op, "#f1f5f9")),
    }
    if piece:
        label.append(f"piece {piece}")
        border = PIECE_COLOURS[(piece - 1) % len(PIECE_COLOURS)]
        attributes |= {"label": _label(label), "color": _quoted(border), "penwidth": "2"}
    return f"{_quoted(node.name)} [{', '.join(f'{key}={value}' for key, value in attributes.items())}];"


def _label(lines: Iterable[str]) -> str:
    return '"' + "\\n".join(_escaped(line) for line in lines) + '"'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Text inside a DOT string: quotes and backslashes escaped, line ends and control characters as spaces."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
