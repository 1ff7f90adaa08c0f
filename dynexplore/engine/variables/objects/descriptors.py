"""Descriptor binding: the value that a class attribute yields when accessed through an instance or a class.

The idea: `obj.name` starts in the class. A data descriptor in the MRO (type_lookup.py) takes precedence over the object's
`__dict__`; any other class attribute comes after it. A function becomes a bound method, a property's getter is called, a plain
value is returned unchanged. `BINDERS` has a rule for each kind of descriptor.

In: the result of a class lookup. Out: the tracker of the bound value. PyTorch's counterpart: `resolve_type_attr` and
`resolve_data_descriptor` in torch/_dynamo/variables/user_defined.py. Mirrors CPython's Objects/object.c
(_PyObject_GenericGetAttrWithDict) and Objects/typeobject.c (type_getattro).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dynexplore.engine.variables.callables.function import BoundMethodVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, attribute_source, find, peek, source_in

if TYPE_CHECKING:
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.variables.contract.context import TraceContext

# -- binding ----------------------------------------------------------------------------------------------------------

Binder = Callable[["TraceContext", ClassAttribute, "VariableTracker | None", type[Any]], VariableTracker]

BINDERS: dict[type[Any], Binder] = {}
# Methods with a known meaning, whatever function currently implements them (torch replaces nn.Module.__init__ at run time).
KNOWN_METHODS: dict[tuple[type[Any], str], Binder] = {}


def binds(*descriptor_types: type[Any]) -> Callable[[Binder], Binder]:
    """Declare how a descriptor of these types binds to an instance (None: accessed through the class)."""

    def declare(binder: Binder) -> Binder:
        for descriptor_type in descriptor_types:
            BINDERS[descriptor_type] = binder
        return binder

    return declare


def bind(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """The value of `instance.name` (or `cls.name` for instance None), given the attribute that the class lookup found."""
    if attribute.stored is not None:
        return _bind_stored(ctx, attribute.stored, instance, attribute.name, cls)
    binder = KNOWN_METHODS.get((attribute.owner, attribute.name)) or _binder_of(type(attribute.raw))
    if binder is not None:
        return binder(ctx, attribute, instance, cls)
    if hasattr(type(attribute.raw), "__get__"):
        return _bind_user_descriptor(ctx, attribute, instance, cls)
    return ctx.build(attribute.raw, attribute_source(ctx, attribute) or constant_source(ctx, attribute))


def _binder_of(descriptor_type: type[Any]) -> Binder | None:
    """The binder for a descriptor of this type: that of the nearest base with a binder, if `__get__` is not overridden."""
    binder = BINDERS.get(descriptor_type)
    if binder is not None or not hasattr(descriptor_type, "__get__"):
        return binder
    inherited = peek(descriptor_type, "__get__")
    return next(
        (BINDERS[base] for base in descriptor_type.__mro__ if base in BINDERS and vars(base).get("__get__") is inherited), None
    )


def constant_source(ctx: TraceContext, attribute: ClassAttribute) -> Source | None:
    """A source for an object in a fixed class: it is the same in every call."""
    source = source_in(ctx, attribute)
    ctx.module_guards.note_identity(source)
    return source


def _bind_stored(
    ctx: TraceContext, stored: VariableTracker, instance: VariableTracker | None, name: str, cls: type[Any]
) -> VariableTracker:
    if instance is not None and stored.kind == "function":
        return BoundMethodVariable(stored, instance)
    if hasattr(stored.python_type(), "__get__") and stored.kind not in ("function", "class", "builtin"):
        ctx.break_graph("DX303", name=name, type=cls.__qualname__)  # a descriptor that the frame assigned to the class
    return stored


@binds(types.FunctionType)
def _bind_function(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    function = ctx.build(attribute.raw, attribute_source(ctx, attribute))
    return function if instance is None else BoundMethodVariable(function, instance)


@binds(staticmethod)
def _bind_static(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    return ctx.build(attribute.raw.__func__, attribute_source(ctx, attribute))


@binds(classmethod)
def _bind_class_method(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    source = attribute_source(ctx, attribute)
    if source is not None:
        source = source.attribute("__func__", "getattr")
        ctx.module_guards.note_value_identity(source)
    if not isinstance(attribute.raw.__func__, types.FunctionType):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    return BoundMethodVariable(ctx.build(attribute.raw.__func__, source), class_tracker(ctx, cls))


def class_tracker(ctx: TraceContext, cls: type[Any]) -> VariableTracker:
    """The tracker of a class whose identity is already guarded."""
    source = ctx.module_guards.fixed_source_of(cls, cls.__qualname__)
    return ctx.build(cls, source)


@binds(property)
def _bind_property(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    if instance is None:
        return ctx.build(attribute.raw, constant_source(ctx, attribute))
    if attribute.raw.fget is None:
        ctx.raise_exception(AttributeError, f"property {attribute.name!r} of {cls.__qualname__!r} object has no getter")
    getter = accessor(ctx, attribute, "fget")
    if peek(cls, "__getattr__") is None:  # `__getattr__` would be called if the getter raised AttributeError
        ctx.frames.forward_call(instance, getter)
    return getter.call(ctx, [instance], {})


def accessor(ctx: TraceContext, attribute: ClassAttribute, which: str) -> VariableTracker:
    """The getter, setter or deleter of a property, or the function of a cached_property."""
    source = attribute_source(ctx, attribute)
    if source is not None:
        source = source.attribute(which, "getattr")
        ctx.module_guards.note_value_identity(source)
    return ctx.build(getattr(attribute.raw, which), source)


@binds(functools.cached_property)
def _bind_cached_property(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    if instance is None:
        return ctx.build(attribute.raw, constant_source(ctx, attribute))
    name: str | None = accessor(ctx, attribute, "attrname").as_constant()
    if name is None:
        ctx.raise_exception(TypeError, "Cannot use cached_property instance without calling __set_name__ on it.")
    if not isinstance(instance, HasAttributes):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    value = instance.own_attribute(ctx, name) if name != attribute.name else None  # `alias = cached`: stored under the first name
    if value is None:
        value = accessor(ctx, attribute, "func").call(ctx, [instance], {})
        instance.store_own(ctx, name, value)
    return value


@runtime_checkable
class HasAttributes(Protocol):
    """The tracker of an object with an instance dict."""

    def own_attribute(self, ctx: TraceContext, name: str) -> VariableTracker | None: ...
    def store_own(self, ctx: TraceContext, name: str, value: VariableTracker) -> None: ...


@binds(types.BuiltinFunctionType)
def _bind_builtin(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    # A C function does not bind (`activation = torch.relu` in a class). A method of an object (`put = queue.append`) changes it.
    owner = attribute.raw.__self__
    source = None
    if not isinstance(owner, types.ModuleType | type | types.NoneType):
        source = attribute_source(ctx, attribute) or constant_source(ctx, attribute)
    return ctx.build(attribute.raw, source)


def _bind_user_descriptor(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """A user-defined descriptor: its `__get__` is called."""
    getter = find(ctx, type(attribute.raw), "__get__")
    if getter is None or not isinstance(getter.raw, types.FunctionType):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    descriptor = ctx.build(attribute.raw, attribute_source(ctx, attribute) or constant_source(ctx, attribute))
    method = bind(ctx, getter, descriptor, type(attribute.raw))
    return method.call(ctx, [instance or ctx.build(None, None), class_tracker(ctx, cls)], {})
