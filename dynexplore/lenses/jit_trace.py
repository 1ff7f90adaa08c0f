"""torch.jit.trace: runs the function once on real inputs and records the operators that run.

The idea: a trace records one execution and ignores Python. A branch is always taken as it was taken in the trace, a loop that
ran three times always runs three times, a number that was read is a constant. There are no guards: for other inputs the result
can be silently wrong, except for TracerWarnings.

In: a call. Out: one TorchScript graph of aten operators. PyTorch's counterpart: torch/jit/_trace.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from dynexplore.lenses import jit_rows
from dynexplore.lenses.lens import Call, Captured


class JitTrace:
    """The capture method; see the module docstring."""

    key = "jit.trace"
    name = "torch.jit.trace"
    works_on = "trace with real tensors"
    how = "Runs the function once with the real arguments, and records the operators that are called on their tensors."
    purpose = "Running a model without control flow without Python. No guards: branches and loops are recorded as they ran."
    reasons = (
        (
            "Only tensors|Tracer cannot infer type|Type .* cannot be traced|tensors or tuples of tensors",
            "a trace can return only tensors and nested containers of tensors",
        ),
        (
            "did not have observable data dependence|cannot be traced.*no tensor",
            "no result depends on a tensor argument",
        ),
    )

    def prepare(self) -> None:
        """Do nothing: importing torch imports torch.jit."""

    def capture(self, call: Call) -> Captured:
        """Trace with all tensors of the arguments as inputs; everything else is a constant of the trace."""
        leaves, form = tree_flatten((call.args, call.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        notes = [] if len(places) == len(leaves) else ["arguments that are not tensors became constants"]
        if isinstance(call.fn, torch.nn.Module) and not call.kwargs and len(places) == len(call.args):
            traced: Any = torch.jit.trace(call.fn, call.args, strict=False, check_trace=False)  # type: ignore[no-untyped-call]
            return Captured(lambda: [jit_rows.graph_of(traced.inlined_graph, self.name)], traced, notes=notes)

        def rebuilt(*tensors: torch.Tensor) -> Any:
            mixed = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                mixed[place] = tensor
            args, kwargs = tree_unflatten(mixed, form)
            return call.fn(*args, **kwargs)

        tensors = tuple(leaves[place] for place in places)
        named = _with_names(rebuilt, call, len(places))
        traced = torch.jit.trace(named, tensors, strict=False, check_trace=False)  # type: ignore[no-untyped-call]
        return Captured(lambda: [jit_rows.graph_of(traced.inlined_graph, self.name)], _on_tensors(traced), notes=notes)


def _with_names(rebuilt: Callable[..., Any], call: Call, count: int) -> Callable[..., Any]:
    """Name the inputs: the tracer takes the names from the parameters of the traced function."""
    try:
        bound = inspect.signature(call.fn).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return rebuilt
    if len(bound.arguments) != count or any(not isinstance(value, torch.Tensor) for value in bound.arguments.values()):
        return rebuilt
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in bound.arguments]

    @functools.wraps(rebuilt)
    def named(*tensors: torch.Tensor) -> Any:
        return rebuilt(*tensors)

    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return named


def _on_tensors(traced: Callable[..., Any]) -> Callable[..., Any]:
    """The traced program as a function of the tensors in the arguments, in order."""

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, _ = tree_flatten((args, kwargs))
        return traced(*(leaf for leaf in leaves if isinstance(leaf, torch.Tensor)))

    return run
