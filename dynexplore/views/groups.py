"""The nodes of a graph in collapsible groups, as a drawing shows them.

The idea: a graph of 2,000 nodes is readable only by module. Groups nest as the modules do; a group with many direct nodes is
split into blocks of consecutive nodes. A collapsed group is drawn as one box, and edges lead to the box. In a large graph,
groups are initially collapsed as far as necessary to fit on a page.

In: the nodes of a graph (events `NodeAdded`). Out: `grouped` -> the tree of groups; `start_closed` -> the initially collapsed
ones; `drawn` -> boxes and edges, for dot.py and svg.py. The browser receives the tree with the page's data, and
static/explorer/groups.js computes the boxes while groups are expanded and collapsed (a test keeps the drawings equal).
PyTorch's counterpart: none; torch/fx/passes/graph_drawer.py draws all nodes flat.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dynexplore.engine.events import NodeAdded, clip
from dynexplore.views.counts import plural
from dynexplore.views.names import module_path

BLOCK = 40
"""The size of a block: a group with more than one and a half times as many direct nodes is split."""

PAGE = 80
"""The most boxes that are drawn before the user expands a group."""

MOST = 400
"""The most boxes that are drawn when all groups are expanded: with more, drawing takes many seconds."""


@dataclass(slots=True)
class Group:
    """The nodes directly in a module or in a block, and the nested groups. `path` is "" for the whole graph.

    `first` is the index of its first node.
    """

    path: str
    title: str = ""
    first: int = 0
    nodes: list[NodeAdded] = field(default_factory=list)
    inner: list[Group] = field(default_factory=list)

    def within(self) -> Iterator[NodeAdded]:
        """All nodes of the group and of its nested groups."""
        yield from self.nodes
        for group in self.inner:
            yield from group.within()


@dataclass(frozen=True, slots=True)
class Box:
    """A node, or a collapsed group; `kind` is the FX opcode, or "closed", `piece` the piece of a split graph that it belongs to.

    `first` is the index of a collapsed group's first node.
    """

    name: str
    ident: str
    kind: str
    lines: tuple[str, ...]
    tooltip: str
    piece: int = 0
    first: int = -1


class Edge(NamedTuple):
    """An edge between two boxes, labeled with the dtype and shape of its value (if several: the first and a count)."""

    source: str
    target: str
    flow: str


def grouped(nodes: Sequence[NodeAdded]) -> Group:
    """The whole graph as a group."""
    root = Group("")
    group_of = {"": root}
    numbers = {node.name: number for number, node in enumerate(nodes)}
    for node in nodes:
        path = ""
        at = root
        for part in node.module.split(".") if node.module else ():
            path = f"{path}.{part}" if path else part
            if path not in group_of:
                group_of[path] = Group(path, module_path(path) if at is root else part, numbers[node.name])
                at.inner.append(group_of[path])
            at = group_of[path]
        at.nodes.append(node)
    for group in group_of.values():
        _cut(group, numbers)
    return root


def _cut(group: Group, numbers: Mapping[str, int]) -> None:
    """Split a group with many nodes into blocks."""
    if 2 * len(group.nodes) <= 3 * BLOCK:
        return
    for start in range(0, len(group.nodes), BLOCK):
        block = group.nodes[start : start + BLOCK]
        title = f"{block[0].name} ... {block[-1].name}"
        group.inner.append(Group(f"{group.path}#{start}", title, numbers[block[0].name], block))
    group.nodes = []


def start_closed(root: Group, most: int = PAGE) -> set[str]:
    """The paths of the groups that are initially collapsed: groups are expanded from the outside in, as long as the boxes are at
    most `most`.
    """
    closed: set[str] = set()
    count = len(root.nodes) + len(root.inner)
    waiting = list(root.inner)
    while waiting:
        group = waiting.pop(0)
        more = len(group.nodes) + len(group.inner) - 1
        if count + more > most:
            closed.add(group.path)
        else:
            count += more
            waiting += group.inner
    return closed


def drawn(
    root: Group,
    closed: Collection[str],
    piece_of: Mapping[str, int] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> tuple[dict[str, Box], list[Edge]]:
    """The boxes by the name that edges use, in tree order, and the edges between them, each once.

    A node's result type is shown on the edges to its users; in its box only if it has no users. `inputs` are the program's names
    for graph inputs (`names.input_names`).
    """
    read = {source for node in root.within() for source in node.inputs}
    boxes: dict[str, Box] = {}
    standing: dict[str, str] = {}  # node -> the box that contains it

    def collect(group: Group) -> None:
        for node in group.nodes:
            called, piece = (inputs or {}).get(node.name, ""), (piece_of or {}).get(node.name, 0)
            boxes[node.name] = _node_box(node, piece, called, is_read=node.name in read)
            standing[node.name] = node.name
        for inner in group.inner:
            if inner.path not in closed:
                collect(inner)
                continue
            box = closed_box(inner)
            boxes[box.name] = box
            standing.update(dict.fromkeys((node.name for node in inner.within()), box.name))

    collect(root)
    return boxes, _edges(root, standing)


def _edges(root: Group, standing: Mapping[str, str]) -> list[Edge]:
    """The edges between boxes; `standing` maps a node to its box."""
    results = {node.name: short_type(f"{node.dtype}{node.shape}") for node in root.within()}
    flows: dict[tuple[str, str], dict[str, None]] = {}
    for node in root.within():
        for source in node.inputs:
            start, end = standing.get(source), standing[node.name]
            if start is not None and start != end:
                flow = flows.setdefault((start, end), {})
                if results[source]:
                    flow[results[source]] = None
    return [Edge(start, end, _several(list(flow))) for (start, end), flow in flows.items()]


def _several(results: Sequence[str]) -> str:
    """The label of an edge between groups: the first of several kinds of tensors, and the number of others."""
    more = f" +{len(results) - 1}" if len(results) > 1 else ""
    return results[0] + more if results else ""


def short_type(result: str) -> str:
    """A dtype and shape in the short form of edge labels.

    >>> short_type("bfloat16[2, 4]"), short_type("int64[]"), short_type("uint8[3]"), short_type("bool[]")
    ('bf16[2, 4]', 'i64[]', 'u8[3]', 'bool[]')
    """
    return _LONG_TYPE.sub(lambda name: _SHORT_TYPES[name[1]] + name[2], result)


_LONG_TYPE = re.compile(r"^(float|bfloat|int|uint|complex)(\d+)")
_SHORT_TYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def _node_box(node: NodeAdded, piece: int, called: str, *, is_read: bool) -> Box:
    lines = [clip(called, 60), node.op] if called else [node.name, clip(f"{node.op} {node.target}", 60)]
    if (node.dtype or node.shape) and not is_read:
        lines.append(short_type(f"{node.dtype}{node.shape}"))
    if node.op == "output":
        lines = ["output"]
    if piece:
        lines.append(f"piece {piece}")
    tooltip = clip(f"{node.target}{node.args}" if node.args else node.target, 200)
    return Box(node.name, f"node-{node.name}", node.op, tuple(lines), tooltip, piece)


def closed_box(group: Group) -> Box:
    """The box of a collapsed group."""
    lines = group.title, plural(sum(1 for _ in group.within()), "node")
    tooltip = group.title if "#" in group.path else group.path
    return Box(f"module:{group.path}", f"module-{group.path}", "closed", lines, tooltip, first=group.first)
