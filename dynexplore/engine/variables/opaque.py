"""Opaque objects: everything that no other row knows.

The idea: a live object of any type can be passed along, compared by identity, and be loaded again from where it came.
That is enough for a lock, a socket or a file that a traced function only hands to another. Every question about its
inside breaks the graph.

In: a live value and its source. Out: a tracker that guards the identity of the value when somebody asks which object it is.
torch/_dynamo/variables/user_defined.py does the same job for objects it cannot look into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.build import builds_when

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext
    from dynexplore.engine.variables.reconstruction import Reconstruction


class OpaqueVariable(VariableTracker):
    """A live object that is not looked into."""

    kind = "object"
    mutable = True

    def __init__(self, value: Any, source: Source | None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        if hasattr(type(self.value), "__bool__") or hasattr(type(self.value), "__len__"):
            return super().truth(ctx)
        return True

    def same_object(self, other: VariableTracker) -> bool | None:
        return self is other

    def hash_key(self, ctx: TraceContext) -> object:
        if type(self.value).__hash__ is not object.__hash__:  # type: ignore[comparison-overlap]
            return super().hash_key(ctx)
        return self

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__class__":
            return ctx.build(type(self.value), self.source.type() if self.source is not None else None)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)

    def text(self) -> str:
        return f"a {type(self.value).__qualname__}"


@builds_when(lambda value: True, rank=1000)
def build_opaque(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """Any object: its type is guarded, because every answer that is given depends on it."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", type(value))
    return OpaqueVariable(value, source)


def guard_identity(ctx: TraceContext, value: Any, source: Source | None, kind: str = "ID_MATCH") -> None:
    """Rely on a value being this very object, held weakly."""
    if source is not None and not ctx.module_guards.knows(source):
        ctx.guard(source, kind, Identity(value, keep=False))
        ctx.module_guards.know(source)
