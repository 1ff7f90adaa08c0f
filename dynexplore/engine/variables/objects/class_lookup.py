"""What a class gives to a name: the scan of the MRO, the guards it costs, and the binding of descriptors.

The idea: `obj.name` begins in the class. CPython's `_PyType_Lookup` takes the first class of the MRO whose `__dict__`
has the name; what it finds decides: a data descriptor wins over the object's own dictionary, anything else loses to
it; a function becomes a bound method, a property is called, a plain value is taken as it is. How each kind of
descriptor binds is a row of `BINDERS`.

That a class still has this attribute, and that no class before it in the MRO got one, are facts of
`provenance/module_guards.py`. Classes of torch and of the standard library are taken as fixed.

In: a class and a name. Out: what stands there, and the tracker it becomes for an instance or for the class.
Mirrors CPython's Objects/object.c (_PyObject_GenericGetAttrWithDict) and Objects/typeobject.c (type_getattro).
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.records import record
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.function import BoundMethodVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_class_dict = type.__dict__["__dict__"].__get__  # not `cls.__dict__`: a metaclass may say something else
FIXED_PACKAGES = frozenset(sys.stdlib_module_names | {"builtins", "torch", "numpy"}) - {"__main__"}


@record()
class Found:
    """What a name means in a class: the class of the MRO that has it, and what stands in its `__dict__`.

    `stored`: the tracker that this frame has assigned there instead.
    """

    owner: type[Any]
    name: str
    raw: Any
    stored: VariableTracker | None = None

    @property
    def is_data_descriptor(self) -> bool:
        """Whether it wins over the object's own dictionary."""
        return self.stored is None and (hasattr(type(self.raw), "__set__") or hasattr(type(self.raw), "__delete__"))

    @property
    def is_python_function(self) -> bool:
        """Whether it is a function with bytecode (or one made in this frame)."""
        return self.stored is not None or isinstance(self.raw, types.FunctionType)


def class_dict(cls: type[Any]) -> Any:
    """A class's own `__dict__`, whatever its metaclass says."""
    return _class_dict(cls)


def is_made_in_python(cls: type[Any]) -> bool:
    """Whether a class was made by a `class` statement (or the like), not in C."""
    found = _MADE_IN_PYTHON.get(cls)
    if found is None:
        found = bool(cls.__flags__ & _HEAP_TYPE) and not any(
            isinstance(value, _MADE_BY_C) and value.__objclass__ is cls and name not in ("__dict__", "__weakref__")
            for name, value in _class_dict(cls).items()
        )
        _MADE_IN_PYTHON[cls] = found
    return found


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE; types made in C may have it too
_MADE_BY_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
_MADE_IN_PYTHON: weakref.WeakKeyDictionary[type[Any], bool] = weakref.WeakKeyDictionary()


def layout_of(cls: type[Any]) -> type[Any]:
    """The C type on which a class is built: `object` for plain classes, `dict` for one that extends dict."""
    return next((base for base in cls.__mro__ if not is_made_in_python(base)), object)


def is_fixed_class(cls: type[Any]) -> bool:
    """Whether a class is taken as fixed: torch's, the standard library's, any C type."""
    return is_fixed_module(getattr(cls, "__module__", None)) or not is_made_in_python(cls)


def is_fixed_module(name: object) -> bool:
    """Whether the attributes of this module are taken as fixed."""
    return isinstance(name, str) and name.partition(".")[0] in FIXED_PACKAGES


def raw_lookup(cls: type[Any], name: str) -> Any:
    """What stands in the first class of the MRO that has the name, or None; notes nothing."""
    for owner in cls.__mro__:
        found = _class_dict(owner)
        if name in found:
            return found[name]
    return None


def find(ctx: TraceContext, cls: type[Any], name: str, *, after: type[Any] | None = None) -> Found | None:
    """Look a name up in the MRO of `cls` (behind the class `after`, as `super` does), relying on what is found.

    The identity of `cls` must be guarded already. That nothing was found is relied on only by `rely_on_absence`.
    """
    mro = cls.__mro__[cls.__mro__.index(after) + 1 :] if after is not None else cls.__mro__
    for place, owner in enumerate(mro):
        changed = _changed_in(ctx, owner)
        stored = changed.get(name)
        if stored is not None:
            return Found(owner, name, None, stored)
        own = _class_dict(owner)
        if name in own and name not in changed:
            _rely(ctx, mro[:place], owner, name, own[name])
            return Found(owner, name, own[name])
    return None


def _rely(ctx: TraceContext, before: tuple[type[Any], ...], owner: type[Any], name: str, raw: Any) -> None:
    """The owner has this attribute, and no class before it in the MRO has one."""
    for cls in before:
        _rely_on_absence_in(ctx, cls, name)
    if not is_fixed_class(owner):
        ctx.module_guards.hold(owner, owner.__qualname__)
        ctx.module_guards.rely_on_value(owner, name, raw)


def rely_on_absence(ctx: TraceContext, cls: type[Any], name: str) -> None:
    """No class of the MRO has this name."""
    for owner in cls.__mro__:
        _rely_on_absence_in(ctx, owner, name)


def _rely_on_absence_in(ctx: TraceContext, owner: type[Any], name: str) -> None:
    if not is_fixed_class(owner):
        ctx.module_guards.hold(owner, owner.__qualname__)
        ctx.module_guards.rely_on_absence(owner, name)


def _changed_in(ctx: TraceContext, owner: type[Any]) -> Mapping[str, VariableTracker | None]:
    """The attributes of a class that this frame has assigned, or deleted (None)."""
    changed: Mapping[str, VariableTracker | None] | None = getattr(ctx.journal.tracker_of(owner), "stored", None)
    return changed or {}


