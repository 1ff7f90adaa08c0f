"""Enumerations: members are constants, and their classes are closed tables.

The idea: a member of an `enum.Enum` is one object for the lifetime of its class, is compared by identity, and never changes. So it
is a constant: operators and methods of the enum module (and of int or str, if the class mixes them in) are constant-folded. Methods
and properties that the program defines are inlined like those of any object.

In: live members and enumeration classes. Out: constants. PyTorch's counterpart: the enum branches of `UserDefinedClassVariable` in
torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import enum
import operator
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_module, instance_dict
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.class_ import ClassVariable, hold_class
from dynexplore.engine.variables.objects.descriptors import bind, class_tracker
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import (
    SPECIAL_NAMES,
    find,
    guard_on_name_of,
    guard_on_names,
    guard_on_plain_access,
    is_fixed_module,
    peek,
    raw_lookup,
    refuse_missing,
)
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable, computed, constant_of, is_literal

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_INLINED = (types.FunctionType, property, classmethod, staticmethod)


class EnumVariable(ConstantVariable):
    """A member of an enumeration."""

    kind = "constant"

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        cls = type(self.value)
        guard_on_plain_access(ctx, cls, name)
        if name == "__class__":
            return class_tracker(ctx, cls)
        if name == "__dict__":
            ctx.break_graph("DX303", name=name, type=cls.__qualname__)
        if name in ("name", "_name_"):
            return self._own(ctx, "_name_")
        if name in ("value", "_value_"):
            return self._own(ctx, "_value_")
        attribute = find(ctx, cls, name)
        if attribute is not None and type(attribute.raw) is property:  # takes precedence over the member's own attributes
            return bind(ctx, attribute, self, cls)
        if name in instance_dict(self.value):
            if attribute is not None and attribute.is_data_descriptor and not is_fixed_module(class_module(type(attribute.raw))):
                ctx.break_graph("DX303", name=name, type=cls.__qualname__)
            return self._own(ctx, name)
        self._guard_on_absence(ctx, name)
        if attribute is not None and isinstance(attribute.raw, _INLINED) and not is_fixed_module(class_module(attribute.owner)):
            return bind(ctx, attribute, self, cls)
        if attribute is None:
            refuse_missing(ctx, cls, name)
        try:
            value = getattr(self.value, name)
        except AttributeError as error:
            ctx.raise_exception(AttributeError, *error.args)
        is_method = callable(value) and not isinstance(value, enum.Enum)
        return ConstantMethodVariable(self, name) if is_method else ctx.build(value, None)

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        ctx.break_graph("DX303", name=name, type=self.type_name())

    def _guard_on_absence(self, ctx: TraceContext, name: str) -> None:
        """Guard that the member itself has no such attribute; an int member cannot be
        weakly referenced, so its guard runs in Python.
        """
        if ctx.module_guards.track(self.value, self.text()) is not None:
            ctx.module_guards.guard_on_absence(self.value, name)
        else:
            ctx.guard(ctx.module_guards.source_of(self.value, self.text()), "ATTRIBUTE_ABSENT", name)

    def hash_key(self, ctx: TraceContext) -> object:
        hasher = raw_lookup(ctx, type(self.value), "__hash__")
        if hasher is None:
            ctx.raise_exception(TypeError, f"unhashable type: {type(self.value).__name__!r}")
        own = isinstance(hasher, types.FunctionType) and not is_fixed_module(hasher.__module__)
        return VariableTracker.hash_key(self, ctx) if own else super().hash_key(ctx)

    def _own(self, ctx: TraceContext, name: str) -> VariableTracker:
        """An attribute in the member's own `__dict__`; only a mutable value needs a source."""
        value = instance_dict(self.value)[name]
        source = ctx.module_guards.source_of(self.value, self.text()).attribute(name)
        if ctx.module_guards.track(self.value, self.text()) is not None and ctx.specializer.specializes(source):
            ctx.module_guards.guard_on_value(self.value, name, value)
            if is_literal(value):
                return ConstantVariable(value)
            ctx.module_guards.note_identity(source)
        return ctx.build(value, source)

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        guard_on_plain_access(ctx, type(self.value), name)
        if name in instance_dict(self.value):
            return self._own(ctx, name).call(ctx, args, kwargs)
        method = find(ctx, type(self.value), name)
        if method is not None and isinstance(method.raw, _INLINED) and not is_fixed_module(class_module(method.owner)):
            return bind(ctx, method, self, type(self.value)).call(ctx, args, kwargs)
        guard_on_name_of(ctx, type(self.value))
        return super().call_method(ctx, name, args, kwargs)

    def same_object(self, other: VariableTracker) -> bool | None:
        return other.is_constant() and other.as_constant() is self.value

    def identity(self) -> object | None:
        return self.value  # type: ignore[no-any-return]

    def as_proxy(self) -> Any:
        for plain in (bool, int, float, str):
            if isinstance(self.value, plain):
                return plain(self.value.value)  # type: ignore[union-attr]
        raise NotProxyable(self.type_name())


