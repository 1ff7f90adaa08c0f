"""Instances of classes that extend a builtin container: `class Output(OrderedDict)`, `class Sizes(tuple)`.

The idea: such an object is two things. What its class adds (attributes, methods, overridden special methods) is a
user object's; what it holds is its **storage**, a tracker of the C type below (`OrderedDictVariable`). A method that
the class does not override is the C type's, and asks the storage. `super().__setitem__(key, value)` ends there too.

In: existing instances, and calls of such classes. Out: `UserObjectVariable`s with a storage, replayed past the program's own code.
torch/_dynamo/variables/user_defined.py does the same job.
"""

from __future__ import annotations

import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.policy.outside import kind_of_break
from dynexplore.engine.provenance.sources import CallSource, DictItemSource, Source
from dynexplore.engine.raw_attributes import class_dict
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.mapping import DictVariable, OrderedDictVariable, become
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import SetVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.class_ import ClassVariable, initialize, makes
from dynexplore.engine.variables.objects.class_facts import (
    SPECIAL_NAMES,
    ClassAttribute,
    layout_of,
    peek,
    raw_lookup,
    rely_on_class_of,
    rely_on_names,
)
from dynexplore.engine.variables.objects.class_lookup import binds
from dynexplore.engine.variables.objects.user_object import CMethodVariable, UserObjectVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.concrete_values import is_settled, settled
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable, run_now

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

# The C types that are looked into, and the tracker of what an empty instance holds.
_CONTAINERS: dict[type[Any], Callable[[], VariableTracker]] = {
    OrderedDict: OrderedDictVariable, dict: DictVariable, list: lambda: ListVariable([]), set: SetVariable,
}
# Immutable ones: how an instance becomes a value of the C type itself, past the program's own methods.
_IMMUTABLE: dict[type[Any], Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, str: str.__str__, tuple: lambda value: tuple(tuple.__iter__(value)),
}
# These of OrderedDict ask its class for items, and have it store them (Objects/odictobject.c); those of dict do not.
_THROUGH_ITEMS = ("update", "setdefault", "copy", "__or__", "__ror__", "__ior__")
_ITEMS = ("__getitem__", "__setitem__", "__contains__")
# What a class must not change, or the C methods no longer tell what the object holds.
_WALKING = ("__iter__", "__len__")


class BuiltinSubclassVariable(UserObjectVariable):
    """A user object with a storage."""

    is_its_attributes = False

    def __init__(self, cls: type[Any], *, value: Any = None, source: Source | None = None,
                 class_variable: VariableTracker | None = None, storage: VariableTracker | None = None) -> None:
        super().__init__(cls, value=value, source=source, class_variable=class_variable, storage=storage)
        if storage is not None and layout_of(cls) in _CONTAINERS:
            storage.held_by = self

    @property
    def layout(self) -> Any:
        """The C type below."""
        return layout_of(self.cls)

    def held(self) -> VariableTracker:
        """What it holds."""
        assert self.storage is not None
        return self.storage

    def container(self) -> VariableTracker:
        return self.held()

    def is_constant(self) -> bool:
        return False

    def c_method(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker | None:
        if attribute.owner is object:
            return None
        if attribute.name in _OWN_ANSWERS:
            return CMethodVariable(self, attribute.name, _OWN_ANSWERS[attribute.name])
        if self.layout is OrderedDict and attribute.name in _THROUGH_ITEMS and self._has_items_of_its_own(ctx):
            ctx.break_graph("DX213", method=f"OrderedDict.{attribute.name}", type=self.cls.__qualname__)
        return _HeldMethodVariable(self, attribute)

    def _has_items_of_its_own(self, ctx: TraceContext) -> bool:
        return any(isinstance(raw_lookup(ctx, self.cls, name), types.FunctionType) for name in _ITEMS)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        method = self.special(ctx, "__getitem__")
        return ctx.call_function(method, [key], {}) if method is not None else self.held_item(ctx, key)

    def held_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """dict.__getitem__ and its kin; a dict asks the class for what is missing."""
        if isinstance(self.storage, DictVariable):
            item = self.storage.find(ctx, key)
            if item is not None:
                return item
            missing = self.special(ctx, "__missing__")
            if missing is not None:
                return ctx.call_function(missing, [key], {})
        return self.held().get_item(ctx, key)

    def merged_as(self, ctx: TraceContext) -> VariableTracker | None:
        return self.storage if raw_lookup(ctx, self.cls, "__iter__") is dict.__iter__ else None

    # -- out of the frame

    def push_empty(self, build: Reconstruction) -> None:
        assert self.class_variable is not None
        arguments = [self.held()] if self.layout in _IMMUTABLE else []
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
            build.call_object(set.update, self, ListVariable(storage.in_order()))
            build.writer.pop_top()
        super().fill(build)


class _HeldMethodVariable(ConstantMethodVariable):
    """`super().append` as a value: the C type's own method of the object, whatever the class has under the name."""

    def __init__(self, owner: BuiltinSubclassVariable, attribute: ClassAttribute) -> None:
        super().__init__(owner.held(), attribute.name)
        self.owner, self.raw = owner, attribute.raw

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.raw.__get__, self.owner)


