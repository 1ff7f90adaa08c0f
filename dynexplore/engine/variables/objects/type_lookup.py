"""Attribute lookup in a class: CPython's `_PyType_Lookup`, and the guard on its result.

The idea: the first class of the MRO whose `__dict__` contains the name wins. `find` does the lookup and guards its result, a miss
included, as a fact of `provenance/module_guards.py` that is checked through the version tag of the class. A plain value that
changes from call to call (`K.count += 1`) gets a source, and only the class that defines it is guarded. `peek` looks up without a
guard.

In: a class and a name. Out: the raw attribute; descriptors.py binds it to an instance. PyTorch's counterpart:
`lookup_class_mro_attr` in torch/_dynamo/variables/user_defined.py. Mirrors CPython's Objects/typeobject.c (_PyType_Lookup).
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.native import compares_name
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.identity_facts import ABSENT
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_dict, class_mro, class_qualname, is_heap_type, is_immutable_type
from dynexplore.engine.records import record
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

FIXED_PACKAGES = frozenset(sys.stdlib_module_names | {"builtins", "torch", "numpy"}) - {"__main__"}


@record()
class ClassAttribute:
    """The result of a class lookup: the class of the MRO that defines the name, and the raw value in its `__dict__`.

    `stored`: the tracker that the frame has assigned there instead.
    """

    owner: type[Any]
    name: str
    raw: Any
    stored: VariableTracker | None = None

    @property
    def is_data_descriptor(self) -> bool:
        """Whether it takes precedence over the object's own `__dict__`."""
        return self._has_method("__set__") or self._has_method("__delete__")

    @property
    def overrides_instance_dict(self) -> bool:
        """Whether it is used even if the object has an attribute of that name: a data descriptor with a getter."""
        return self.is_data_descriptor and self._has_method("__get__")

    def _has_method(self, name: str) -> bool:
        cls = type(self.raw) if self.stored is None else type_of(self.stored)
        return cls is not None and hasattr(cls, name)

    @property
    def is_python_function(self) -> bool:
        """Whether it is a function with bytecode, or one created in the frame."""
        return self.stored is not None or isinstance(self.raw, types.FunctionType)


def is_python_class(cls: type[Any]) -> bool:
    """Whether a class was created by Python code (a class statement or a call of a metaclass), not in C."""
    _, is_python = _PYTHON_CLASSES.get(id(cls), (None, None))
    if is_python is None:
        is_python = is_heap_type(cls) and not any(
            isinstance(value, _MADE_BY_C) and value.__objclass__ is cls and name not in ("__dict__", "__weakref__")
            for name, value in class_dict(cls).items()
        )
        key = id(cls)
        _PYTHON_CLASSES[key] = weakref.ref(cls, functools.partial(_PYTHON_CLASSES.pop, key)), is_python
    return is_python


_MADE_BY_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
_PYTHON_CLASSES: dict[int, tuple[weakref.ref[type[Any]], bool]] = {}  # by identity: a metaclass may have an `__eq__`


def layout_of(cls: type[Any]) -> type[Any]:
    """The C base type of a class: `object` for plain classes, `dict` for one that extends dict."""
    return next((base for base in class_mro(cls) if not is_python_class(base)), object)


def is_fixed_class(cls: type[Any]) -> bool:
    """Whether a class is assumed not to change: one of torch, of the standard library, or any C type."""
    if not is_python_class(cls):
        return True
    return is_fixed_module(class_dict(cls).get("__module__"))


def is_fixed_module(name: object) -> bool:
    """Whether the attributes of this module are assumed not to change."""
    return isinstance(name, str) and name.partition(".")[0] in FIXED_PACKAGES


def peek(cls: type[Any], name: str) -> Any:
    """The raw value in the first class of the MRO that has the name, or None; without a guard."""
    for owner in class_mro(cls):
        own = class_dict(owner)
        if name in own:
            return own[name]
    return None


def defines(cls: type[Any], name: str) -> bool:
    """Whether a class or one of its bases has the name, even with the value None;
    without a guard and without calling descriptors.
    """
    return any(name in class_dict(owner) for owner in class_mro(cls))


def raw_lookup(ctx: TraceContext, cls: type[Any], name: str) -> Any:
    """The raw value in the first class of the MRO that has the name, or None; the result is guarded either way."""
    for owner in class_mro(cls):
        own = _names_in(ctx, owner, name)
        if name in own:
            ctx.module_guards.guard_on_lookup(cls, name, own[name], owner=owner)
            return own[name]
    ctx.module_guards.guard_on_lookup(cls, name, ABSENT)
    return None


