"""Instances of classes that extend a builtin container: `class Output(OrderedDict)`, `class Sizes(tuple)`.

The idea: such an object has two parts. What its class adds (attributes, methods, overridden special methods) works as for any
user-defined object. Its content is its **storage**, a tracker of the C base type (`OrderedDictVariable`). A method that the class
does not override is the C type's and operates on the storage, as does `super().__setitem__(key, value)`.

In: existing instances, and calls of such classes. Out: `UserObjectVariable`s with a storage; mutations are replayed with the C
type's methods, bypassing overrides. PyTorch's counterpart: `UserDefinedDictVariable`, `UserDefinedListVariable` and their neighbors
in torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.provenance.sources import CallSource, DictItemSource, Source
from dynexplore.engine.raw_attributes import bound_method, class_dict, keys_of, values_of
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.list_items import tuple_items
from dynexplore.engine.variables.containers.mapping import DictVariable, OrderedDictVariable, become, pairs_of
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import SetVariable, fill_set
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.class_ import ClassVariable, initialize, makes
from dynexplore.engine.variables.objects.descriptors import binds, class_tracker
from dynexplore.engine.variables.objects.type_lookup import (
    SPECIAL_NAMES,
    ClassAttribute,
    guard_on_class_of,
    guard_on_names,
    is_created_in_c,
    layout_of,
    peek,
    raw_lookup,
)
from dynexplore.engine.variables.objects.user_hash_key import refuse_collisions
from dynexplore.engine.variables.objects.user_object import CMethodVariable, UserObjectVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable, returns_receiver, run_now
from dynexplore.engine.variables.scalars.specialize import is_specializable, specialize

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

# The supported C base types, and the tracker of an empty instance's storage.
_CONTAINERS: dict[type[Any], Callable[[], VariableTracker]] = {
    OrderedDict: OrderedDictVariable, dict: DictVariable, list: lambda: ListVariable([]), set: SetVariable,
}
# Immutable ones: how an instance is converted to the C type itself, bypassing overridden methods.
_IMMUTABLE: dict[type[Any], Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, str: str.__str__, tuple: lambda value: tuple(tuple.__iter__(value)),
}
# These OrderedDict methods get and set items through the class (Objects/odictobject.c); dict's methods do not.
_THROUGH_ITEMS = ("update", "setdefault", "__ior__")
_ITEMS = ("update", "setdefault", "__ior__")
# What changes the items of a dict.
_MUTATING = frozenset({"__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update", "move_to_end"})
_ITEMS = ("__getitem__", "__setitem__", "__contains__")
# If a class overrides one of these, the C methods no longer reflect the content.
_WALKING = ("__iter__", "__len__")


class BuiltinSubclassVariable(UserObjectVariable):
    """A user-defined object with a storage."""

    is_its_attributes = False

    def __init__(self, cls: type[Any], *, value: Any = None, source: Source | None = None,
                 class_variable: VariableTracker | None = None, storage: VariableTracker | None = None) -> None:
        super().__init__(cls, value=value, source=source, class_variable=class_variable, storage=storage)
        if storage is not None and layout_of(cls) in _CONTAINERS:
            storage.storage_owner = self
        if isinstance(storage, TupleVariable):
            storage.is_content = True

    @property
    def layout(self) -> Any:
        """The C base type."""
        return layout_of(self.cls)

    def content(self) -> VariableTracker:
        """The tracker of the builtin container that the class extends."""
        assert self.storage is not None
        return self.storage

    def container(self) -> VariableTracker:
        return self.content()

    def is_constant(self) -> bool:
        return False

    def c_method(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker | None:
        if attribute.owner is object:
            return None
        if attribute.name in _OWN_HANDLERS:
            return CMethodVariable(self, attribute.name, _OWN_HANDLERS[attribute.name])
        if attribute.owner is OrderedDict and attribute.name in _OF_ITS_CLASS:
            return CMethodVariable(self, attribute.name, _OF_ITS_CLASS[attribute.name])
        if self.layout is OrderedDict and attribute.name in _THROUGH_ITEMS and self._has_items_of_its_own(ctx):
            ctx.break_graph("DX213", method=f"OrderedDict.{attribute.name}", type=self.cls.__qualname__)
        return _StorageMethodVariable(self, attribute)

    def _has_items_of_its_own(self, ctx: TraceContext) -> bool:
        return any(isinstance(raw_lookup(ctx, self.cls, name), types.FunctionType) for name in _ITEMS)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        method = self.special(ctx, "__getitem__")
        return method.call(ctx, [key], {}) if method is not None else self.storage_item(ctx, key)

    def storage_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """dict.__getitem__ and its counterparts; a dict calls the class's `__missing__`."""
        if isinstance(self.storage, DictVariable):
            item = self.storage.find(ctx, key)
            if item is not None:
                return item
            missing = self.special(ctx, "__missing__")
            if missing is not None:
                return missing.call(ctx, [key], {})
        return self.content().get_item(ctx, key)

    def iterate_storage(self, ctx: TraceContext) -> list[VariableTracker]:
        """The keys, in the order in which the C type iterates over them."""
        return self.content().unpack(ctx)

    @property
    def is_its_own_dict(self) -> bool:  # type: ignore[override]
        return self.live_dictionary() is self.value is not None

    def merged_as(self, ctx: TraceContext) -> VariableTracker | None:
        return self.storage if raw_lookup(ctx, self.cls, "__iter__") is dict.__iter__ else None

    # -- out of the frame

    def push_empty(self, build: Reconstruction) -> None:
        assert self.class_variable is not None
        arguments = [self.content()] if self.layout in _IMMUTABLE else []
        build.call_object(self.layout.__new__, self.class_variable, *arguments)

    def fill(self, build: Reconstruction) -> None:
        storage = self.storage
        if isinstance(storage, DictVariable):
            build.call_object(become, ConstantVariable(self.layout), self, DictVariable(storage.entries))
            build.writer.pop_top()
        elif isinstance(storage, ListVariable):
            build.call_object(list.extend, self, ListVariable(storage.items))
            build.writer.pop_top()
        elif isinstance(storage, SetVariable):
            refuse_collisions(storage.members)
            fill_set(build, self, storage)
            build.writer.pop_top()
        super().fill(build)


