"""TorchScript functions in traced code: `torch.jit.script(f)`, `@torch.jit.script_if_tracing`.

The idea: a scripted function refers to the Python function it was compiled from, and that one is inlined. A function that calls
`is_scripting()` would behave differently, so it breaks the graph.

In: live torch.jit.ScriptFunction objects. Out: trackers that call the Python function. PyTorch's counterpart: the branch for
ScriptFunction in torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.opaque import OpaqueVariable, guard_identity

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class ScriptFunctionVariable(OpaqueVariable):
    """A TorchScript function, with the Python function from which it was compiled."""

    kind = "function"

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        function = getattr(self.value, "_torchdynamo_inline", None)
        if not isinstance(function, types.FunctionType) or "is_scripting" in function.__code__.co_names:
            ctx.break_graph("DX203", function=str(getattr(self.value, "qualified_name", self.text())))
        source = self.source.attribute("_torchdynamo_inline", "getattr") if self.source is not None else None
        return ctx.build(function, source).call(ctx, args, kwargs)


@builds(torch.jit.ScriptFunction)
def build_script_function(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A TorchScript function, guarded by identity."""
    guard_identity(ctx, value, source)
    return ScriptFunctionVariable(value, source)