def _held_item(
    ctx: TraceContext, self: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    item: VariableTracker = self.held_item(ctx, args[0])
    return item


def _initialize(
    ctx: TraceContext, self: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """What `dict.__init__`, `list.__init__` and `set.__init__` do."""
    if args or kwargs:
        if self.layout is OrderedDict and isinstance(raw_lookup(ctx, self.cls, "__setitem__"), types.FunctionType):
            given = OrderedDictVariable()
            given.call_method(ctx, "update", list(args), kwargs)
            for key, value in given.pairs(ctx):  # CPython's Objects/odictobject.c (mutablemapping_update) calls it, too
                self.set_item(ctx, key, value)
            return ConstantVariable(None)
        if len(args) > 1:
            run_now(ctx, self.layout, *[()] * len(args))  # raises the TypeError of the C type
        filler = "extend" if self.layout is list else "update"
        self.held().call_method(ctx, filler, list(args), kwargs)
    return ConstantVariable(None)


def _plain_attribute(
    ctx: TraceContext, self: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """dict.__getattribute__ and its kin: object's, under the C type's own name."""
    return ctx.call_function(ctx.build(object.__getattribute__, None), [self, *args], kwargs)


_OWN_ANSWERS: dict[str, Any] = {"__getitem__": _held_item, "__init__": _initialize, "__getattribute__": _plain_attribute}


# -- new instances ----------------------------------------------------------------------------------------------------


def make_extended(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """A call of a class that extends a builtin type."""
    layout = layout_of(cls.value)
    if isinstance(raw_lookup(ctx, cls.value, "__new__"), types.FunctionType | staticmethod):
        return cls.make_instance(ctx, args, kwargs)
    made = BuiltinSubclassVariable(cls.value, class_variable=cls, storage=_storage(ctx, layout, args))
    if layout in _CONTAINERS or isinstance(raw_lookup(ctx, cls.value, "__init__"), types.FunctionType):
        initialize(ctx, made, args, kwargs)
    elif kwargs:
        ctx.break_graph(kind_of_break(cls.value, "DX209"), type=cls.value.__qualname__)
    return made


def _storage(ctx: TraceContext, layout: type[Any], args: Sequence[VariableTracker]) -> VariableTracker:
    """What `layout.__new__` keeps of its arguments."""
    if layout in _CONTAINERS:
        return _CONTAINERS[layout]()
    if layout is tuple:
        return TupleVariable(args[0].unpack(ctx) if args else [])
    if not all(map(is_settled, args)):
        ctx.break_graph("DX209", type=layout.__qualname__)
    return ConstantVariable(run_now(ctx, layout, *map(settled, args)))


for _layout in (*_CONTAINERS, *(layout for layout in _IMMUTABLE if layout is not tuple)):
    makes(_layout)(make_extended)


def new_extended(ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker]) -> VariableTracker:
    """`super().__new__(cls, ...)` in such a class: the C type's own `__new__`."""
    return BuiltinSubclassVariable(cls.value, class_variable=cls, storage=_storage(ctx, layout_of(cls.value), args))


def _declare_new(layout: Any) -> None:
    @rule(layout.__new__)
    def new(
        ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if not args or not isinstance(args[0], ClassVariable) or kwargs or layout_of(args[0].value) is not layout:
            ctx.break_graph("DX209", type=args[0].text() if args else layout.__qualname__)
        if args[0].value is layout:
            return ctx.call_function(args[0], args[1:], kwargs)
        return new_extended(ctx, args[0], args[1:])


for _layout in (*_CONTAINERS, *_IMMUTABLE):
    if _layout is not tuple:  # that one's row stands in named_tuple.py
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
    """An instance of a class that extends a builtin type: its type is guarded, and what the C type holds."""
    if source is None:
        source = ctx.module_guards.source_of(value, f"a {type(value).__qualname__}")
        ctx.module_guards.know(source)
    rely_on_class_of(ctx, value, source)
    rely_on_names(ctx, type(value), *SPECIAL_NAMES)
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
    keys = list(dict.keys(value))
    if not all(type(key) in (str, int, bool, float, bytes, type(None)) for key in keys):
        ctx.break_graph("DX320", type=type(value).__qualname__)
    ctx.guard(source, "DICT_KEYS", tuple(keys))
    entries: dict[object, tuple[VariableTracker, VariableTracker]] = {}
    for key in keys:
        item = source.child(("dict item", type(key), key), lambda key=key: DictItemSource(source, key))  # type: ignore[misc]
        entries[key] = (ConstantVariable(key), LazyVariable(dict.__getitem__(value, key), item))
    kind = OrderedDictVariable if issubclass(type(value), OrderedDict) else DictVariable
    return kind(entries, source)


NAMED_ITEM = type(class_dict(namedtuple("_Pair", "one two"))["one"])
"""The descriptor that a named tuple's class has for each item."""


@binds(NAMED_ITEM)
def _bind_named_item(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """`point.x` of a named tuple's class that overrides special methods: the item that the descriptor counts to."""
    if not isinstance(instance, BuiltinSubclassVariable):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    _, (index, _) = attribute.raw.__reduce__()
    return instance.held().get_item(ctx, ConstantVariable(index))
