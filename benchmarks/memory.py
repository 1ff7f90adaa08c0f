"""Whether the memory that a recording tells of a graph is what a GPU's allocator saw; one training step, backend "aot_eager".

    python -m dynexplore bench memory [--models bert unet] [--json OUT]

"told" is the peak of `recording.memory`, which knows it before anything ran; "allocator" is the most that was allocated at a time
during a step after the first, parameters and inputs included. What an operator takes inside and gives back before it ends (a
workspace of cuDNN, the parts of a composite kernel) the allocator counts and no graph shows: "inside" is the most that one operator
of the step took so, measured around each of them.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from support import cuda
from support.measuring import geomean
from support.models import Model
from support.report import Row, main
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import dynexplore


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The peak of one model's training step, told and seen."""
    module, args, kwargs = cuda.to_cuda(model.make())
    module.train()
    memory = told(functools.partial(loss, module), *args, **kwargs)
    step = functools.partial(_step, dynexplore.optimize("aot_eager")(loss), module, *args, **kwargs)
    step()
    seen = cuda.highest_mib(step)
    with Inside() as inside:
        step()
    return {
        "told MiB": memory.peak.bytes / cuda.MIB,
        "at": memory.peak.place,
        "kept for backward MiB": (memory.kept_bytes or 0) / cuda.MIB,
        "allocator MiB": seen,
        "ratio": memory.peak.bytes / cuda.MIB / seen,
        "inside MiB": inside.most / cuda.MIB,
        "by": inside.by,
    }


def loss(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.Tensor:
    """One number of the model's first result."""
    (first, *_) = tree_leaves(module(*args, **kwargs))
    return first.square().mean()  # type: ignore[no-any-return]


def told(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The memory of the largest graph of a function, as a recording tells it."""
    with dynexplore.config.patch(artifacts=("memory",)):
        graphs = dynexplore.explain(fn, *args, backend="aot_eager", **kwargs).recording.memory
    dynexplore.reset()
    return max(graphs, key=lambda graph: graph.peak.bytes)


class Inside(TorchDispatchMode):
    """Reads the allocator around each operator: what it takes only while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.most, self.by = 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        torch.cuda.reset_peak_memory_stats()
        result = func(*args, **(kwargs or {}))
        taken = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
        if taken > self.most:
            self.most, self.by = taken, str(func)
        return result


def _step(compiled: Callable[..., torch.Tensor], module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
    compiled(module, *args, **kwargs).backward()
    module.zero_grad(set_to_none=True)


def summary(rows: list[Row]) -> Row:
    """The geometric mean of the ratios."""
    return {"ratio": geomean(row["ratio"] for row in rows)}


if __name__ == "__main__":
    sys.exit(main("memory of a training step", measure, summary, {"cuda": cuda.TRAINED}))
