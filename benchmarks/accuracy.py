"""Compare values and gradients of models with plain PyTorch's, for dynexplore and torch.compile.

    python -m dynexplore bench accuracy [--quick] [--models bert unet] [--device cuda] [--json OUT]

The backends are "eager" (results must be equal bit by bit) and "aot_eager" (equal up to rounding). The table shows "ok", or the
first difference. On a GPU, only deterministic kernels are used, because plain PyTorch would otherwise differ from itself.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
from typing import Any

import torch
from support.cuda import to_cuda
from support.measuring import compilers, difference, forget, loss_of
from support.models import MODELS, Model
from support.report import Row, main
from torch.utils._pytree import tree_leaves


def outcome(module: torch.nn.Module, wrap: Any, args: Any, kwargs: Any) -> Any:
    """Outputs and gradients of one call."""
    own = copy.deepcopy(module)
    torch.manual_seed(0)
    leaves = [leaf for leaf in tree_leaves(wrap(own)(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    if any(leaf.requires_grad for leaf in leaves):
        loss_of(leaves).backward()
    gradients = {name: parameter.grad for name, parameter in own.named_parameters()}
    return {"outputs": [leaf.detach() for leaf in leaves], "gradients": gradients}


def measure(model: Model, options: argparse.Namespace) -> Row:
    """Each backend under each compiler."""
    module, args, kwargs = to_cuda(model.make()) if options.device == "cuda" else model.make()
    if options.device == "cuda":
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS is not deterministic
        torch.use_deterministic_algorithms(True, warn_only=True)
    expected = outcome(module, lambda plain: plain, args, kwargs)
    row: Row = {}
    for backend, tolerance in (("eager", 0.0), ("aot_eager", 1e-4)):
        for name, wrap in compilers(backend).items():
            if name != "eager":
                forget()
                row[f"{name} {backend}"] = difference(expected, outcome(module, wrap, args, kwargs), tolerance) or "ok"
    return row


def summary(rows: list[Row]) -> Row:
    """How many are right."""
    return {name: f"{sum(row[name] == 'ok' for row in rows)}/{len(rows)}" for name in rows[0] if name != "model"}


if __name__ == "__main__":
    sys.exit(main("Accuracy", measure, summary, {"cpu": MODELS, "cuda": MODELS}))