def is_created_in_c(ctx: TraceContext, cls: type[Any]) -> bool:
    """Whether calling the class runs a C type's own `__new__`: no function, classmethod or other object of the program."""
    return is_c_constructor(raw_lookup(ctx, cls, "__new__"))


def is_c_constructor(raw: Any) -> bool:
    """Whether a raw `__new__` is that of a C type."""
    return isinstance(raw, types.BuiltinFunctionType) and raw.__name__ == "__new__" and isinstance(raw.__self__, type)


def has_name(ctx: TraceContext, cls: type[Any], name: str) -> bool:
    """Whether a class of the MRO has the name, even with the value None; guarded either way."""
    return raw_lookup(ctx, cls, name) is not None or any(name in class_dict(owner) for owner in class_mro(cls))


def find(ctx: TraceContext, cls: type[Any], name: str, *, after: type[Any] | None = None) -> ClassAttribute | None:
    """Look a name up in the MRO of `cls` (after the class `after`, as `super` does), and guard the result.

    The identity of `cls` must already be guarded.
    """
    mro = class_mro(cls)[class_mro(cls).index(after) + 1 :] if after is not None else class_mro(cls)
    touched = False
    for index, owner in enumerate(mro):
        changed = _changed_in(ctx, owner)
        stored = changed.get(name)
        if stored is not None:
            _guard_on_absence_in(ctx, mro[:index], name)
            return ClassAttribute(owner, name, None, stored)
        own = _names_in(ctx, owner, name)
        if name in own and name not in changed:
            _guard_on_lookup(ctx, cls, after, owner, name, own[name])
            return ClassAttribute(owner, name, own[name])
        touched |= name in changed
    if not touched:
        ctx.module_guards.guard_on_lookup(cls, name, ABSENT, after=after)
    return None


def _names_in(ctx: TraceContext, owner: type[Any], name: str) -> Any:
    """A class's own attributes, for the lookup of a name. Breaks the graph if the lookup would call the `__eq__` of a key."""
    own = class_dict(owner)
    if type(own) is dict and compares_name(owner, name):
        ctx.break_graph("DX303", name=name, type=class_qualname(owner))
    return own


def _guard_on_lookup(ctx: TraceContext, cls: type[Any], after: type[Any] | None, owner: type[Any], name: str, raw: Any) -> None:
    """Guard that the lookup finds this attribute; if its value changes from call to call, only that it is found in this class."""
    if is_matched_by_identity(ctx, owner, name, raw):
        is_program_class = not is_fixed_class(owner)
        ctx.module_guards.guard_on_lookup(cls, name, raw, owner=owner, after=after, is_explicit=is_program_class)
        _guard_on_binding(ctx, raw, f"{class_qualname(owner)}.{name}")
    else:
        ctx.module_guards.guard_on_owner(cls, name, owner, after=after)


def _guard_on_binding(ctx: TraceContext, raw: Any, label: str) -> None:
    """Guard the attribute's type, which determines whether it is a descriptor and takes precedence over the instance dict."""
    cls = type(raw)
    if not is_fixed_class(cls):
        ctx.module_guards.track(raw, label)
        for method in ("__get__", "__set__", "__delete__"):
            raw_lookup(ctx, cls, method)


def is_matched_by_identity(ctx: TraceContext, owner: type[Any], name: str, raw: Any) -> bool:
    """Whether a class attribute is guarded by identity: not if it is a plain value that has changed before (`K.count += 1`)."""
    return hasattr(type(raw), "__get__") or name.startswith("__") or ctx.specializer.specializes(_source_in(ctx, owner, name))


def _source_in(ctx: TraceContext, owner: type[Any], name: str) -> Source:
    return ctx.module_guards.source_of(owner, class_qualname(owner)).attribute(name, "getattr")


def source_in(ctx: TraceContext, attribute: ClassAttribute) -> Source:
    """The source of a class attribute; one for which `owner.name` would call a descriptor is read from the class's `__dict__`."""
    if not isinstance(peek(type(attribute.raw), "__get__"), types.FunctionType):
        return _source_in(ctx, attribute.owner, attribute.name)
    owner = ctx.module_guards.source_of(attribute.owner, class_qualname(attribute.owner))
    return owner.attribute("__dict__", "getattr").item(attribute.name)


