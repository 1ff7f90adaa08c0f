"""Instances of classes that extend a builtin container: `class Output(OrderedDict)`, `class Sizes(tuple)`.

The idea: such an object is two things. What its class adds (attributes, methods, overridden special methods) is a user object's;
what it holds is its **storage**, a tracker of the C type below (`OrderedDictVariable`). A method that the class does not override is
the C type's, and asks the storage. `super().__setitem__(key, value)` ends there too.

In: existing instances, and calls of such classes. Out: `UserObjectVariable`s with a storage, replayed past the program's own code.
torch/_dynamo/variables/user_defined.py does the same job.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import DictItemSource, Source
from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.build import builds_when
from dynexplore.engine.variables.class_ import ClassVariable, initialize, makes
from dynexplore.engine.variables.class_lookup import find, layout_of, raw_lookup
from dynexplore.engine.variables.constant import ConstantVariable
from dynexplore.engine.variables.mapping import DictVariable, OrderedDictVariable, become
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.unread import UnreadVariable
from dynexplore.engine.variables.user_object import UserObjectVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext
    from dynexplore.engine.variables.reconstruction import Reconstruction

# The C types that are looked into, most special first, and the tracker of what an instance holds.
_STORAGES: dict[type[Any], Callable[[], VariableTracker]] = {
    OrderedDict: OrderedDictVariable, dict: DictVariable, list: lambda: ListVariable([]), tuple: lambda: TupleVariable([]),
}
# What a class must not change, or the C methods no longer tell what the object holds.
_WALKING = {dict: ("__iter__", "__len__"), OrderedDict: ("__iter__", "__len__"), list: ("__iter__", "__len__"), tuple: ("__iter__", "__len__")}


class BuiltinSubclassVariable(UserObjectVariable):
    """A user object with a storage."""

    def push_empty(self, build: Reconstruction) -> None:
        assert self.class_variable is not None
        layout = layout_of(self.cls)
        if layout is tuple:
            build.call_object(tuple.__new__, self.class_variable, TupleVariable(list(self.storage.items)))  # type: ignore[union-attr]
        else:
            build.call_object(layout.__new__, self.class_variable)

    def fill(self, build: Reconstruction) -> None:
        layout = layout_of(self.cls)
        if isinstance(self.storage, DictVariable):
            build.writer.begin_call()
            build.push_object(become)
            build.writer.callable_ready()
            build.push_object(layout)
            build.push(self)
            build.push(DictVariable(self.storage.entries))
            build.writer.call(3)
            build.writer.pop_top()
        elif isinstance(self.storage, ListVariable):
            build.call_object(list.extend, self, ListVariable(list(self.storage.items)))
            build.writer.pop_top()
        super().fill(build)


# -- new instances ----------------------------------------------------------------------------------------------------


def _maker(layout: type[Any]) -> Callable[..., VariableTracker]:
    def make(
        ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if layout_of(cls.value) is not layout or not isinstance(raw_lookup(cls.value, "__new__"), type(layout.__new__)):
            return cls.make_instance(ctx, args, kwargs)
        made = BuiltinSubclassVariable(cls.value, class_variable=cls, storage=_STORAGES[layout]())
        if layout is tuple:
            made.storage = TupleVariable(args[0].unpack(ctx) if args else [])
            return made
        found = find(ctx, cls.value, "__init__")
        if found is not None and found.is_python_function:
            initialize(ctx, made, args, kwargs)
        else:
            _fill_storage(ctx, made, args, kwargs)
        return made

    return make


def _fill_storage(
    ctx: TraceContext, made: UserObjectVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> None:
    """What `dict.__init__` and `list.__init__` do."""
    if not args and not kwargs:
        return
    if isinstance(made.storage, DictVariable) and isinstance(raw_lookup(made.cls, "__setitem__"), type(len).__class__):
        ctx.break_graph("DX209", type=made.cls.__qualname__)
    assert made.storage is not None
    made.storage.call_method(ctx, "update" if isinstance(made.storage, DictVariable) else "extend", list(args), kwargs)


for _layout in (dict, OrderedDict, list, tuple):
    makes(_layout)(_maker(_layout))


# -- existing instances -----------------------------------------------------------------------------------------------


def _extends_container(value: Any) -> bool:
    cls = type(value)
    layout = layout_of(cls)
    if layout not in (dict, OrderedDict, list) or cls is layout:
        return False
    return all(raw_lookup(cls, name) is raw_lookup(layout, name) for name in _WALKING[layout])


@builds_when(_extends_container, rank=90)
def build_extended_container(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """An instance of a class that extends dict, OrderedDict or list: type and keys (or length) are guarded."""
    if source is None:
        source = ctx.module_guards.source_of(value, f"a {type(value).__qualname__}")
        ctx.module_guards.know(source)
    ctx.guard(source, "TYPE_MATCH", type(value))
    storage: VariableTracker
    if isinstance(value, list):
        ctx.guard(source, "LIST_LENGTH", list.__len__(value))
        storage = ListVariable([UnreadVariable(item, source.item(index)) for index, item in enumerate(list.__iter__(value))], source)
    else:
        storage = _existing_dict(ctx, value, source)
    return BuiltinSubclassVariable(type(value), value=value, source=source, storage=storage)


def _existing_dict(ctx: TraceContext, value: dict[Any, Any], source: Source) -> DictVariable:
    keys = list(dict.keys(value))
    if not all(type(key) in (str, int, bool, float, bytes, type(None)) for key in keys):
        ctx.break_graph("DX320", type=type(value).__qualname__)
    ctx.guard(source, "DICT_KEYS", tuple(keys))
    entries: dict[object, tuple[VariableTracker, VariableTracker]] = {}
    for key in keys:
        item = source.child(("dict item", type(key), key), lambda key=key: DictItemSource(source, key))  # type: ignore[misc]
        entries[key] = (ConstantVariable(key), UnreadVariable(dict.__getitem__(value, key), item))
    kind = OrderedDictVariable if isinstance(value, OrderedDict) else DictVariable
    return kind(entries, source)


# -- object's own methods, as a class calls them through super() -------------------------------------------------------


@rule(object.__getattribute__)
def _getattribute(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    owner, name = args[0], args[1].as_constant()
    return owner.plain_get(ctx, name) if isinstance(owner, UserObjectVariable) else owner.get_attribute(ctx, name)


@rule(object.__setattr__)
def _setattr(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    owner, name, value = args[0], args[1].as_constant(), args[2]
    if isinstance(owner, UserObjectVariable):
        owner.generic_set(ctx, name, value)
    else:
        owner.set_attribute(ctx, name, value)
    return ConstantVariable(None)


@rule(object.__delattr__)
def _delattr(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    owner, name = args[0], args[1].as_constant()
    if isinstance(owner, UserObjectVariable):
        owner.generic_delete(ctx, name)
    else:
        owner.delete_attribute(ctx, name)
    return ConstantVariable(None)


@rule(object.__init__)
def _init(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    if len(args) != 1 or kwargs:
        ctx.break_graph("DX218", callee="object.__init__")
    return ConstantVariable(None)


def _storage_init(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    owner = args[0]
    if not isinstance(owner, UserObjectVariable) or owner.storage is None:
        ctx.break_graph("DX209", type=owner.type_name())
    _fill_storage(ctx, owner, args[1:], kwargs)
    return ConstantVariable(None)


rule(dict.__init__, OrderedDict.__init__, list.__init__)(_storage_init)
