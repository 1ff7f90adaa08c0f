"""The self-check: whether the engine works under this torch and this Python at all.

The idea: five small programs, each of which fails for a different reason: the frame hook, one graph, one graph break, one guard,
one recompile. It runs in a separate process, because a hook that does not match its interpreter crashes.

In: `python -m dynexplore.tools.self_check`, which torch_versions.py runs under an untested version of torch.
Out: a line "NAME ok" for each check that passed; the first that fails ends the process with its exception.

PyTorch's counterpart: none; `torch.utils.collect_env` only prints versions.
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


# Compiled from text: functions in the engine's own files are not captured.
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
    """One of the programs under the engine, with its captured graphs: call `optimized`."""

    def __init__(self, name: str) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self._plain = _PROGRAMS[name]
        self.optimized = optimize(self._keep)(_PROGRAMS[name])

    def _keep(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs.append(graph)
        forward: Callable[..., Any] = graph.forward
        return forward

    def check(self, x: torch.Tensor, graphs: int) -> None:
        """Call it with `x`: the result equals eager's, and there are `graphs` graphs so far."""
        result, expected = self.optimized(x), self._plain(x)
        _expect("the result", result.tolist(), expected.tolist())
        _expect("the number of graphs", len(self.graphs), graphs)


def check_hook() -> None:
    """A call inside an optimized function reaches the engine, which captures part of it."""
    captured = _Captured("arithmetic")
    captured.optimized(_ONES)
    _expect("whether the engine saw the call", bool(captured.graphs), True)


def check_graph() -> None:
    """The graph contains the operators of the function, in order."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    _expect("the operators", sum(node.op == "call_function" for node in captured.graphs[0].graph.nodes), 3)


def check_break() -> None:
    """A data-dependent branch ends a graph, and the taken branch becomes another one."""
    captured = _Captured("branch")
    captured.check(_ONES, graphs=2)
    captured.check(-_ONES, graphs=3)


def check_guard() -> None:
    """A second call with an equivalent input compiles nothing."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    captured.check(-_ONES, graphs=1)


def check_recompile() -> None:
    """Another dtype compiles another graph, and the first is kept."""
    captured = _Captured("arithmetic")
    captured.check(_ONES, graphs=1)
    captured.check(_ONES.double(), graphs=2)
    captured.check(_ONES, graphs=2)


def _expect(label: str, present: object, expected: object) -> None:
    if present != expected:
        raise RuntimeError(f"{label} should be {expected}, but is {present}")


_RUN: dict[str, Callable[[], None]] = {
    "import": lambda: None,  # all of this file's imports have succeeded
    "hook": check_hook,
    "graph": check_graph,
    "break": check_break,
    "guard": check_guard,
    "recompile": check_recompile,
}


def main() -> None:
    """Run all checks in order; print which passed."""
    with config.patch(raise_engine_errors=True, disable=False, log_level="ERROR", debug=False, logs=()):
        for name in CHECKS:
            _RUN[name]()
            print(f"{name} ok", flush=True)


if __name__ == "__main__":
    main()
