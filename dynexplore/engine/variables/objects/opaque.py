"""Opaque objects: live values for which there is no other tracker.

The idea: a live object of any type can be passed along, compared by identity, and loaded again from its source. That suffices for a
lock, a socket or a file that a traced function only passes on. Every operation on its content breaks the graph.

In: a live value and its source. Out: a tracker, which guards the value's identity if the program depends on it. PyTorch's
counterpart: `UserDefinedObjectVariable` in torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from dynexplore.engine.native import has_generic_lookup
from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import bound_method, class_module, tells_its_class
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.type_lookup import guard_on_class_of, raw_lookup

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class OpaqueVariable(VariableTracker):
    """A live object that is not traced."""

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
        if any(raw_lookup(ctx, type(self.value), name) is not None for name in ("__bool__", "__len__")):
            return super().truth(ctx)
        return True

    def same_object(self, other: VariableTracker) -> bool | None:
        return self is other

    def hash_key(self, ctx: TraceContext) -> object:
        if type(self.value).__hash__ is not object.__hash__:  # type: ignore[comparison-overlap]
            return super().hash_key(ctx)
        ctx.journal.observe_identity(self)
        return self

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__class__" and tells_its_class(type(self.value)):
            return ctx.build(type(self.value), self.source.type() if self.source is not None else None)
        if has_generic_lookup(type(self.value)):
            function = raw_lookup(ctx, type(self.value), name)
            if isinstance(function, types.MethodDescriptorType) and self._is_method_unshadowed(name):
                return OpaqueMethodVariable(self, function)
        return super().get_attribute(ctx, name)

    def _is_method_unshadowed(self, name: str) -> bool:
        """Whether no instance attribute hides a method. Its `__dict__` is not read, since reading creates it,
        and `functools.partial` does not flatten a partial that has one.
        """
        return getattr(object.__getattribute__(self.value, name), "__self__", None) is self.value

    def method_of(self, ctx: TraceContext, cls: type[Any] | None, name: str) -> VariableTracker:
        function = cls.__dict__.get(name) if cls is not None else None
        if isinstance(function, types.MethodDescriptorType):
            return OpaqueMethodVariable(self, function)
        return super().method_of(ctx, cls, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)

    def text(self) -> str:
        return f"a {type(self.value).__qualname__}"


class OpaqueMethodVariable(VariableTracker):
    """A C method of such an object: it can be passed on, and breaks the graph when called."""

    kind = "method"

    def __init__(self, owner: OpaqueVariable, function: types.MethodDescriptorType) -> None:
        self.owner, self.function = owner, function

    def python_type(self) -> type[Any]:
        return types.BuiltinMethodType

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        ctx.break_graph(kind_of_break(self.function, "DX201"), function=self.text())

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(functools.partial(bound_method, self.function), self.owner)

    def text(self) -> str:
        return f"{type(self.owner.value).__qualname__}.{self.function.__name__}"


@builds_when(lambda value: True, rank=1000)
def build_opaque(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """Any object: its type is guarded, because every result depends on it."""
    if source is None and class_module(type(value)) == "typing":  # a TypeVar in an annotation: it may be given in another way, too
        source = ctx.module_guards.fixed_source_of(value, f"a {type(value).__qualname__}")
    if source is not None:
        guard_on_class_of(ctx, value, source)
    return OpaqueVariable(value, source)


def guard_identity(ctx: TraceContext, value: Any, source: Source | None, kind: str = "ID_MATCH") -> None:
    """Guard that a value is this very object, which is referenced weakly."""
    if source is not None and not ctx.module_guards.fixes_identity(source):
        ctx.guard(source, kind, Identity(value, keep=False))
        ctx.module_guards.note_identity(source)
