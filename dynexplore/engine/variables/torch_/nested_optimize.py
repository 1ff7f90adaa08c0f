"""Optimized and disabled functions called from traced code: the former are inlined, the latter break the graph.

The idea: `optimize(f)` and `disable(f)` return `native.RegionCall`s, C objects with two immutable fields: the function and its
region. The outermost region wins, so an optimized function is traced as its inner function; one without a region (frame hook off)
was made by `disable`.

In: live RegionCalls, as values and as class attributes. Out: their calls. PyTorch's counterpart: `WrapperUserFunctionVariable` in
torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.native import RegionCall
from dynexplore.engine.policy.markers import Mark, words_of
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.callables.function import BoundMethodVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.descriptors import binds
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, attribute_source

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class OptimizedFunctionVariable(VariableTracker):
    """An optimized or disabled function."""

    kind = "function"

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type[Any]:
        return RegionCall

    def live_value(self) -> Any:
        return self.value

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        return self.value

    def same_object(self, other: VariableTracker) -> bool | None:
        return isinstance(other, OptimizedFunctionVariable) and self.value is other.value

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if self.value.region is None:
            ctx.break_graph("DX202", function=self.text(), because=words_of(self.value, Mark.DISABLE))
        # both fields of the wrapper are fixed, and the wrapper itself is guarded by identity
        source = self.source.attribute("fn", "getattr") if self.source is not None else None
        return ctx.build(self.value.fn, source).call(ctx, args, kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        own = self.value.__dict__
        if name not in own:
            return super().get_attribute(ctx, name)
        source = self.source.attribute(name) if self.source is not None else None
        return ctx.build(own[name], source)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)

    def text(self) -> str:
        return str(getattr(self.value, "__qualname__", "a wrapper"))


@builds(RegionCall)
def build_region_call(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A RegionCall, guarded by identity."""
    if source is not None:
        ctx.guard(source, "FUNCTION_MATCH", Identity(value, keep=False))
    return OptimizedFunctionVariable(value, source)


@binds(RegionCall)
def _bind(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """In a class it binds as a function does."""
    function = ctx.build(attribute.raw, attribute_source(ctx, attribute))
    return function if instance is None else BoundMethodVariable(function, instance)
