"""torch.export: the whole program as one graph of aten operators, or an error.

The idea: the function runs on fake tensors (shapes without data), and every decision that Python takes on the way is
specialized, but not silently: each assumption becomes a check of the exported program, and a decision that needs data is an
error. There are no graph breaks: the graph has to run without Python.

In: a call. Out: one functional graph; sizes are static, because no dynamic shapes are requested. PyTorch's counterpart:
torch/export.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from dynexplore.lenses import fx_rows
from dynexplore.lenses.lens import Call, Captured


class TorchExport:
    """The capture method; see the module docstring."""

    key = "export"
    name = "torch.export.export"
    works_on = "trace with fake tensors"
    how = "Runs the function on fake tensors, and returns one functional ATen graph. Branches on data raise; sizes are checked."
    purpose = "Deployment without Python: one graph with its state, or an error that explains the problem."
    reasons = (
        (
            "data-dependent|Dynamic control flow|DataDependent|Could not guard|Could not extract",
            "control flow depends on tensor data, which a graph without Python cannot evaluate",
        ),
        (
            "Unsupported input type|unsupported.*type|Only tensors|pytree",
            "arguments and results must be tensors, plain values or nested containers of them",
        ),
    )

    def prepare(self) -> None:
        """Import torch.export and its dependencies."""
        importlib.import_module("torch.export")
        importlib.import_module("torch._export.non_strict_utils")

    def capture(self, call: Call) -> Captured:
        """Export the module, or the function as the forward method of one."""
        module = call.fn if isinstance(call.fn, torch.nn.Module) else _Forward(call.fn)
        program = torch.export.export(module, call.args, call.kwargs or None)
        inner = program.graph_module
        return Captured(lambda: [fx_rows.graph_of(inner, self.name)], program.module())


class _Forward(torch.nn.Module):
    """A module whose forward method calls a function."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self._call = fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)
