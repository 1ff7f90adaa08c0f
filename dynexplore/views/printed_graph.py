"""An AOTAutograd graph parsed from its printed form: inputs, nodes, the operands and size of each.

The idea: compiler artifacts are stored as text, in recordings, logs and files. The text of a graph contains everything that a
picture of it needs. A view is not a node here: its users read its base.

In: the text of a graph of ATen operators. Out: `PrintedGraph`. PyTorch's counterpart: `torch.fx.GraphModule.print_readable`
writes such texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

_HEAD = re.compile(r"def forward\(self,?(.*?)\):\n", re.DOTALL)
_INPUT = re.compile(r'(\w+): "([^"]*)"')
_NODE = re.compile(r'^ +(\w+)(?:: "([^"]*)")? = ([\w.]+)([(\[].*?)(?:;  .*)?$', re.MULTILINE)
_RETURN = re.compile(r"^ +return (.*)$", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_TENSOR = re.compile(r"([a-z]+\d+)\[([\d, ]*)\]")

_VIEWS = """
    alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze
    view _unsafe_view reshape _reshape_alias
"""
VIEWS = frozenset(_VIEWS.split())
"""ATen operators whose result is a view of their first argument."""


class PrintedGraph:
    """The nodes that compute, in order.

    Attributes: `inputs`; `reads` (the operands of each node), `operators` (the operator of each node: "cos"), `results` of the
    graph, in order, `bytes` of those whose sizes are static. `names` are the display names of the inputs, if there are as many.
    """

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        head = _HEAD.search(text)
        inputs = _INPUT.findall(head[1]) if head else []
        self.inputs = list(names) if len(names) == len(inputs) else [name for name, _ in inputs]
        self.bytes: dict[str, int] = {}
        self.reads: dict[str, tuple[str, ...]] = {}
        self.operators: dict[str, str] = {}
        self._base = {name: shown for (name, _), shown in zip(inputs, self.inputs, strict=True)}
        self._parts: dict[str, list[str]] = {}
        for (_, kind), shown in zip(inputs, self.inputs, strict=True):
            self._measure(shown, kind)
        for name, kind, target, arguments in _NODE.findall(text):
            self._node(name, kind, target, arguments)
        returned = _RETURN.findall(text)
        self.results = self._read(returned[-1] if returned else "")

    def results_of(self, node: str) -> tuple[str, ...]:
        """The results of a node: itself, or its parts if it has several."""
        return tuple(self._parts[node]) or (node,)

    def _node(self, name: str, kind: str, target: str, arguments: str) -> None:
        read = self._read(arguments)
        operator = target.split(".")[-2] if "." in target else target
        if target in self._parts:  # one of several results
            self._parts[target].append(name)
            self._base[name] = name
        elif operator in VIEWS and read:
            self._base[name] = read[0]
            return
        else:
            self._base[name], self._parts[name] = name, []
            self.reads[name], self.operators[name] = read, operator
        self._measure(name, kind)

    def _read(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._base[word] for word in _WORD.findall(text) if word in self._base))

    def _measure(self, name: str, kind: str) -> None:
        for size in _bytes(kind):
            self.bytes[name] = size


def _bytes(kind: str) -> Iterator[int]:
    """The bytes of a tensor according to its annotation; nothing if a size is a symbol.

    >>> list(_bytes("f32[512, 512]")), list(_bytes("b8[]")), list(_bytes("f32[s0]"))
    ([1048576], [1], [])
    """
    tensor = _TENSOR.fullmatch(kind)
    if tensor:
        bits = int(re.sub(r"\D", "", tensor[1]))
        yield bits // 8 * math.prod(int(size) for size in tensor[2].split(", ") if size)
