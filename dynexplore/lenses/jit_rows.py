"""A TorchScript graph in the row format that all methods share.

The idea: a TorchScript graph is a small program: constants and lists are nodes, `if` and loops contain blocks of nodes. Here
constants and literal lists appear where they are used, as in FX, and the nodes of a block form a group named after it, as the
nodes of a module do.

In: the `graph` (or `inlined_graph`) of a ScriptFunction or ScriptModule. Out: a `Graph`. PyTorch's counterpart:
torch/utils/tensorboard/_pytorch_graph.py, and the printer in torch/csrc/jit/ir/ir.cpp.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from dynexplore.engine.events import NodeAdded, clip
from dynexplore.lenses.operators import of_nodes
from dynexplore.lenses.outcome import Graph

_PLACE = re.compile(r"# (\S+):(\d+):\d+\s*$")
_LITERALS = {"prim::ListConstruct": "[{}]", "prim::TupleConstruct": "({})", "prim::DictConstruct": "dict({})"}
_TENSOR = re.compile(r"^(\w+)\(([\d, ]*)")


def graph_of(graph: Any, name: str) -> Graph:
    """The rows of a TorchScript graph."""
    reader = _Reader(name)
    for value in graph.inputs():
        if not value.type().str().startswith("__torch__"):  # the module itself
            reader.add("placeholder", value.debugName().split(".")[0], value.debugName(), value)
        else:
            reader.words[value.debugName()] = "self"
    reader.block(graph.nodes(), "")
    ends = [reader.word(value) for value in graph.outputs()]
    reader.rows.append(_output(name, ends, reader.behind(graph.outputs())))
    return Graph(name, tuple(reader.rows), of_nodes(row for row in reader.rows if row.name not in reader.plain))


def _output(graph: str, ends: list[str], inputs: tuple[str, ...]) -> NodeAdded:
    text = clip(f"({', '.join(ends)})")
    return NodeAdded(frame=0, graph=graph, name="output", op="output", target="output", args=text, inputs=inputs)


class _Reader:
    """Converts nodes to rows or, for literals, to text in the rows that use them."""

    def __init__(self, graph: str) -> None:
        self.graph = graph
        self.rows: list[NodeAdded] = []
        self.words: dict[str, str] = {}
        self.nodes: dict[str, tuple[str, ...]] = {}  # the rows that a literal consists of
        self.plain: set[str] = set()  # rows whose result is not a tensor
        self.names: dict[str, int] = {}

    def word(self, value: Any) -> str:
        """The text of a value where it is used."""
        name = str(value.debugName())
        return self.words.get(name, name)

    def behind(self, values: Any) -> tuple[str, ...]:
        """The rows that produce these values."""
        rows = [row for value in values for row in self.nodes.get(value.debugName(), ())]
        return tuple(dict.fromkeys(rows))

    def block(self, nodes: Any, path: str) -> None:
        """Convert the nodes of one block."""
        for node in nodes:
            kind, outputs = node.kind(), list(node.outputs())
            if kind == "prim::Constant" or kind in _LITERALS or kind == "prim::ListUnpack" or kind == "prim::TupleUnpack":
                self._literal(node, kind, outputs)
            else:
                self._operation(node, kind, outputs, path)

    def _literal(self, node: Any, kind: str, outputs: list[Any]) -> None:
        inputs = list(node.inputs())
        for number, output in enumerate(outputs):
            self.nodes[output.debugName()] = self.behind(inputs)
            if kind == "prim::Constant":
                word = repr(output.toIValue()) if output.toIValue() is not None else "None"
            elif kind in _LITERALS:
                word = _LITERALS[kind].format(", ".join(map(self.word, inputs)))
            else:
                word = f"{self.word(inputs[0])}[{number}]"
            self.words[output.debugName()] = clip(word.replace("\n", " "), 80)

    def _operation(self, node: Any, kind: str, outputs: list[Any], path: str) -> None:
        inputs = list(node.inputs())
        if kind == "prim::GetAttr":
            owner = self.word(inputs[0])
            attribute = node.s("name") if owner == "self" else f"{owner}.{node.s('name')}"
            self.words[outputs[0].debugName()] = attribute
            if "Tensor" in outputs[0].type().str() or _TENSOR.match(str(outputs[0].type())):
                self.add("get_attr", attribute.replace(".", "_"), attribute, outputs[0], path=path)
            return
        name = kind.split("::")[-1]
        op = "call_method" if kind == "prim::CallMethod" else "call_function"
        target = node.s("name") if op == "call_method" else kind
        words = f"({', '.join(map(self.word, inputs))})"
        row = self.add(op, name, target, outputs[0] if outputs else None, words, self.behind(inputs), path, str(node))
        for output in outputs[1:]:
            self.words[output.debugName()], self.nodes[output.debugName()] = row, (row,)
        for number, inner in enumerate(node.blocks()):
            part = ("then", "else")[number] if kind == "prim::If" else "body"
            for value in inner.inputs():
                self.words[value.debugName()], self.nodes[value.debugName()] = value.debugName(), (row,)
            self.block(inner.nodes(), f"{path}.{row}_{part}".strip("."))
            self._gives(row, part, list(inner.outputs()))

    def _gives(self, name: str, part: str, results: list[Any]) -> None:
        """Map the results of a block to the results of its `if` or loop."""
        place = next(place for place, row in enumerate(self.rows) if row.name == name)
        row = self.rows[place]
        inputs = tuple(dict.fromkeys([*row.inputs, *self.behind(results)]))
        words = f"{row.args} {part} ({', '.join(map(self.word, results))})"
        self.rows[place] = replace(row, inputs=tuple(used for used in inputs if used != name), args=clip(words))

    def add(self, op: str, name: str, target: str, value: Any, args: str = "", inputs: tuple[str, ...] = (), path: str = "",
            listing: str = "") -> str:  # fmt: skip
        """Add one row and return its name."""
        name = self._unique(name)
        place = _PLACE.search(listing.splitlines()[0]) if listing else None
        dtype, shape = _tensor(value)
        self.rows.append(NodeAdded(
            frame=0, graph=self.graph, name=name, op=op, target=target, args=clip(args), inputs=inputs, dtype=dtype, shape=shape,
            module=path, file=place[1] if place else "", line=int(place[2]) if place else 0,
        ))  # fmt: skip
        if value is not None:
            self.words[value.debugName()], self.nodes[value.debugName()] = name, (name,)
            if "Tensor" not in value.type().annotation_str:
                self.plain.add(name)
        else:
            self.plain.add(name)
        return name

    def _unique(self, name: str) -> str:
        count = self.names[name] = self.names.get(name, -1) + 1
        return f"{name}_{count}" if count else name


def _tensor(value: Any) -> tuple[str, str]:
    """dtype and shape, if TorchScript knows them (a traced graph does, a scripted one does not)."""
    if value is None:
        return "", ""
    kind = value.type()
    if kind.kind() != "TensorType" or kind.dtype() is None:
        return "", ""
    sizes = kind.sizes()
    return str(kind.dtype()).removeprefix("torch."), str(sizes) if sizes is not None else ""