_CODES = {method: method.__code__ for method in vars(enum.EnumMeta).values() if isinstance(method, types.FunctionType)}


class EnumClassVariable(ClassVariable):
    """An enumeration: its members by name, by value and in order.

    They are read from the class's own dicts (enum.py), which a program can extend.
    """

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        guard_on_plain_access(ctx, type(self.value), name)
        members: Mapping[str, Any] = self.value.__members__
        if name not in members or peek(self.value, name) is not members[name]:
            return super().get_attribute(ctx, name)
        guard_on_names(ctx, self.value, name, *SPECIAL_NAMES)
        return EnumVariable(members[name])

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not self._guard_on_stdlib_method(ctx, "__call__"):
            return super().call(ctx, args, kwargs)
        self._guard_on_members(ctx)
        if len(self.value.__members__) == 0 and (len(args) > 1 or "names" in kwargs):
            return ctx.calls.make_enumeration(self, args, kwargs)
        if not issubclass(self.value, enum.Flag):  # `Flag(3)` adds a pseudo-member to that dict
            self._guard_on_members(ctx, "_value2member_map_")
        values = [constant_of(ctx, arg, self.text()) for arg in args]
        return computed(ctx, self.value, *values, **{name: constant_of(ctx, arg, name) for name, arg in kwargs.items()})

    def _guard_on_members(self, ctx: TraceContext, table: str = "_member_map_") -> None:
        """Guard the members in the table; those of libraries do not change."""
        if ctx.module_guards.has_facts_of(self.value):
            ctx.module_guards.guard_on_keys(self.value, table)
            for key in instance_dict(self.value)[table]:
                ctx.module_guards.guard_on_item(self.value, table, key)

    def _guard_on_stdlib_method(self, ctx: TraceContext, name: str) -> bool:
        """Whether the metaclass's own method, which is run at trace time, still has the standard library's code; guarded."""
        method = raw_lookup(ctx, type(self.value), name)
        if isinstance(method, types.FunctionType):
            ctx.module_guards.guard_on_function(method)
            return _CODES.get(method, method.__code__) is method.__code__
        return True

    def length(self, ctx: TraceContext) -> VariableTracker:
        if not self._guard_on_stdlib_method(ctx, "__len__"):
            return super().length(ctx)
        self._guard_on_members(ctx)
        return computed(ctx, len, self.value)

    def length_hint(self, ctx: TraceContext) -> None:
        if not self._guard_on_stdlib_method(ctx, "__len__"):
            super().length_hint(ctx)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        if not self._guard_on_stdlib_method(ctx, "__iter__"):
            return super().iterate(ctx)
        self._guard_on_members(ctx)
        guard_on_names(ctx, self.value, *SPECIAL_NAMES)
        members: Any = self.value
        return ctx.values.iterator_over([EnumVariable(member) for member in members])

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        if not self._guard_on_stdlib_method(ctx, "__contains__"):
            return super().contains(ctx, item)
        self._guard_on_members(ctx)
        return computed(ctx, operator.contains, self.value, constant_of(ctx, item, "`in`"))

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        if not self._guard_on_stdlib_method(ctx, "__getitem__"):
            return super().get_item(ctx, key)
        self._guard_on_members(ctx)
        return computed(ctx, operator.getitem, self.value, constant_of(ctx, key, "subscript"))


@builds_when(lambda value: issubclass(type(value), enum.Enum), rank=5)
def build_member(ctx: TraceContext, value: enum.Enum, source: Source | None) -> VariableTracker:
    """A member, guarded by identity."""
    guard_identity(ctx, value, source)
    ctx.module_guards.track(value, f"{type(value).__qualname__}.{instance_dict(value)['_name_']}", source)
    guard_on_names(ctx, type(value), *SPECIAL_NAMES)
    return EnumVariable(value)


@builds_when(lambda value: issubclass(type(value), enum.EnumMeta), rank=6)
def build_enum_class(ctx: TraceContext, value: type[Any], source: Source | None) -> VariableTracker:
    """An enumeration, guarded by identity; its members do not change."""
    guard_identity(ctx, value, source)
    hold_class(ctx, value)
    guard_on_names(ctx, type(value), *SPECIAL_NAMES)
    return EnumClassVariable(value, source)