def attribute_source(ctx: TraceContext, found: Found) -> Source | None:
    """The source of a class attribute: `getattr(owner, name)`, whose identity is a known fact. None where it is fixed."""
    if is_fixed_class(found.owner):
        return None
    owner = ctx.module_guards.source_of(found.owner, found.owner.__qualname__)
    source = owner.attribute(found.name, "getattr")
    ctx.module_guards.know_value(source)
    return source


# -- binding ----------------------------------------------------------------------------------------------------------

Binder = Callable[["TraceContext", Found, "VariableTracker | None", type[Any]], VariableTracker]

BINDERS: dict[type[Any], Binder] = {}
# Methods whose meaning is known, whatever function stands there by now (torch replaces nn.Module.__init__ at run time).
KNOWN_METHODS: dict[tuple[type[Any], str], Binder] = {}


def binds(*descriptor_types: type[Any]) -> Callable[[Binder], Binder]:
    """Declare how a descriptor of these types binds to an instance (None: accessed through the class)."""

    def declare(binder: Binder) -> Binder:
        for descriptor_type in descriptor_types:
            BINDERS[descriptor_type] = binder
        return binder

    return declare


def bind(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """What `instance.name` (or `cls.name` for instance None) gives, once the class lookup has found something."""
    if found.stored is not None:
        return _bind_stored(found.stored, instance)
    binder = KNOWN_METHODS.get((found.owner, found.name)) or _binder_of(type(found.raw))
    if binder is not None:
        return binder(ctx, found, instance, cls)
    if hasattr(type(found.raw), "__get__"):
        return _bind_user_descriptor(ctx, found, instance, cls)
    return ctx.build(found.raw, attribute_source(ctx, found) or constant_source(ctx, found))


def _binder_of(descriptor_type: type[Any]) -> Binder | None:
    """How a descriptor of this type binds: as that of a type below which it extends, if it keeps its `__get__`."""
    found = BINDERS.get(descriptor_type)
    if found is not None or not hasattr(descriptor_type, "__get__"):
        return found
    inherited = raw_lookup(descriptor_type, "__get__")
    return next(
        (BINDERS[base] for base in descriptor_type.__mro__ if base in BINDERS and vars(base).get("__get__") is inherited), None
    )


def constant_source(ctx: TraceContext, found: Found) -> Source | None:
    """A source for an object that stands in a fixed class: it is the same in every call."""
    source = ctx.module_guards.source_of(found.owner, found.owner.__qualname__).attribute(found.name, "getattr")
    ctx.module_guards.know(source)
    return source


def _bind_stored(stored: VariableTracker, instance: VariableTracker | None) -> VariableTracker:
    if instance is not None and stored.kind == "function":
        return BoundMethodVariable(stored, instance)
    return stored


@binds(types.FunctionType)
def _bind_function(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    function = ctx.build(found.raw, attribute_source(ctx, found))
    return function if instance is None else BoundMethodVariable(function, instance)


@binds(staticmethod)
def _bind_static(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    return ctx.build(found.raw.__func__, attribute_source(ctx, found))


@binds(classmethod)
def _bind_class_method(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    source = attribute_source(ctx, found)
    if source is not None:
        source = source.attribute("__func__", "getattr")
        ctx.module_guards.know_value(source)
    if not isinstance(found.raw.__func__, types.FunctionType):
        ctx.break_graph("DX303", name=found.name, type=cls.__qualname__)
    return BoundMethodVariable(ctx.build(found.raw.__func__, source), class_tracker(ctx, cls))


def class_tracker(ctx: TraceContext, cls: type[Any]) -> VariableTracker:
    """The tracker of a class whose identity is guarded already."""
    source = ctx.module_guards.source_of(cls, cls.__qualname__)
    ctx.module_guards.know(source)
    return ctx.build(cls, source)


@binds(property)
def _bind_property(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    if instance is None:
        return ctx.build(found.raw, constant_source(ctx, found))
    if found.raw.fget is None:
        ctx.raise_exception(AttributeError, f"property {found.name!r} of {cls.__qualname__!r} object has no getter")
    return ctx.call_function(accessor(ctx, found, "fget"), [instance], {})


def accessor(ctx: TraceContext, found: Found, which: str) -> VariableTracker:
    """The getter, setter or deleter of a property."""
    source = attribute_source(ctx, found)
    if source is not None:
        source = source.attribute(which, "getattr")
        ctx.module_guards.know_value(source)
    return ctx.build(getattr(found.raw, which), source)


@binds(functools.cached_property)
def _bind_cached_property(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    if instance is None:
        return ctx.build(found.raw, constant_source(ctx, found))
    value = ctx.call_function(ctx.build(found.raw.func, None), [instance], {})
    instance.store_own(ctx, found.name, value)  # type: ignore[attr-defined]
    return value


@binds(types.BuiltinFunctionType)
def _bind_builtin(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    return ctx.build(found.raw, None)  # a C function is no descriptor: `activation = torch.relu` in a class body


def _bind_user_descriptor(ctx: TraceContext, found: Found, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """A descriptor class of the program: its `__get__` is called."""
    getter = find(ctx, type(found.raw), "__get__")
    if getter is None or not isinstance(getter.raw, types.FunctionType):
        ctx.break_graph("DX303", name=found.name, type=cls.__qualname__)
    descriptor = ctx.build(found.raw, attribute_source(ctx, found) or constant_source(ctx, found))
    method = bind(ctx, getter, descriptor, type(found.raw))
    return ctx.call_function(method, [instance or ctx.build(None, None), class_tracker(ctx, cls)], {})