def guard_on_absence(ctx: TraceContext, cls: type[Any], name: str) -> None:
    """Guard that no class of the MRO has a name that the program looked up."""
    if not any(name in _changed_in(ctx, owner) for owner in class_mro(cls)):
        ctx.module_guards.guard_on_lookup(cls, name, ABSENT, is_explicit=True)


def _guard_on_absence_in(ctx: TraceContext, classes: Sequence[type[Any]], name: str) -> None:
    """Guard that none of these classes has the name, so the value that the frame stored in a later class is found."""
    for owner in classes:
        if not is_fixed_class(owner):
            ctx.module_guards.track(owner, class_qualname(owner))
            ctx.module_guards.guard_on_absence(owner, name)


def _changed_in(ctx: TraceContext, owner: type[Any]) -> Mapping[str, VariableTracker | None]:
    """The attributes of a class that the frame has assigned or deleted (None)."""
    changed: Mapping[str, VariableTracker | None] | None = getattr(ctx.journal.tracker_of(owner), "stored", None)
    return changed or {}


# Names that CPython looks up on a type implicitly.
SPECIAL_NAMES = tuple(
    f"__{name}__"
    for name in (
        *("getattribute", "getattr", "setattr", "class", "call", "bool", "len", "iter", "next", "getitem", "setitem", "contains"),
        *("missing", "eq", "ne", "lt", "le", "gt", "ge", "hash", "add", "radd", "sub", "rsub", "mul", "rmul"),
        *("truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow", "matmul", "rmatmul", "and", "rand"),
        *("or", "ror", "xor", "rxor"),
        *("lshift", "rlshift", "rshift", "rrshift", "neg", "pos", "invert", "abs", "float", "int", "index", "str", "repr"),
        *("format", "enter", "exit"),
    )
)


def guard_on_names(ctx: TraceContext, cls: type[Any], *names: str) -> None:
    """Guard the lookup of these names through the class, for a tracker that implements the class's behavior itself."""
    if not is_immutable_type(cls):
        for name in names:
            find(ctx, cls, name)


def guard_on_class_of(ctx: TraceContext, value: object, source: Source) -> None:
    """Guard an existing object's class, even if its identity is known: `__class__` can be assigned."""
    ctx.guard(source, "TYPE_MATCH", type(value))
    if ctx.module_guards.fixes_identity(source) and ctx.module_guards.track(value, source.text(), source) is None:
        ctx.guard(source.type(), "ID_MATCH", Identity(type(value), keep=False))


def guard_on_name_of(ctx: TraceContext, cls: type[Any]) -> None:
    """Guard a class's `__name__`: the version tag does not always cover it (3.13)."""
    if not is_immutable_type(cls):
        source = ctx.module_guards.source_of(cls, class_qualname(cls)).attribute("__name__", "getattr")
        ctx.guard(source, "EQUALS", cls.__name__)


def guard_on_plain_access(ctx: TraceContext, cls: type[Any], name: str) -> None:
    """For a tracker that implements `value.name` itself: break the graph if user code
    implements it, and guard that none does later.
    """
    guard_on_names(ctx, cls, "__getattribute__", name)
    if isinstance(peek(cls, "__getattribute__"), types.FunctionType):
        ctx.break_graph("DX303", name=name, type=class_qualname(cls))


def refuse_missing(ctx: TraceContext, cls: type[Any], name: str) -> None:
    """A name is missing: break the graph if a user-defined `__getattr__` would be called, and guard that none is added later."""
    guard_on_absence(ctx, cls, name)
    guard_on_names(ctx, cls, "__getattr__")
    if isinstance(peek(cls, "__getattr__"), types.FunctionType):
        ctx.break_graph("DX303", name=name, type=class_qualname(cls))


def attribute_source(ctx: TraceContext, attribute: ClassAttribute) -> Source | None:
    """The source of a class attribute: `getattr(owner, name)`, whose identity is a known fact. None if it is fixed."""
    by_identity = is_matched_by_identity(ctx, attribute.owner, attribute.name, attribute.raw)
    if by_identity and is_fixed_class(attribute.owner):
        return None
    source = source_in(ctx, attribute)
    if by_identity:
        ctx.module_guards.note_value_identity(source)
    return source