class _StorageMethodVariable(ConstantMethodVariable):
    """`super().append` as a value: the C type's own method bound to the object, whatever the class overrides."""

    def __init__(self, owner: BuiltinSubclassVariable, attribute: ClassAttribute) -> None:
        super().__init__(owner.content(), attribute.name)
        self.owner, self.raw = owner, attribute.raw

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        result = super().call(ctx, args, kwargs)
        return self.owner if returns_receiver(self.name, result, self.receiver) else result

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(functools.partial(bound_method, self.raw), self.owner)


def _storage_item(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    if len(args) != 1 or kwargs:
        ctx.break_graph("DX218", callee=f"{self.layout.__name__}.__getitem__")
    item: VariableTracker = self.storage_item(ctx, args[0])
    return item


def _initialize(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`dict.__init__`, `list.__init__` and `set.__init__`; the latter two clear first."""
    if self.layout in (list, set) and self.content().length(ctx).as_constant():
        self.content().call_method(ctx, "clear", [], {})
    if args or kwargs:
        if self.layout is OrderedDict and isinstance(raw_lookup(ctx, self.cls, "__setitem__"), types.FunctionType):
            updates = OrderedDictVariable()
            updates.call_method(ctx, "update", list(args), kwargs)
            for key, value in updates.pairs(ctx):  # as mutablemapping_update does (Objects/odictobject.c)
                self.set_item(ctx, key, value)
            return ConstantVariable(None)
        if len(args) > 1:
            run_now(ctx, self.layout, *[()] * len(args))  # raises the TypeError of the C type
        filler = "extend" if self.layout is list else "update"
        self.content().call_method(ctx, filler, list(args), kwargs)
    return ConstantVariable(None)


def _plain_attribute(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """dict.__getattribute__ and its counterparts: object's, reached through the C type."""
    return ctx.build(object.__getattribute__, None).call(ctx, [self, *args], kwargs)


_OWN_HANDLERS: dict[str, Any] = {"__getitem__": _storage_item, "__init__": _initialize, "__getattribute__": _plain_attribute}


# -- what OrderedDict makes of its own class (Objects/odictobject.c) ---------------------------------------------------


def _ordered_copy(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`odict.copy`: the class is called without arguments, and the items are stored through its `__setitem__`."""
    if args or kwargs:
        ctx.break_graph("DX218", callee="OrderedDict.copy")
    copy = class_tracker(ctx, self.cls).call(ctx, [], {})
    keys = self.iterate_storage(ctx)
    for key in keys:
        copy.set_item(ctx, key, self.get_item(ctx, key))
        if self.iterate_storage(ctx) != keys:  # changed by the program's `__getitem__`; the error depends on the Python version
            ctx.break_graph("DX218", callee="OrderedDict.copy")
    return copy


def _ordered_union(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`odict | other`."""
    return _union(ctx, self, self, args[0]) if len(args) == 1 and not kwargs else _refuse(ctx, "__or__")


def _ordered_union_reflected(ctx: TraceContext, self: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`other | odict`: the reflected operator."""
    return _union(ctx, self, args[0], self) if len(args) == 1 and not kwargs else _refuse(ctx, "__ror__")


def _union(ctx: TraceContext, self: Any, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """The class of the OrderedDict operand is called with the left operand, then updated with the right one."""
    if not all(issubclass(operand.python_type(), dict) for operand in (lhs, rhs)):
        return ConstantVariable(NotImplemented)
    union = class_tracker(ctx, self.cls).call(ctx, [lhs], {})
    for key, value in pairs_of(ctx, rhs):
        union.set_item(ctx, key, value)
    return union


def _refuse(ctx: TraceContext, name: str) -> NoReturn:
    ctx.break_graph("DX218", callee=f"OrderedDict.{name}")


_OF_ITS_CLASS: dict[str, Any] = {
    "copy": _ordered_copy, "__copy__": _ordered_copy, "__or__": _ordered_union, "__ror__": _ordered_union_reflected,
}


# -- new instances ----------------------------------------------------------------------------------------------------


def make_subclass_instance(ctx: TraceContext, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A call of a class that extends a builtin type."""
    layout = layout_of(cls.value)
    if not is_created_in_c(ctx, cls.value):
        return cls.make_instance(ctx, args, kwargs)
    instance = BuiltinSubclassVariable(cls.value, class_variable=cls, storage=_storage(ctx, layout, args))
    if layout in _CONTAINERS or isinstance(raw_lookup(ctx, cls.value, "__init__"), types.FunctionType):
        initialize(ctx, instance, args, kwargs)
    elif kwargs:
        ctx.break_graph(kind_of_break(cls.value, "DX209"), type=cls.value.__qualname__)
    return instance


def _storage(ctx: TraceContext, layout: type[Any], args: Args) -> VariableTracker:
    """The storage that `layout.__new__` makes from its arguments."""
    if layout in _CONTAINERS:
        return _CONTAINERS[layout]()
    if layout is tuple:
        if len(args) > 1:
            ctx.raise_exception(TypeError, f"tuple expected at most 1 argument, got {len(args)}")
        return TupleVariable(tuple_items(ctx, args[0]) if args else [])
    if not all(map(is_specializable, args)):
        ctx.break_graph("DX209", type=layout.__qualname__)
    return ConstantVariable(run_now(ctx, layout, *map(specialize, args)))


for _layout in (*_CONTAINERS, *(layout for layout in _IMMUTABLE if layout is not tuple)):
    makes(_layout)(make_subclass_instance)


def new_subclass_instance(ctx: TraceContext, cls: ClassVariable, args: Args) -> VariableTracker:
    """`super().__new__(cls, ...)` in such a class: the C base type's `__new__`."""
    return BuiltinSubclassVariable(cls.value, class_variable=cls, storage=_storage(ctx, layout_of(cls.value), args))


def _declare_new(layout: Any) -> None:
    @rule(layout.__new__)
    def new(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not args or not isinstance(args[0], ClassVariable) or kwargs or layout_of(args[0].value) is not layout:
            ctx.break_graph("DX209", type=args[0].text() if args else layout.__qualname__)
        if args[0].value is layout:
            return args[0].call(ctx, args[1:], kwargs)
        return new_subclass_instance(ctx, args[0], args[1:])


for _layout in (*_CONTAINERS, *_IMMUTABLE):
    if _layout is not tuple:  # the rule for tuple.__new__ is in named_tuple.py
        _declare_new(_layout)


# -- existing instances -----------------------------------------------------------------------------------------------


def _extends_builtin(value: Any) -> bool:
    cls = type(value)
    layout = layout_of(cls)
    if cls is layout or (layout not in _CONTAINERS and layout not in _IMMUTABLE):
        return False
    return layout in (int, float, str) or all(peek(cls, name) is peek(layout, name) for name in _WALKING)


@builds_when(_extends_builtin, rank=90)
def build_extended(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """An instance of a class that extends a builtin type: its type and the content of its storage are guarded."""
    if source is None:
        source = ctx.module_guards.fixed_source_of(value, f"a {type(value).__qualname__}")
    guard_on_class_of(ctx, value, source)
    guard_on_names(ctx, type(value), *SPECIAL_NAMES)
    storage = _existing(ctx, value, layout_of(type(value)), source)
    return BuiltinSubclassVariable(type(value), value=value, source=source, storage=storage)


def _existing(ctx: TraceContext, value: Any, layout: type[Any], source: Source) -> VariableTracker:
    if layout in (dict, OrderedDict):
        return _existing_dict(ctx, value, source)
    if layout is list or layout is tuple:
        ctx.guard(source, "LIST_LENGTH", layout.__len__(value))
        items = [LazyVariable(item, _item_source(source, layout, index)) for index, item in enumerate(layout.__iter__(value))]
        return ListVariable(items, source) if layout is list else TupleVariable(items)
    if layout is set:
        ctx.break_graph("DX302", question="its members", type=type(value).__qualname__)
    plain = _IMMUTABLE[layout]
    content: Source = source.child("content", lambda: CallSource(source, plain, layout.__name__))
    return ctx.build(plain(value), content)


def _item_source(source: Source, layout: Any, index: int) -> Source:
    def item(value: Any) -> Any:
        return layout.__getitem__(value, index)

    item_source: Source = source.child(("own item", index), lambda: CallSource(source, item, f"item {index} of "))
    return item_source


def _existing_dict(ctx: TraceContext, value: dict[Any, Any], source: Source) -> DictVariable:
    try:
        keys, values = keys_of(value), values_of(value)  # an OrderedDict has an order of its own
    except KeyError:  # an OrderedDict from which a method of dict removed a key
        ctx.break_graph("DX302", question="its items", type=type(value).__qualname__)
    if not all(type(key) in (str, int, bool, float, bytes, type(None)) for key in keys):
        ctx.break_graph("DX320", type=type(value).__qualname__)
    ctx.guard(source, "DICT_KEYS", tuple(keys))
    entries: dict[object, tuple[VariableTracker, VariableTracker]] = {}
    for key, item in zip(keys, values, strict=True):
        item_source = source.child(("dict item", type(key), key), lambda key=key: DictItemSource(source, key))  # type: ignore[misc]
        entries[key] = (ConstantVariable(key), LazyVariable(item, item_source))
    kind = OrderedDictVariable if issubclass(type(value), OrderedDict) else DictVariable
    return kind(entries, source)


NAMED_ITEM = type(class_dict(namedtuple("_Pair", "one two"))["one"])
"""The type of the descriptors that a named tuple's class has for its fields."""


@binds(NAMED_ITEM)
def _bind_named_item(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """`point.x` where a namedtuple's class overrides special methods: the item at the descriptor's index."""
    if not isinstance(instance, BuiltinSubclassVariable):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    _, (index, _) = attribute.raw.__reduce__()
    return instance.content().get_item(ctx, ConstantVariable(index))
