"""Kernels: the loops that Inductor generates, extracted from its code, and drawn with their memory reads and writes.

The idea: a kernel is one pass over memory. The number of kernels, and of their reads and writes, determines the speed of a program
more than anything else, since memory is slower than arithmetic: fusing two operators into one kernel saves a write and a read of
everything between them.

In: the text of a module that Inductor generated, or the nodes of its scheduler after fusion. Out: `Kernel`s; DOT text.

PyTorch's counterpart: `run_and_get_kernels` in torch/_inductor/utils.py, and `draw_buffers` in torch/_inductor/debug.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.views import dot


@dataclass(frozen=True, slots=True)
class Kernel:
    """A generated kernel: its name, "C++" or "Triton", and its text."""

    name: str
    language: str
    text: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The arguments whose memory it loads from: ("in_ptr0",)."""
        stored = self._stored()
        body = self._body()
        return tuple(name for name in dict.fromkeys(_POINTER.findall(body)) if _count(name, body) > stored.count(name))

    @property
    def writes(self) -> tuple[str, ...]:
        """The arguments whose memory it stores to: ("out_ptr0",)."""
        return tuple(dict.fromkeys(self._stored()))

    def _body(self) -> str:
        """The part after the function's signature, which names every argument."""
        head = re.search(r"def \w+\(.*?\):|void\s+kernel\(.*?\)\s*\{", self.text, re.DOTALL)
        return self.text[head.end() :] if head else self.text

    def _stored(self) -> list[str]:
        return [first or second for first, second in _STORED.findall(self._body())]


_POINTER = re.compile(r"\b(?:in|out|in_out)_ptr\d+\b")
_STORED = re.compile(r"(?:\.store|tl\.store)\(\s*((?:in_)?out_ptr\d+)\b|\b((?:in_)?out_ptr\d+)\[[^\]]*\]\s*[+*|&]?=(?!=)")
"""`tmp1.store(out_ptr0 + ...)`, `tl.store(out_ptr0 + ...)`, `out_ptr0[...] = ...`."""


def _count(name: str, text: str) -> int:
    return len(re.findall(rf"\b{name}\b", text))


_IN_CODE = re.compile(r"^(\w+) = async_compile\.(cpp\w*|triton)\(.*?'''(.*?)'''", re.DOTALL | re.MULTILINE)


def kernels_of(code: str) -> list[Kernel]:
    """The kernels in a module that Inductor generated, in order.

    >>> [kernel.name for kernel in kernels_of("k = async_compile.triton('k', '''pass''', device_str='cuda')")]
    ['k']
    """
    return [
        Kernel(name, "Triton" if how == "triton" else "C++", _with_name(name, text.strip()))
        for name, how, text in _IN_CODE.findall(code)
    ]


def _with_name(name: str, text: str) -> str:
    """The text under the name that the module calls it by: in C++ every kernel is called `kernel`."""
    comment = "#" if "import triton" in text else "//"
    return f"{comment} {name}\n{text}"


def fused_dot(nodes: Sequence[Any]) -> str:
    """The scheduler's nodes as DOT: a box for each kernel with its operators, an edge for each buffer."""
    graph = dot.digraph("kernels", rankdir="TB", node_colour=dot.COLOURS["call_function"])
    writer = {name: node.get_name() for node in nodes for name in _names(node.read_writes.writes)}
    outside = dict.fromkeys(name for node in nodes for name in _names(node.read_writes.reads) if name not in writer)
    for name in outside:
        graph.node(dot.identifier(name), label=dot.literal(name), fillcolor=dot.COLOURS["placeholder"])
    for node in nodes:
        label = dot.literal(_label(node))
        graph.node(dot.identifier(node.get_name()), label=label, tooltip=label)
        for name in dict.fromkeys(_names(node.read_writes.reads)):
            source = writer.get(name, name)
            if source != node.get_name():
                graph.edge(dot.identifier(source), dot.identifier(node.get_name()), label=dot.literal(name))
    return dot.text_of(graph)


def _names(dependencies: Iterable[Any]) -> list[str]:
    """The buffer names of a set of dependencies, in a fixed order."""
    return sorted(dependency.name for dependency in dependencies)


def _label(node: Any) -> str:
    """The ATen operators of a kernel: `cos, cos`."""
    operators = [origin for part in node.get_nodes() for origin in _origins(part)]
    return f"{node.get_name()}: {', '.join(operators)}" if operators else str(node.get_name())


def _origins(part: Any) -> list[str]:
    origins = getattr(part.node, "origins", ())
    return sorted(str(origin.name) for origin in origins if origin.op != "placeholder")
