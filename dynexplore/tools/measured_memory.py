"""What operators take inside while they run, measured where a graph runs on a GPU.

The idea: graph_memory.py knows from the fake values of a graph what lives at each node, but not what an operator takes and gives
back before it ends: the workspace of a convolution, the parts of a composite kernel. Only the allocator of the GPU sees these. So
the first run of each half of a graph reads it around each operator, and the memory is told again, with what was seen. Later runs
read nothing.

The allocator keeps one highest count a device, which starts anew at each operator: `torch.cuda.max_memory_allocated()` forgets what
was before. That is why nothing is measured unless the artifact "memory" is asked for.

In:  a forward or a backward graph of AOTAutograd. Out: a callable that runs it, and once tells {node: bytes taken inside}.

PyTorch's counterpart: the memory snapshots of torch.cuda.memory, which record each allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

Compiled = Callable[[list[Any]], Any]
"""A compiled half in torch's *boxed* form: it takes a list, which it empties as it runs."""


class Allocator:
    """The counts of the allocators of some devices, in bytes over all of them."""

    def __init__(self, devices: set[torch.device]) -> None:
        self.devices = devices

    def live(self) -> int:
        """What is allocated now."""
        return sum(torch.accelerator.memory_allocated(device) for device in self.devices)

    def highest(self) -> int:
        """The most that was allocated at a time since `restart`."""
        return sum(torch.accelerator.max_memory_allocated(device) for device in self.devices)

    def restart(self) -> None:
        """Count the highest from now on."""
        for device in self.devices:
            torch.accelerator.reset_peak_memory_stats(device)


def allocator_of(graph: torch.fx.Graph) -> Allocator | None:
    """The allocators that a graph's values come from; None where all of them are on the CPU, which counts nothing."""
    values = (leaf for node in graph.nodes for leaf in tree_leaves(node.meta.get("val")))
    devices = {value.device for value in values if isinstance(value, torch.Tensor)}
    counted = {device for device in devices if device.type not in ("cpu", "meta")}
    return Allocator(counted) if counted else None


def measured_once(
    module: torch.fx.GraphModule, compiled: Compiled, allocator: Allocator, tell: Callable[[dict[str, int]], None]
) -> Compiled:
    """Run a graph as `compiled` does; the first time operator by operator, with the allocator read around each."""
    pending = [_Measuring(module, allocator)]

    def run(args: list[Any]) -> Any:
        if not pending:
            return compiled(args)
        measuring = pending.pop()
        results = measuring.boxed_run(args)
        tell(measuring.inside)
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _Measuring(torch.fx.Interpreter):
    """Runs a graph and notes of each operator what it took beside what it found and what it leaves."""

    def __init__(self, module: torch.fx.GraphModule, allocator: Allocator) -> None:
        super().__init__(module)
        self.allocator = allocator
        self.inside: dict[str, int] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op in ("placeholder", "get_attr", "output"):
            return super().run_node(n)
        self.allocator.restart()
        result = super().run_node(n)
        self.inside[n.name] = max(self.allocator.highest() - self.allocator.live(), 0)
        return result
