"""Measurement of the operators' temporary memory, for graphs that run on a GPU.

The idea: graph_memory.py derives from the fake values of a graph what is live at each node, but not the memory that an operator
allocates and frees while it runs: the workspace of a convolution, the parts of a composite kernel. Only the GPU's allocator knows
these. So the first run of each forward or backward graph reads the allocator around each operator, and the memory is recorded
again, with the measured values. Later runs read nothing.

The allocator keeps one peak counter per device, which is reset at each operator, so that `torch.cuda.max_memory_allocated()` loses
its earlier value. Therefore nothing is measured unless the artifact "memory" is requested.

In: a forward or a backward graph of AOTAutograd. Out: a callable that runs it, and once reports {node: temporary bytes}.

PyTorch's counterpart: `memory_snapshot` in torch/cuda/memory.py, which records each allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

Compiled = Callable[[list[Any]], Any]
"""A compiled graph in torch's *boxed* form: it takes a list, which it empties as it runs."""


class Allocator:
    """The counters of some devices' allocators, summed over all of them, in bytes."""

    def __init__(self, devices: set[torch.device]) -> None:
        self.devices = devices

    def live(self) -> int:
        """The bytes that are allocated now."""
        return sum(torch.accelerator.memory_allocated(device) for device in self.devices)

    def highest(self) -> int:
        """The peak since `restart`."""
        return sum(torch.accelerator.max_memory_allocated(device) for device in self.devices)

    def restart(self) -> None:
        """Reset the peak."""
        for device in self.devices:
            torch.accelerator.reset_peak_memory_stats(device)


def allocator_of(graph: torch.fx.Graph) -> Allocator | None:
    """The allocators of a graph's values; None if all of them are on the CPU, which has no counters."""
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
    """Runs a graph, and records the temporary memory of each operator, beyond its inputs and outputs."""

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
