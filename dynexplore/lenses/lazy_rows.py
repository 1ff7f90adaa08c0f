"""The text dump of a lazy-tensor graph in the row format that all methods share.

The idea: the lazy backend exposes its graph only as text, one line per node: `%5 = [Float[4,4]] aten::mm(%4, %3),
NodeType=...`. The inputs are the nodes for data on the device: arguments, parameters and Python numbers alike, because a
deferred graph does not record where its data came from. Nodes are in the order in which the results need them, not in program
order.

In: the text that `torch._C._lazy._get_tensors_text` returns. Out: a `Graph`. PyTorch's counterpart:
torch/csrc/lazy/core/ir_dump_util.cpp, which writes this text.
"""

from __future__ import annotations

import re

from dynexplore.engine.events import NodeAdded, clip
from dynexplore.lenses.operators import of_nodes
from dynexplore.lenses.outcome import Graph

_LINE = re.compile(r"^\s*%(\d+) = \[(.*?)\] ([\w:]+)\(([^)]*)\)(.*)$")
_RESULT = re.compile(r"^(\w+)\[([\d,]*)\]")
_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
           "Bool": "bool", "Byte": "uint8"}  # fmt: skip


def graph_of(dump: str, name: str) -> Graph:
    """The rows of a dumped graph.

    >>> text = "IR {\\n  %0 = [Float[2]] lazy_tensors::device_data(), device=CPU0\\n  %1 = [Float[2]] aten::abs(%0), ROOT=0\\n}"
    >>> graph = graph_of(text, "lazy")
    >>> [(row.op, row.name, row.shape) for row in graph.nodes], graph.operators
    ([('placeholder', 'device_data', '[2]'), ('call_function', 'abs', '[2]'), ('output', 'output', '')], ('abs',))
    """
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    rows: list[NodeAdded] = []
    roots: list[str] = []
    for line in dump.splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        number, result, target, inputs, more = match.groups()
        word = target.split("::")[-1]
        count = counts[word] = counts.get(word, -1) + 1
        names[number] = f"{word}_{count}" if count else word
        rows.append(_row(name, names[number], target, result, [names[used] for used in re.findall(r"%(\d+)", inputs)], more))
        if "ROOT=" in more:
            roots.append(names[number])
    rows.append(
        NodeAdded(
            frame=0, graph=name, name="output", op="output", target="output", args=f"({', '.join(roots)})", inputs=tuple(roots)
        )
    )
    return Graph(name, tuple(rows), of_nodes(rows), in_order=False)


def _row(graph: str, name: str, target: str, result: str, inputs: list[str], more: str) -> NodeAdded:
    match = _RESULT.match(result)
    attributes = [part for part in more.strip(", ").split(", ") if part and not part.startswith(("NodeType", "ROOT", "device=CPU"))]
    return NodeAdded(
        frame=0,
        graph=graph,
        name=name,
        op="placeholder" if target.endswith("device_data") else "call_function",
        target=target,
        args=clip(f"({', '.join(inputs)})") if inputs else "",
        kwargs=clip("{" + ", ".join(attributes) + "}") if attributes else "",
        inputs=tuple(inputs),
        dtype=_DTYPES.get(match[1], match[1].lower()) if match else "",
        shape=f"[{match[2].replace(',', ', ')}]" if match else "",
    )
