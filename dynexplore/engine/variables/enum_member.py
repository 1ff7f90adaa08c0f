"""Members of enumerations: constants that are known by identity.

The idea: a member is made once and does not change, so it is a constant; comparisons and lookups (`Format("NHWC")`) are computed while
tracing. Methods and properties that the enumeration's class defines in Python are interpreted, like any other.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.build import builds_when
from dynexplore.engine.variables.class_ import ClassVariable, makes
from dynexplore.engine.variables.class_lookup import raw_lookup
from dynexplore.engine.variables.constant import ConstantVariable, run_now
from dynexplore.engine.variables.function import BoundMethodVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext


class EnumVariable(ConstantVariable):
    """A member of an enumeration."""

    kind = "enum member"

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        raw = raw_lookup(type(self.value), name)
        if isinstance(raw, types.FunctionType) and raw.__module__ != "enum":
            return BoundMethodVariable(ctx.build(raw, None), self)
        if type(raw) is property and isinstance(raw.fget, types.FunctionType):
            return ctx.call_function(ctx.build(raw.fget, None), [self], {})
        return super().get_attribute(ctx, name)

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        found = self.get_attribute(ctx, name)
        if isinstance(found, BoundMethodVariable):
            return found.call(ctx, args, kwargs)
        return super().call_method(ctx, name, args, kwargs)

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        if isinstance(raw_lookup(type(self.value), "__bool__"), types.FunctionType) and not isinstance(self.value, enum.Flag):
            ctx.break_graph("DX302", question="truth value", type=self.type_name())
        return bool(self.value)

    def as_proxy(self) -> Any:
        if isinstance(self.value, (int, str)):
            return self.value.value
        raise NotProxyable(self.type_name())


@builds_when(lambda value: isinstance(value, enum.Enum), rank=15)
def build_enum(ctx: TraceContext, value: enum.Enum, source: Source | None) -> VariableTracker:
    """A member, guarded by identity."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=True))
    return EnumVariable(value, source)


@makes(enum.Enum)
def _look_up(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """`Format("NHWC")`: the member with this value."""
    own = raw_lookup(cls.value, "_missing_")
    if len(args) != 1 or kwargs or not args[0].is_constant() or not cls.value.__members__ or own is not raw_lookup(enum.Enum, "_missing_"):
        ctx.break_graph("DX209", type=cls.value.__qualname__)
    return ctx.build(run_now(ctx, cls.value, args[0].as_constant()), None)
