"""torch.fx.symbolic_trace: calls the function once with proxies that hold no data.

The idea: a `Proxy` responds to every operation with another Proxy and a node. It cannot answer a question about data or sizes,
because it has none, so `if x.sum() > 0` ends the trace with an error: a graph that is captured is valid for all inputs, and a
program without such a graph is refused.

In: a call. Out: one graph of the calls in the source, layers of torch.nn as one node each. PyTorch's counterpart:
torch/fx/_symbolic_trace.py.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

import torch
import torch.fx
from torch.fx.passes.shape_prop import ShapeProp

from dynexplore.lenses import fx_rows
from dynexplore.lenses.lens import Call, Captured

_PROXIES = "it calls the function with proxies, which contain no data:"


class SymbolicTrace:
    """The capture method; see the module docstring."""

    key = "fx"
    name = "torch.fx.symbolic_trace"
    works_on = "trace with proxies"
    how = "Calls the function once with proxies in place of all arguments; each operation on a proxy becomes a node."
    purpose = (
        "Rewriting models: a graph of readable calls that is easy to change. No guards: code that depends on the inputs fails."
    )
    reasons = (
        ("control flow", f"{_PROXIES} a branch or loop that depends on data or sizes cannot be evaluated"),
        (
            "cannot be iterated|'len' is not supported|does not have a|object cannot be interpreted",
            f"{_PROXIES} the number of items is unknown",
        ),
        ("Proxy", f"{_PROXIES} this function uses an argument in a way that a proxy does not support"),
    )

    def prepare(self) -> None:
        """Do nothing: importing torch imports torch.fx."""

    def capture(self, call: Call) -> Captured:
        """Trace, then run the graph once to obtain shapes, which the trace does not know."""
        traced = torch.fx.symbolic_trace(_with_code(call.fn))
        notes = [] if _learn_shapes(traced, call) else ["the shapes in the table are not known: the graph could not be run on them"]
        return Captured(lambda: [fx_rows.graph_of(traced, self.name)], traced, notes=notes)


def _with_code(fn: Any) -> Any:
    """The callable as a plain function with the same parameters: the tracer reads them from a code object."""
    if isinstance(fn, torch.nn.Module | types.FunctionType):
        return fn
    parameters = list(inspect.signature(fn).parameters.values())
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    declared = [stars.get(parameter.kind, "") + parameter.name for parameter in parameters]
    passed = [f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else word for p, word in zip(parameters, declared, strict=True)]
    wrapper = eval(f"lambda {', '.join(declared)}: _call({', '.join(passed)})", {"_call": fn})
    wrapper.__defaults__ = tuple(p.default for p in parameters if p.default is not p.empty) or None
    return wrapper


def _learn_shapes(traced: torch.fx.GraphModule, call: Call) -> bool:
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in inputs]
    passed = dict(zip(names, call.args, strict=False)) | call.kwargs
    if any(name.startswith("*") for name in names):
        return False
    values = [passed.get(name, node.args[0] if node.args else None) for name, node in zip(names, inputs, strict=True)]
    try:
        ShapeProp(traced).propagate(*values)
    except Exception:  # raised by the program: the table then has no shapes, and the verdicts report the error
        return False
    return True
