"""Running models under plain PyTorch, torch.compile and dynexplore, one after the other in one process.

CPU time of the process on one thread, the variants taking turns, the smallest of several repeats: the machine may be shared.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import dynexplore

VARIANTS = ("eager", "torch.compile", "dynexplore")


def quiet() -> None:
    """One thread, and no log lines between the rows."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def compilers(backend: Any) -> dict[str, Callable[[Any], Any]]:
    """How each variant wraps a module."""
    return {
        "eager": lambda module: module,
        "torch.compile": lambda module: torch.compile(module, backend=backend),
        "dynexplore": lambda module: dynexplore.optimize(backend)(module),
    }


def forget() -> None:
    """Start from nothing: both compilers drop what they have."""
    torch._dynamo.reset()
    dynexplore.reset()


def seconds(call: Callable[[], Any], count: int = 1) -> float:
    """The CPU time of so many calls."""
    began = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - began


Clock = Callable[[Callable[[], Any], int], float]
"""Gives the seconds of so many calls."""


def best(calls: dict[str, Callable[[], Any]], repeats: int, least: float = 0.02, clock: Clock = seconds) -> dict[str, float]:
    """Seconds of a call of each variant, by a clock: enough calls to last `least` seconds, the smallest of the repeats."""
    counts = {name: max(1, math.ceil(least / max(clock(call, 1), 1e-6))) for name, call in calls.items()}
    smallest = dict.fromkeys(calls, math.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            smallest[name] = min(smallest[name], clock(call, counts[name]) / counts[name])
    return smallest


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def difference(expected: Any, found: Any, tolerance: float) -> str:
    """Where two nests of tensors differ by more than the tolerance, in one line; "" for nowhere."""
    try:
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:120]
    return ""


def loss_of(outputs: Any) -> torch.Tensor:
    """The sum of all tensors in a model's outputs that want a gradient."""
    leaves = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return torch.stack([leaf.float().sum() for leaf in leaves]).sum()


class Counting:
    """A backend that runs graphs as they are, and counts them and the operators in them."""

    def __init__(self) -> None:
        self.graphs = 0
        self.operators = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
        """Count, and run it as it is."""
        self.graphs += 1
        self.operators += sum(node.op.startswith("call_") for node in graph.graph.nodes)
        return graph.forward
