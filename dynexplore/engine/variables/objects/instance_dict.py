"""`obj.__dict__` of a user-defined object: a view of its attributes as a dict.

The idea: the dict and the attributes alias each other; every operation is forwarded to the object's tracker, so that guards and the
journal stay in one place.

In: an object's tracker. Out: its attributes by name. PyTorch's counterpart: `DunderDictVariable` in
torch/_dynamo/variables/dicts.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.raw_attributes import has_python_getattribute, instance_dict
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.objects.user_object import C_ATTRIBUTES, UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_READING = frozenset({"get", "keys", "values", "items", "copy", "__contains__", "__getitem__", "__len__", "__iter__"})


class InstanceDictVariable(VariableTracker):
    """The `__dict__` of a user-defined object."""

    kind = "dict"

    def __init__(self, owner: UserObjectVariable) -> None:
        self.owner = owner

    def python_type(self) -> type[Any]:
        return dict

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return self._copied(ctx).truth(ctx)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return self._copied(ctx).length(ctx)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self._copied(ctx).iterate(ctx)

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        name = item.as_constant() if item.is_constant() else None
        return ConstantVariable(isinstance(name, str) and self._item(ctx, name) is not None)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        value = self._item(ctx, key.as_constant()) if key.is_constant() else None
        if value is None:
            ctx.raise_exception(KeyError, key.as_constant() if key.is_constant() else key.text())
        return value

    def _item(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The value under a name; attributes in slots are not in the `__dict__`."""
        if not self.owner.has_slot(name):
            return self.owner.own_attribute(ctx, name)
        if name in (self.owner.live_dictionary() or {}):
            ctx.break_graph("DX213", method="__dict__ of a name that is a slot, too")
        return None

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        if not key.is_constant() or type(key.as_constant()) is not str or self.owner.has_slot(key.as_constant()):
            ctx.break_graph("DX306", question="item assignment", type="__dict__")
        self.owner.store_own(ctx, key.as_constant(), value)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _READING or name in ("update", "pop", "setdefault"):
            return _InstanceDictMethodVariable(self, name)
        return super().get_attribute(ctx, name)

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "get" and args and not kwargs:
            default = args[1] if len(args) > 1 else ConstantVariable(None)
            return self.get_item(ctx, args[0]) if self.contains(ctx, args[0]).as_constant() else default
        if name == "update":
            updates = DictVariable()
            updates.call_method(ctx, "update", args, kwargs)
            for key, value in updates.entries.values():
                self.set_item(ctx, key, value)
            return ConstantVariable(None)
        if name in _READING:
            return self._copied(ctx).call_method(ctx, name, args, kwargs)
        ctx.break_graph("DX213", method=f"__dict__.{name}")

    def _copied(self, ctx: TraceContext) -> DictVariable:
        """All attributes as a separate dict; their names are guarded, each value when it is read."""
        return DictVariable({
            name: (ConstantVariable(name), self.owner.lazy_attribute(ctx, name)) for name in self.names(ctx)
        })

    def names(self, ctx: TraceContext) -> list[str]:
        """The names of all attributes, in order, guarded."""
        owner = self.owner
        names = dict.fromkeys(owner.live_dictionary() or {})
        if owner.value is not None and owner.source is not None:
            ctx.guard(owner.source.attribute("__dict__", "getattr"), "DICT_KEYS", tuple(names))
        for name, value in owner.stored.items():
            if owner.has_slot(name):
                continue
            if value is None or name in owner.renewed:
                names.pop(name, None)
            if value is not None:
                names[name] = None
        return list(names)

    def reconstruct(self, build: Reconstruction) -> None:
        if has_python_getattribute(self.owner.cls):
            build.call_object(instance_dict, self.owner)
        else:
            build.push(self.owner)
            build.writer.load_attr("__dict__")


class _InstanceDictMethodVariable(VariableTracker):
    """`obj.__dict__.items` as a value."""

    kind = "method"

    def __init__(self, mapping: InstanceDictVariable, name: str) -> None:
        self.mapping, self.name = mapping, name

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.mapping.call_method(ctx, self.name, args, kwargs)


def _dictionary_of(ctx: TraceContext, owner: UserObjectVariable) -> VariableTracker:
    """The unique tracker of an object's `__dict__`, so that `obj.__dict__ is vars(obj)`."""
    if owner.dictionary is None:
        owner.dictionary = InstanceDictVariable(owner)
    return owner.dictionary


C_ATTRIBUTES["__dict__"] = _dictionary_of
