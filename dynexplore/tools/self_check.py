"""The self-check: does the engine work under this torch and this Python at all?

Which idea lives here: five small programs that would each fail for a reason of its own: the frame hook, one graph, one graph
break, one guard, one recompile. It runs in a process of its own, because a hook that does not fit its interpreter crashes.

In:  `python -m dynexplore.tools.self_check`, which torch_versions.py runs under a torch that the tests do not know.
Out: a line "NAME ok" for each check that passed; the first that fails ends the process with its exception.

PyTorch's counterpart: torch/_dynamo's `python -m torch.utils.collect_env` tells versions; nothing there checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from dynexplore.engine.config import config
from dynexplore.engine.runtime.api import optimize
from dynexplore.engine.torch_versions import CHECKS

_ONES = torch.ones(3)


# Compiled from text: code in the engine's own files is not captured.
_PROGRAMS: dict[str, Any] = {"torch": torch, "__name__": "self_check_programs"}
_SOURCE = """
def arithmetic(x):
    return torch.relu(x * 2) + 1

def branch(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1
"""
exec(compile(_SOURCE, "<dynexplore's self-check>", "exec"), _PROGRAMS)


class _Captured:
    """One of the programs under the engine, with the graphs that it made: `optimized` is to be called."""

    def __init__(self, name: str) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self._plain = _PROGRAMS[name]
        self.optimized = optimize(self._keep)(_PROGRAMS[name])

    def _keep(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    def check(self, x: torch.Tensor, graphs: int) -> None:
        """Call it with `x`: the same as plain Python, and `graphs` graphs since the beginning."""
        result, expected = self.optimized(x), self._plain(x)
        _expect("the result", result.tolist(), expected.tolist())
        _expect("the number of graphs", len(self.graphs), graphs)


def check_hook() -> None:
    """A call inside an optimized function reaches the engine, which captures something of it."""
    captured = _Captured("arithmetic")
    captured.optimized(_ONES)
    _expect("whether the engine saw the call", bool(captured.graphs), True)


def check_graph() -> None:
    """The graph holds the operators of the function, in order."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    _expect("the operators", sum(node.op == "call_function" for node in captured.graphs[0].graph.nodes), 3)


def check_break() -> None:
    """A branch on data ends a graph, and the branch that is taken becomes another one."""
    captured = _Captured("branch")
    captured.check(_ONES, graphs=2)
    captured.check(-_ONES, graphs=3)


def check_guard() -> None:
    """A second call with the same sort of input compiles nothing."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    captured.check(-_ONES, graphs=1)


def check_recompile() -> None:
    """Another dtype is another graph, and the first stays."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    captured.check(_ONES.double(), graphs=2)
    captured.check(_ONES, graphs=2)


def _expect(label: str, present: object, expected: object) -> None:
    if present != expected:
        raise RuntimeError(f"{label} should be {expected}, and is {present}")


_RUN: dict[str, Callable[[], None]] = {
    "import": lambda: None,  # all of this file's imports are done
    "hook": check_hook,
    "graph": check_graph,
    "break": check_break,
    "guard": check_guard,
    "recompile": check_recompile,
}


def main() -> None:
    """Run all checks in order; say which passed."""
    with config.patch(raise_engine_errors=True, disable=False, log_level="ERROR", debug=False, logs=()):
        for name in CHECKS:
            _RUN[name]()
            print(f"{name} ok", flush=True)


if __name__ == "__main__":
    main()
