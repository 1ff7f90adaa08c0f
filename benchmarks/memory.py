"""Compare the peak memory that a recording reports for a graph with a GPU's allocator, for one training step.

    python -m dynexplore bench memory [--models bert unet] [--json OUT]

"reported" is the peak of `recording.memory` after a step has run once: the storages of the graphs, and the measured temporary
memory of their operators (a workspace of cuDNN, the parts of a composite kernel). "planned" is what was known before anything
ran. "allocator" is the peak of the allocator during a later step, including parameters and inputs.
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
from torch.utils._pytree import tree_leaves

import dynexplore


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The peak of one model's training step, told and seen."""
    module, args, kwargs = cuda.to_cuda(model.make())
    module.train()
    memory = told(functools.partial(_step, loss), module, *args, **kwargs)
    module.zero_grad(set_to_none=True)
    step = functools.partial(_step, dynexplore.optimize("aot_eager")(loss), module, *args, **kwargs)
    step()
    module.zero_grad(set_to_none=True)
    seen = cuda.highest_mib(step)
    planned = max(node.live for node in memory.nodes)
    return {
        "reported MiB": memory.peak.bytes / cuda.MIB,
        "inside MiB": memory.peak.node.inside / cuda.MIB,
        "at": memory.peak.place,
        "kept for backward MiB": (memory.saved_bytes or 0) / cuda.MIB,
        "allocator MiB": seen,
        "ratio": memory.peak.bytes / cuda.MIB / seen,
        "planned": planned / cuda.MIB / seen,
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


def _step(compiled: Callable[..., torch.Tensor], module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
    compiled(module, *args, **kwargs).backward()


def summary(rows: list[Row]) -> Row:
    """The geometric means of the ratios."""
    return {name: geomean(row[name] for row in rows) for name in ("ratio", "planned")}


if __name__ == "__main__":
    sys.exit(main("memory of a training step", measure, summary, {"cuda": cuda.TRAINED}))
