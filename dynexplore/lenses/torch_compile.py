"""torch.compile's Dynamo: PyTorch's capture from bytecode.

The idea: the same as this engine's, so the two can be compared operator by operator: bytecode is analyzed before it runs,
guards state when a graph is valid, code that cannot be captured runs as Python between graphs, and an input that fails the
guards triggers a recompile.

In: a call, in a separate process: torch.compile's cache entries of the program's functions are preserved. Out: the graphs that
the backend received. PyTorch's counterpart: torch/_dynamo.
"""

from __future__ import annotations

import importlib

import torch

from dynexplore.lenses.collecting import Collecting, first_call
from dynexplore.lenses.lens import Call, Captured


class TorchCompile:
    """The capture method; see the module docstring."""

    key = "dynamo"
    name = "torch.compile"
    works_on = "bytecode"
    how = "Reads the bytecode of each frame before it runs, and captures graphs with guards. Recompiles when guards fail."
    purpose = "Making unchanged programs faster: any Python code works, and as much of it as possible becomes graphs."
    reasons = (("Dynamo is not supported|not supported on Python", "torch.compile does not support this Python"),)

    def prepare(self) -> None:
        """Import torch._dynamo, which takes seconds."""
        importlib.import_module("torch._dynamo")

    def capture(self, call: Call) -> Captured:
        """Compile with a collecting backend, and call once."""
        collecting = Collecting()
        return first_call(torch.compile(call.fn, backend=collecting, dynamic=call.dynamic), collecting, call, _breaks)


def _breaks() -> dict[str, int]:
    """The reasons for graph breaks: an `if` on a tensor is counted only in the second table."""
    counters = importlib.import_module("torch._dynamo.utils").counters
    reasons = [*counters["graph_break"].items(), *counters["unimplemented"].items()]
    return {str(reason).strip().splitlines()[0]: count for reason, count in reasons}
