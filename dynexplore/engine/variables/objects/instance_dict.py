"""`obj.__dict__` of a user-defined object: its attributes as a dict.

The idea: the dict and the attributes alias each other. It is a dict like any other to whoever reads it, so that all methods, views
and iterators of dict apply, but it stores nothing: its entries are collected from the object's tracker, and every change is
forwarded to it, so that guards and the journal stay in one place.

In: an object's tracker. Out: its attributes by name. PyTorch's counterpart: `DunderDictVariable` in
torch/_dynamo/variables/dicts.py.
"""

from __future__ import annotations

import itertools
import types
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.raw_attributes import has_python_getattribute, instance_dict
from dynexplore.engine.variables.containers.dict_views import Entries, Pair
from dynexplore.engine.variables.containers.mapping import DictVariable, Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.user_object import C_ATTRIBUTES, UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

class InstanceDictVariable(DictVariable):
    """The `__dict__` of a user-defined object: its entries are the object's attributes, now and after each change of either."""

    def __init__(self, ctx: TraceContext, owner: UserObjectVariable) -> None:
        self.ctx, self.owner = ctx, owner
        self.source = None
        self._entries: Entries | None = None
        self._steps: list[Step] = []
        self._changes = owner.changes = []  # what the object stored or deleted since the entries were read

    # -- what it holds

    @property
    def entries(self) -> Entries:  # type: ignore[override]
        """All attributes; from now on their names are guarded, each value when it is read."""
        if self._entries is None:
            if not self.owner.tells_its_dict():
                _break_on_dict(self.ctx, self.owner)
            names = guarded_attribute_names(self.ctx, self.owner)
            self._entries = {name: (ConstantVariable(name), self._lazy(name)) for name in names}
            self._steps = [("take out", NONE)] * self.owner.removals
            self._changes.clear()
        return self._followed(self._entries)

    def _followed(self, entries: Entries) -> Entries:
        """The entries after the object's changes: a removed attribute leaves an empty position, as a removed key does."""
        for name, value in self._changes:
            if value is None and entries.pop(name, None) is not None:
                self._steps.append(("take out", NONE))
            elif value is not None and not self.owner.is_outside_dict(name):
                entries[name] = ConstantVariable(name), value
        self._changes.clear()
        return entries

    def _lazy(self, name: str) -> VariableTracker:
        if self.owner.is_outside_dict(name):
            self.ctx.break_graph("DX213", method="__dict__ of a name that is a slot or a registered name, too")
        return self.owner.lazy_attribute(self.ctx, name)

    @property
    def steps(self) -> list[Step]:  # type: ignore[override]
        """The removals. An attribute that is stored changes the keys."""
        if self._entries is not None:
            self._followed(self._entries)
        return self._steps

    def like(self, entries: Entries) -> DictVariable:
        return DictVariable(entries)

    def same_object(self, other: VariableTracker) -> bool | None:
        """Another dict that existed may be this one: a dict that came in, or the `__dict__` of an object that shares it."""
        if other is self or self.owner.source is None or not isinstance(other, DictVariable):
            return other is self
        is_new = other.owner.source is None if isinstance(other, InstanceDictVariable) else other.source is None
        return False if is_new else None

    def find(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker | None:
        name = _name_of(key)
        if name is None:
            return super().find(ctx, key)
        if not self.owner.is_outside_dict(name):
            return self.owner.own_attribute(ctx, name)
        if name in (self.owner.live_dictionary() or {}):
            self._lazy(name)
        return None

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return super().contains(ctx, item) if _name_of(item) is None else ConstantVariable(self.find(ctx, item) is not None)

    # -- what changes it, changes the object

    def store(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        name = _name_of(key)
        if name is None or self.owner.is_outside_dict(name):
            ctx.break_graph("DX306", question="item assignment", type="__dict__")
        self.owner.store_own(ctx, name, value)

    def take_out(self, hash_key: object, step: str = "take out") -> Pair | None:
        pair = self.entries.get(hash_key)
        if pair is not None:
            value = pair[1].read(self.ctx)
            self.owner.forget(self.ctx, pair[0].as_constant())
            return pair[0], value
        return None

    def take_all(self) -> None:
        for name, _ in list(self.entries.values()):
            self.owner.forget(self.ctx, name.as_constant())

    def write_back(self, build: Reconstruction) -> None:
        """Nothing: the object writes its attributes."""

    # -- for those who watch: without guards

    def contents(self, most: int | None = None) -> Contents | None:
        return None if self._entries is None else Contents(list(itertools.islice(self.entries.values(), most)))

    def bulk(self) -> int:
        return len(self.owner.stored) + len(self.owner.live_dictionary() or {})

    def content_at(self, key: Any) -> Any:
        return None

    def text(self) -> str:
        return f"__dict__ of {self.owner.text()}"

    def reconstruct(self, build: Reconstruction) -> None:
        if has_python_getattribute(self.owner.cls):
            build.call_object(instance_dict, self.owner)
        else:
            build.push(self.owner)
            build.writer.load_attr("__dict__")


def _name_of(key: VariableTracker) -> str | None:
    """The key as an attribute's name, if it is a plain string."""
    name = key.as_constant() if key.is_constant() else None
    return name if type(name) is str else None


def guarded_attribute_names(ctx: TraceContext, owner: UserObjectVariable) -> list[str]:
    """The names of all attributes, in the order of the `__dict__`; which are in the live object's, in which order, is guarded."""
    names = dict.fromkeys(owner.live_dictionary() or {})
    if owner.value is not None and owner.source is not None:
        ctx.guard(owner.source.attribute("__dict__", "getattr"), "DICT_KEYS", tuple(names))
    for name, value in owner.stored.items():
        if owner.is_outside_dict(name):
            continue
        if value is None or name in owner.renewed:
            names.pop(name, None)
        if value is not None:
            names[name] = None
    return list(names)


def _dictionary_of(ctx: TraceContext, owner: UserObjectVariable) -> VariableTracker:
    """The unique tracker of an object's `__dict__`, so that `obj.__dict__ is vars(obj)`."""
    if owner.dictionary is None:
        if type(owner.live_dictionary()) not in (dict, types.NoneType):
            _break_on_dict(ctx, owner)
        owner.dictionary = InstanceDictVariable(ctx, owner)
        ctx.effects.cleanup_callbacks.append(vars(owner.dictionary).clear)  # it, its entries and the owner refer to each other
    return owner.dictionary


def _break_on_dict(ctx: TraceContext, owner: UserObjectVariable) -> NoReturn:
    ctx.break_graph("DX303", name="__dict__", type=owner.cls.__qualname__)


C_ATTRIBUTES["__dict__"] = _dictionary_of
