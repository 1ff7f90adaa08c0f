"""Compare a warm training step with backend "aot_eager" with an eager one, for dynexplore and torch.compile.

    python -m dynexplore bench training_step [--quick] [--models bert unet] [--json OUT]

Backend "aot_eager" does not make kernels faster, so the result shows the cost of Python around the operators. A step is
forward, the sum of all outputs, and backward, with dropout if the model has it. The ratio is of CPU time; below 1 is faster
than plain PyTorch.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from support.measuring import best, compilers, geomean, loss_of
from support.models import Model
from support.report import Row, main


def step(call: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """One training step, without the optimizer."""
    module.zero_grad(set_to_none=True)
    loss_of(call(*args, **kwargs)).backward()


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The steps of one model."""
    module, args, kwargs = model.make()
    module.train()
    calls = {name: functools.partial(step, wrap(module), module, args, kwargs) for name, wrap in compilers("aot_eager").items()}
    for call in calls.values():
        call()
        call()
    warm = best(calls, options.repeats)
    return {
        "eager ms": warm["eager"] * 1e3,
        "step": warm["dynexplore"] / warm["eager"],
        "torch.compile step": warm["torch.compile"] / warm["eager"],
    }


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in ("step", "torch.compile step")}


if __name__ == "__main__":
    sys.exit(main("Training step", measure, summary))
