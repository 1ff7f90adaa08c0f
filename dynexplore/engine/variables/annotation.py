"""Annotations as values: `int | None`, `list[int]`.

The idea: they are immutable, and all that is asked of them (`__args__`, `__origin__`, isinstance) is known while tracing.

In: live unions and generic aliases of the builtin kind. Out: constants. (Those of the typing module are objects like any other.)
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.build import builds
from dynexplore.engine.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext


class AnnotationVariable(ConstantVariable):
    """A union or a generic alias."""

    kind = "annotation"

    def as_proxy(self) -> Any:
        raise NotProxyable(self.type_name())


@builds(types.UnionType, types.GenericAlias)
def build_annotation(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """An annotation, guarded by identity."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=False))
    return AnnotationVariable(value, source)
