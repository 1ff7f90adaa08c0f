"""Classes: their attributes, and the instances that calling them creates.

The idea: `C.name` looks for a data descriptor in the metaclass, then along C's own MRO, as CPython's type_getattro does. `C(...)`
is `type.__call__`: `__new__`, then `__init__` if the result is an instance. For a class written in Python both are inlined, on a
`UserObjectVariable` that becomes a real object only if it outlives the frame. Builtin types (`list`, `dict`, `int`) have rules of
their own (rules.py); exceptions are in exception.py, enumerations in scalars/enumeration.py.

Attributes that the frame assigns to a class are in `stored` and in the journal.

In: a live class. Out: attributes, new objects. PyTorch's counterpart: `UserDefinedClassVariable` in
torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import (
    class_dict,
    class_flags,
    class_mro,
    class_name,
    class_qualname,
    is_c_type,
    is_immutable_type,
    is_subtype,
)
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.contract.build import builds, builds_when
from dynexplore.engine.variables.contract.write_back import write_attributes
from dynexplore.engine.variables.objects.descriptors import bind, binds, class_tracker
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import (
    ClassAttribute,
    attribute_source,
    find,
    guard_on_absence,
    guard_on_names,
    guard_on_plain_access,
    is_c_constructor,
    is_fixed_class,
    layout_of,
    peek,
    raw_lookup,
)
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.rules import rule, rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.special_results import call_length_hint, checked_iterator, checked_result, checked_truth
from dynexplore.engine.variables.scalars.specialize import fixed_nest, specialize_bool

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_CONSTANT_ATTRIBUTES = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})

# How to create an instance of a class that extends one of these C types: a function of (class tracker, args, kwargs).
Maker = Callable[["TraceContext", "ClassVariable", "Sequence[VariableTracker]", "Mapping[str, VariableTracker]"], VariableTracker]
_MAKERS: list[tuple[type[Any], Maker]] = []


def makes(layout: type[Any]) -> Callable[[Maker], Maker]:
    """Declare how calling a subclass of this C type (or Python class) creates its instance; later declarations are tried first."""

    def declare(maker: Maker) -> Maker:
        _MAKERS.insert(0, (layout, maker))
        return maker

    return declare


class ClassVariable(VariableTracker):
    """A live class; see the head of this file."""

    kind = "class"
    mutable = True

    def __init__(self, value: type[Any], source: Source | None) -> None:
        self.value = value
        self.source = source
        self.stored: dict[str, VariableTracker | None] = {}
        self._set_before_deleted: set[str] = set()

    # -- what it is

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        if raw_lookup(ctx, type(self.value), "__bool__") is not None:
            return checked_truth(ctx, type(self.value), self._special(ctx, "__bool__", "bool()").call(ctx, [], {}))
        return True if raw_lookup(ctx, type(self.value), "__len__") is None else self.length(ctx).truth(ctx)

    def hash_key(self, ctx: TraceContext) -> object:
        hasher = raw_lookup(ctx, type(self.value), "__hash__")
        if hasher is None:
            ctx.raise_exception(TypeError, f"unhashable type: {type(self.value).__name__!r}")
        own = isinstance(hasher, types.FunctionType) and not is_fixed_class(type(self.value))
        return super().hash_key(ctx) if own else self.value

    def same_object(self, other: VariableTracker) -> bool | None:
        return isinstance(other, ClassVariable) and self.value is other.value

    def text(self) -> str:
        return f"class {class_qualname(self.value)}"

    def as_proxy(self) -> Any:
        return self.value

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        return dict(self.stored)

    # -- attributes

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        metaclass = type(self.value)
        guard_on_plain_access(ctx, metaclass, name)
        fixed = _FIXED_ATTRIBUTES.get(name)
        if fixed is not None and peek(metaclass, name) is peek(type, name):
            return fixed(ctx, self)
        if name in _CONSTANT_ATTRIBUTES and name not in self.stored:
            return self._text_attribute(ctx, name)
        above = self._in_metaclass(ctx, metaclass, name)
        if above is not None and above.overrides_instance_dict:
            return bind(ctx, above, self, metaclass)
        attribute = find(ctx, self.value, name)
        if attribute is not None:
            return bind(ctx, attribute, None, self.value)
        if above is not None:
            return bind(ctx, above, self, metaclass)
        hook = None if metaclass is type else find(ctx, metaclass, "__getattr__")
        guard_on_absence(ctx, self.value, name)
        if hook is not None:
            return bind(ctx, hook, self, metaclass).call(ctx, [ConstantVariable(name)], {})
        ctx.raise_exception(AttributeError, f"type object {class_name(self.value)!r} has no attribute {name!r}")

    def _text_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        """`__name__` and similar attributes: kept by the type itself, or in the class's `__dict__`."""
        above = peek(self.python_type(), name)  # the metaclass's own docstring and module do not apply to its classes
        if above is not peek(type, name) and hasattr(type(above), "__get__"):
            ctx.break_graph("DX303", name=name, type=self.text())  # the metaclass computes it, perhaps in user code
        value = getattr(self.value, name)
        if not is_immutable_type(self.value):
            source = ctx.module_guards.source_of(self.value, class_qualname(self.value)).attribute(name, "getattr")
            return ctx.build(value, source)
        return ctx.build(value, None)

    def _in_metaclass(self, ctx: TraceContext, metaclass: type[Any], name: str) -> ClassAttribute | None:
        return None if metaclass is type and peek(type, name) is None else find(ctx, metaclass, name)

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        self._check_assignable(ctx, name)
        self._note_change(ctx, name)
        self.stored[name] = value

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        self._check_assignable(ctx, name)
        if name not in self.stored:
            find(ctx, self.value, name)  # for its guard
        if self.stored.get(name) is None and (name in self.stored or name not in class_dict(self.value)):
            ctx.raise_exception(AttributeError, f"type object {class_name(self.value)!r} has no attribute {name!r}")
        self._note_change(ctx, name)
        if name in self.stored:
            self._set_before_deleted.add(name)
        self.stored[name] = None

    def _note_change(self, ctx: TraceContext, name: str) -> None:
        """Record that an attribute is about to change."""
        ctx.module_guards.writes_to(self.value)
        ctx.journal.must_replay(self, f"{class_qualname(self.value)}.{name}")

    def _check_assignable(self, ctx: TraceContext, name: str) -> None:
        guard_on_names(ctx, type(self.value), "__setattr__", "__delattr__", name)
        plain = type(self.value).__setattr__ is type.__setattr__ and not (name.startswith("__") and name.endswith("__"))  # type: ignore[comparison-overlap]
        if is_fixed_class(self.value) or not plain:
            ctx.break_graph("DX314", what=f"{class_qualname(self.value)}.{name}")

    # -- special methods of the metaclass

    def length(self, ctx: TraceContext) -> VariableTracker:
        length = self._special(ctx, "__len__", "len()").call(ctx, [], {})
        return checked_result(ctx, len, type(self.value), "__len__", length)

    def length_hint(self, ctx: TraceContext) -> None:
        metaclass = type(self.value)

        def special(name: str) -> VariableTracker | None:
            method = find(ctx, metaclass, name)
            return None if method is None else bind(ctx, method, self, metaclass)

        call_length_hint(ctx, metaclass, special)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return checked_iterator(ctx, self._special(ctx, "__iter__", "iteration").call(ctx, [], {}))

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(specialize_bool(ctx, self._special(ctx, "__contains__", "`in`").call(ctx, [item], {})))

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """`List[int]`, `Generic[T]`: an annotation, or the result of `__class_getitem__`."""
        if raw_lookup(ctx, type(self.value), "__getitem__") is not None:
            return self._special(ctx, "__getitem__", "subscript").call(ctx, [key], {})
        if is_fixed_class(self.value):
            key.read_items(ctx)
            try:
                return ctx.build(self.value[fixed_nest(ctx, key)], None)
            except (NotConstant, TypeError):
                pass
            except SyntaxError as error:  # a forward reference that does not parse
                ctx.raise_exception(SyntaxError, *error.args)
        return self.get_attribute(ctx, "__class_getitem__").call(ctx, [key], {})

    def _special(self, ctx: TraceContext, name: str, question: str) -> VariableTracker:
        method = find(ctx, type(self.value), name)
        if method is None or not method.is_python_function:
            ctx.break_graph("DX302", question=question, type=f"class {class_qualname(self.value)}")
        return bind(ctx, method, self, type(self.value))

    # -- calls

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        row = rule_for(self.value)
        if row is not None:
            return row.call(ctx, self.value, args, kwargs)
        maker = raw_lookup(ctx, type(self.value), "__call__")
        if isinstance(maker, type):  # `__call__ = dict` in the metaclass of TypedDict
            return ctx.build(maker, None).call(ctx, args, kwargs)
        if isinstance(maker, types.FunctionType):
            return self._special(ctx, "__call__", "call").call(ctx, args, kwargs)
        return self.construct(ctx, args, kwargs)

    def construct(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """type.__call__, with the instance creation that the C base type requires."""
        _refuse_finalized(ctx, self.value)
        for layout, maker in _MAKERS:
            if issubclass(self.value, layout):
                return maker(ctx, self, args, kwargs)
        return self.make_instance(ctx, args, kwargs)

    def make_instance(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`__new__`, then `__init__`."""
        instance = self.new(ctx, args, kwargs)
        if is_subtype(instance.python_type(), self.value):
            initialize(ctx, instance, args, kwargs)
        return instance

    def new(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`cls.__new__(cls, ...)`."""
        constructor = find(ctx, self.value, "__new__")
        assert constructor is not None
        if constructor.stored is None and is_c_constructor(constructor.raw):
            return new_instance(ctx, self, args, kwargs)
        return bind(ctx, constructor, None, self.value).call(ctx, [self, *args], kwargs)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)

    def write_back(self, build: Reconstruction) -> None:
        write_attributes(build, self, self.stored, set_first=self._set_before_deleted)


def _refuse_finalized(ctx: TraceContext, cls: type[Any]) -> None:
    """Break the graph at the creation of an object with `__del__`: its finalizer must run
    for real. C types without external effects are exempt.
    """
    if raw_lookup(ctx, cls, "__del__") is not None and not (is_c_type(cls) and kind_of_break(cls, "DX209") == "DX209"):
        ctx.break_graph("DX321", type=class_qualname(cls))


_IS_ABSTRACT = 1 << 20  # Py_TPFLAGS_IS_ABSTRACT, as in object_new: `__abstractmethods__` could call a metaclass's `__getattr__`


def new_instance(ctx: TraceContext, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """object.__new__, or that of the C base type."""
    _refuse_finalized(ctx, cls.value)
    if layout_of(cls.value) not in (object, types.SimpleNamespace) or (cls.value is object and (args or kwargs)):
        ctx.break_graph(kind_of_break(cls.value, "DX209"), type=class_qualname(cls.value))
    if class_flags(cls.value) & _IS_ABSTRACT:
        ctx.break_graph(kind_of_break(cls.value, "DX209"), type=class_qualname(cls.value))  # Python raises its TypeError
    return UserObjectVariable(cls.value, class_variable=cls)


def initialize(ctx: TraceContext, instance: VariableTracker, args: Args, kwargs: Kwargs) -> None:
    """Call `__init__` on a new instance."""
    cls = instance.python_type()
    initializer = find(ctx, cls, "__init__")
    assert initializer is not None
    if initializer.is_python_function or initializer.raw is not object.__init__:
        returned = bind(ctx, initializer, instance, cls).call(ctx, args, kwargs)
        if not (returned.is_constant() and returned.as_constant() is None):
            ctx.raise_exception(TypeError, f"__init__() should return None, not {returned.python_type().__name__!r}")
    elif (args or kwargs) and raw_lookup(ctx, cls, "__new__") is object.__new__:
        ctx.raise_exception(TypeError, f"{class_name(cls)}() takes no arguments")


@rule(object.__new__)
def _object_new(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not args or not isinstance(args[0], ClassVariable):
        ctx.break_graph("DX205", function="object.__new__", arguments=", ".join(arg.type_name() for arg in args))
    if len(args) > 1 or kwargs:
        _refuse_arguments(ctx, args[0].value)
    return new_instance(ctx, args[0], (), {})


def _refuse_arguments(ctx: TraceContext, cls: type[Any]) -> None:
    """`object.__new__(cls, 42)`: CPython's object_new (Objects/typeobject.c) accepts
    arguments only if the class has an `__init__`.
    """
    if raw_lookup(ctx, cls, "__new__") is not object.__new__:
        ctx.raise_exception(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
    if raw_lookup(ctx, cls, "__init__") is object.__init__:
        ctx.raise_exception(TypeError, f"{class_name(cls)}() takes no arguments")


@rule(object)
def _object(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    if args or kwargs:
        ctx.raise_exception(TypeError, "object() takes no arguments")
    return UserObjectVariable(object, class_variable=ctx.build(object, None))


@rule(type.__call__)
def _type_call(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """super().__call__(...) in a metaclass."""
    if not args or not isinstance(args[0], ClassVariable):
        ctx.break_graph("DX205", function="type.__call__", arguments=", ".join(arg.type_name() for arg in args))
    return args[0].construct(ctx, args[1:], kwargs)


# -- attributes that every class has ----------------------------------------------------------------------------------


def _metaclass(ctx: TraceContext, cls: ClassVariable) -> VariableTracker:
    return class_tracker(ctx, type(cls.value))


def _classes(which: str) -> Callable[[Any, ClassVariable], VariableTracker]:
    def give(ctx: TraceContext, cls: ClassVariable) -> VariableTracker:
        ctx.module_guards.guard_on_bases(cls.value)
        for base in class_mro(cls.value):
            class_tracker(ctx, base)
        classes = getattr(cls.value, which)
        if which == "__bases__" and not is_fixed_class(cls.value):  # new already while a metaclass's `mro` runs, the MRO is not
            source = ctx.module_guards.source_of(cls.value, class_qualname(cls.value)).attribute("__bases__", "getattr")
            ctx.guard(source, "ID_MATCH", Identity(classes, keep=True))
        return ctx.build(classes, None)

    return give


_FIXED_ATTRIBUTES: dict[str, Callable[[Any, ClassVariable], VariableTracker]] = {
    "__class__": _metaclass,
    "__mro__": _classes("__mro__"),
    "__bases__": _classes("__bases__"),
    "__base__": lambda ctx, cls: class_tracker(ctx, cls.value.__base__ or object),
}


@binds(type)
def _bind_nested_class(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    return ctx.build(attribute.raw, attribute_source(ctx, attribute))


@builds(type)
@builds_when(lambda value: issubclass(type(value), type), rank=20)
def build_class(ctx: TraceContext, value: type[Any], source: Source | None) -> VariableTracker:
    """A class, guarded by identity; attributes read later are guarded if they can change."""
    if class_mro(value) is None:
        ctx.break_graph("DX302", type=f"a class that has no MRO yet ({class_name(value)})")  # its metaclass's `mro` runs
    guard_identity(ctx, value, source)
    hold_class(ctx, value)
    return ClassVariable(value, source)


def hold_class(ctx: TraceContext, cls: type[Any]) -> None:
    """Guard the metaclass of a user-defined class, which can be reassigned."""
    if not is_fixed_class(cls):
        ctx.module_guards.track(cls, class_qualname(cls))
