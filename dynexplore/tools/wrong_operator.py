"""The first operator of a compiled call whose value differs from eager mode, found by bisection on its graphs.

The idea: the call runs again on copies, with its backend wrapped: each compiled graph is compared with the graph run as it is. The
first graph that differs is cut: a prefix whose only output is one operator's value is compiled and compared. As everything after a
wrong operator is usually wrong as well, a binary search needs few compilations, and keeps one intermediate value at a time. Large
values are compared by a sample and a checksum.

In: a function compiled by torch.compile, the state that its call starts from. Out: `WrongOperator`, or None.

PyTorch's counterpart: the accuracy minifier in torch/_dynamo/repro/after_dynamo.py, which removes parts of a graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.session import torch_compiled
from dynexplore.tools.accuracy import Difference, first_difference
from dynexplore.tools.graph_failure import quiet, same_random_numbers

MOST_ELEMENTS = 1 << 20
"""Larger values are compared by a sample of this many elements, and the mean of the magnitudes."""


@dataclass(frozen=True, slots=True)
class WrongOperator:
    """An operator of a graph: its node, its target, the user's line, and how its value differs."""

    node: str
    target: str
    place: str
    difference: Difference
    backend: str

    def __str__(self) -> str:
        at = f" at {self.place}" if self.place else ""
        return (
            f"First operator that differs: {self.node} ({self.target}){at}: {self.difference}. To report it: "
            f"dynexplore.minify(f, ..., backend={self.backend!r}) writes a small program."
        )


def wrong_operator(target: Any, start: CallSnapshot) -> WrongOperator | None:
    """Repeat a call on copies and search; the caller restores what the call changes."""
    backend = torch_compiled.suspected(None, target)
    search = _Search(backend)
    called = torch_compiled.compiled_anew(target, search.compile_graph)
    args, kwargs = start.fresh()
    with quiet(), same_random_numbers(backend):
        called(*args, **kwargs)
    return search.result


class _Search:
    """A backend that compares each graph, until one differs."""

    def __init__(self, backend: str | CompilerFn) -> None:
        self._backend = backend
        self.result: WrongOperator | None = None

    def compile_graph(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Compile a graph with the backend, and compare its first run."""
        compiled = self._compiled(graph, inputs)

        def run(*values: Any) -> Any:
            if self.result is not None:
                return compiled(*values)
            inputs_before = _copies(values)
            expected = graph(*_copies(inputs_before))
            actual = compiled(*values)
            if _differs(expected, actual) is not None:
                self.result = self._first_operator(graph, inputs_before)
            return actual

        return run

    def _compiled(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = resolve(self._backend)(copy.deepcopy(graph), list(inputs))
        return compiled

    def _first_operator(self, graph: torch.fx.GraphModule, values: Sequence[Any]) -> WrongOperator | None:
        """Bisect: the operators before `low` are right, the one at `high` is wrong."""
        nodes = [node for node in graph.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
        low, high, wrong = 0, len(nodes) - 1, None
        while low <= high:
            middle = (low + high) // 2
            difference = self._difference_at(graph, nodes[middle], values)
            if difference is not None:
                wrong, high = (nodes[middle], difference), middle - 1
            else:
                low = middle + 1
        if wrong is None:
            return None
        node, difference = wrong
        name = self._backend if isinstance(self._backend, str) else getattr(self._backend, "__name__", "a function")
        return WrongOperator(node.name, str(node._pretty_print_target(node.target)), _line_of(node), difference, name)

    def _difference_at(self, graph: torch.fx.GraphModule, node: torch.fx.Node, values: Sequence[Any]) -> Difference | None:
        """Compile the graph up to a node, and compare that node's value."""
        prefix = copy.deepcopy(graph)
        by_name = {each.name: each for each in prefix.graph.nodes}
        output = next(each for each in prefix.graph.nodes if each.op == "output")
        output.args = ((by_name[node.name],),)
        prefix.graph.eliminate_dead_code()
        prefix.recompile()
        expected = prefix(*_copies(values))
        if not all(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(expected)):
            return None
        return _differs(expected, self._compiled(prefix, values)(*_copies(values)))


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copies of the inputs of a graph; parameters stay, because no operator may change them outside of no_grad."""
    return [
        value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
        else value
        for value in values
    ]


def _differs(expected: Sequence[Any], actual: Sequence[Any]) -> Difference | None:
    pairs = zip(expected, actual, strict=True)
    reduced = ((tree_map(_reduced, reference), tree_map(_reduced, candidate)) for reference, candidate in pairs)
    differences = (first_difference(reference, candidate) for reference, candidate in reduced)
    return next(filter(None, differences), None)


def _reduced(value: Any) -> Any:
    """A large value as a sample of its elements, and the mean of their magnitudes."""
    if not isinstance(value, torch.Tensor) or value.numel() <= MOST_ELEMENTS:
        return value
    flat = value.detach().flatten()
    precise = flat.to(torch.complex128 if flat.is_complex() else torch.float64)
    return [flat[:: -(-flat.numel() // MOST_ELEMENTS)], precise.abs().mean()]


def _line_of(node: torch.fx.Node) -> str:
    """The user's line, from torch's stack trace of the node."""
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    if not lines:
        return ""
    file, _, rest = lines[-1].removeprefix('File "').partition('", line ')
    return f"{file.rpartition('/')[2]}:{rest.partition(',')[0]}"
