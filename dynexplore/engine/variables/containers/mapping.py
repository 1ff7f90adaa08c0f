"""Dicts: dict, OrderedDict, defaultdict, and the read-only mappingproxy.

The idea: a dict's tracker is a real dict from *hash keys* (the constant itself, a tuple of hash keys, the tracker of an object that
hashes by identity) to pairs of trackers. So order, replacement and `1 == 1.0 == True` are Python's own.

For a dict that existed before the frame, the type is guarded, the keys when the program depends on them, and values become trackers
when they are read. Mutations are recorded in the journal and replayed key by key (`become`).

In: live dicts, BUILD_MAP and similar instructions. Out: values, new dicts, nested FX arguments. PyTorch's counterpart:
`ConstDictVariable` in torch/_dynamo/variables/dicts.py. keys(), values() and items() are in dict_views.py.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dynexplore.engine.native import nth_value
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import CallSource, Source
from dynexplore.engine.raw_attributes import behind, instance_dict, keys_of, values_of
from dynexplore.engine.variables.containers.dict_views import Entries, Pair, complaint_of, part_of, walk
from dynexplore.engine.variables.containers.hashable import dict_hash_key
from dynexplore.engine.variables.containers.list_items import each_item, fast_items, first_items
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.contract.nested_text import nested_text
from dynexplore.engine.variables.contract.write_back import write_attributes
from dynexplore.engine.variables.error_messages import no_update_element
from dynexplore.engine.variables.objects.builtin_value import NONE, BuiltinValueVariable, mutating_method
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.objects.user_hash_key import refuse_collisions, refuse_stale_hashes
from dynexplore.engine.variables.operators import binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_numpy_number, is_plain_value
from dynexplore.engine.variables.scalars.specialize import equal, specialize_bool
from dynexplore.engine.variables.signatures import builtin_method

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


Step = tuple[str, VariableTracker]
"""A step of a dict's history: a key was inserted ("put"), removed ("take out") or popped from the end ("popitem"); the dict was
cleared ("clear", without a key); or it was empty and updated from another one ("merge", with a dict of those keys).
"""


class DictVariable(BuiltinValueVariable):
    """A `dict`."""

    kind = "dict"
    mutable = True
    value_type: ClassVar[type[Any]] = dict
    container_type: ClassVar[type[Any] | None] = dict

    def __init__(self, entries: Entries | None = None, source: Source | None = None) -> None:
        self.entries: Entries = {} if entries is None else entries
        self.source = source
        self.steps: list[Step] = []  # the insertions and removals since then

    def like(self, entries: Entries) -> DictVariable:
        """A new dict of the same type, as `copy` returns."""
        return type(self)(entries)

    # -- what it holds

    def merged_as(self, ctx: TraceContext) -> VariableTracker | None:
        return self

    def find(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker | None:
        """The value under a key."""
        pair = self.entries.get(dict_hash_key(ctx, key))
        return pair[1].read(ctx) if pair is not None else None

    def store(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        """Store a value under a key; an existing entry keeps its position and key object. The caller records the mutation."""
        hash_key = dict_hash_key(ctx, key)
        entry = self.entries.get(hash_key)
        self.entries[hash_key] = (entry[0] if entry is not None else key, value)
        if entry is None:
            self.steps.append(("put", key))

    def take_out(self, hash_key: object, step: str = "take out") -> Pair | None:
        """Remove a key, if it exists. The caller records the mutation."""
        pair = self.entries.pop(hash_key, None)
        if pair is not None:
            self.steps.append((step, pair[0]))
        return pair

    def take_all(self) -> None:
        """Remove all keys. The caller records the mutation."""
        self.entries.clear()
        self.steps[:] = [("clear", NONE)]

    def pairs_in_order(self) -> list[Pair]:
        """Keys and values, for a use that depends only on the values and their order."""
        return list(self.entries.values())

    def pairs(self, ctx: TraceContext) -> list[Pair]:
        """Keys and values, realized."""
        return [(key.read(ctx), value.read(ctx)) for key, value in self.entries.values()]

    def read_items(self, ctx: TraceContext) -> None:
        for hash_key, (key, value) in self.entries.items():
            key, value = key.read(ctx), value.read(ctx)
            value.read_items(ctx)
            self.entries[hash_key] = key, value

    # -- questions

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.entries)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return walk(self, "keys")

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [key.read(ctx) for key, _ in self.entries.values()]

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        if not self.entries and isinstance(item, ConstantVariable) and item.python_type() is int:
            return ConstantVariable(False)  # whatever number it is
        return ConstantVariable(dict_hash_key(ctx, item) in self.entries)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        value = self.find(ctx, key)
        return self.missing(ctx, key) if value is None else value

    def missing(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """`self[key]` where there is no such key."""
        ctx.raise_exception(KeyError, key.as_constant() if key.is_constant() else key)

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        ctx.journal.note(self, "__setitem__")
        self.store(ctx, key, value)

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        ctx.journal.note(self, "__delitem__")
        if self.take_out(dict_hash_key(ctx, key)) is None:
            self.missing_key(ctx, key)

    def missing_key(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """Raise KeyError, even if the dict has a default factory."""
        return DictVariable.missing(self, ctx, key)

    # -- for those who watch

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(list(itertools.islice(self.entries.values(), most)))

    def bulk(self) -> int:
        return len(self.entries)

    def content_at(self, key: Any) -> Any:
        pair = self.entries.get(key.value) if type(key) is ConstantVariable else None
        return None if pair is None else pair[1]

    def identity(self) -> object | None:
        return self

    # -- into the graph, and out of the frame

    def as_proxy(self) -> Any:
        return {key.as_proxy(): value.as_proxy() for key, value in self.entries.values()}

    def reconstruct(self, build: Reconstruction) -> None:
        refuse_collisions(self.entries)
        for key, value in self.entries.values():
            build.push(key)
            build.push(value)
        build.writer.build_map(len(self.entries))

    @property
    def becoming(self) -> Callable[..., None]:
        """The function that makes a real dict equal to the entries."""
        kinds = tuple(step for step, _ in self.steps)
        return functools.partial(follow, kinds) if {*kinds} - {"put"} else become

    def write_back(self, build: Reconstruction) -> None:
        """Make the real dict equal to the entries, using dict's own methods."""
        becoming = self.becoming
        build.push(DictVariable(self.entries))
        names = [build.store_temporary()]
        if isinstance(becoming, functools.partial):
            build.push(TupleVariable([key for _, key in self.steps]))
            names.append(build.store_temporary())
        build.push(self)
        names.insert(0, build.store_temporary())

        def replace() -> None:
            loads = [functools.partial(build.writer.load_fast, name) for name in names]
            build.call_helper(becoming, lambda: build.push_object(self.value_type), *loads)
            build.writer.pop_top()

        build.later(replace)

    @nested_text
    def text(self) -> str:
        shown = ", ".join(f"{key.text()}: {value.text()}" for key, value in itertools.islice(self.entries.values(), 4))
        return f"{self.type_name()} of {len(self.entries)}: {shown}{', ...' if len(self.entries) > 4 else ''}"


class ExistingDictVariable(DictVariable):
    """A dict that existed before the frame. As long as the program only reads and stores values under plain keys, only its type
    and the values it reads are guarded: a registry may grow, and a loop that collects results uses one graph, whatever the
    keys.
    """

    def __init__(self, ctx: TraceContext, real: dict[Any, Any], source: Source) -> None:
        self.ctx, self.real_dict, self.source = ctx, real, source
        self.put: list[Pair] = []
        self.steps = []
        self._entries: Entries | None = None
        self._has_plain_keys: bool | None = None

    @property
    def entries(self) -> Entries:  # type: ignore[override]
        """All entries; from now on the keys are guarded."""
        if self._entries is None:
            self._entries = existing_entries(self.ctx, self.real_dict, self.source)
            for key, value in self.put:
                self.store(self.ctx, key, value)
        return self._entries

    def like(self, entries: Entries) -> DictVariable:
        return DictVariable(entries)

    def find(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker | None:
        if not self._is_guardable_by_key(key):
            return super().find(ctx, key)
        assert self.source is not None
        name = key.as_constant()
        for stored_key, value in reversed(self.put):
            if stored_key.as_constant() == name:
                return value.read(ctx)
        if name in self.real_dict:
            return ctx.values.lazy(self.real_dict[name], self.source.item(name)).read(ctx)
        ctx.guard(self.source, "NAME_ABSENT", name)
        return None

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        if not self._is_guardable_by_key(item):
            return super().contains(ctx, item)
        assert self.source is not None
        name = item.as_constant()
        if not any(stored_key.as_constant() == name for stored_key, _ in self.put):
            ctx.guard(self.source, "NAME_PRESENT" if name in self.real_dict else "NAME_ABSENT", name)
            return ConstantVariable(name in self.real_dict)
        return ConstantVariable(True)

    def _is_guardable_by_key(self, key: VariableTracker) -> bool:
        """Whether this key alone can be guarded: a string or an integer, among keys whose comparison runs no user code."""
        if self._entries is not None or not isinstance(key, ConstantVariable) or type(key.value) not in (str, int):
            return False
        if self._has_plain_keys is None:
            self._has_plain_keys = all(map(_equals_no_other_type, self.real_dict))
        return self._has_plain_keys

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        if self._entries is None and isinstance(key, ConstantVariable):
            ctx.journal.note(self, "__setitem__")
            self.put.append((key, value))
        else:
            super().set_item(ctx, key, value)

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(self.put[:most], self.real_dict) if self._entries is None else super().contents(most)

    def bulk(self) -> int:
        return len(self.real_dict) + len(self.put) if self._entries is None else len(self._entries)

    def content_at(self, key: Any) -> Any:
        return None if self._entries is None else super().content_at(key)

    def write_back(self, build: Reconstruction) -> None:
        if self._entries is not None:
            super().write_back(build)
            return
        build.push(self)
        target = build.store_temporary()
        pairs = []
        for key, value in self.put:
            build.push(key)
            key_name = build.store_temporary()
            build.push(value)
            pairs.append((key_name, build.store_temporary()))

        def put() -> None:
            for key_name, value_name in pairs:
                build.writer.load_fast(value_name)
                build.writer.load_fast(target)
                build.writer.load_fast(key_name)
                build.writer.store_subscr()

        build.later(put)

    def text(self) -> str:
        if self._entries is not None:
            return super().text()
        return f"dict of {len(self.real_dict)}" + (f", {len(self.put)} put" if self.put else "")


def _equals_no_other_type(key: object) -> bool:
    """Whether a key is plain and equals no string or integer of another type: `True`, `1.0` and `np.int64(1)` equal 1."""
    return is_plain_value(key) and type(key) not in (bool, float, complex) and not is_numpy_number(key)


def follow(steps: tuple[str, ...], kind: Any, target: dict[Any, Any], entries: dict[Any, Any], keys: tuple[Any, ...]) -> None:
    """Apply the program's steps to a real dict, so that it ends with these entries.

    The dict may be under iteration, which counts positions: a removed key leaves an empty position, and a new key goes after all
    positions even if the other keys are unchanged; `popitem` leaves no empty position; updating an empty dict may copy the
    positions of the other dict (Objects/dictobject.c, dict_merge).
    """
    for step, key in zip(steps, keys, strict=True):
        if step == "put":
            kind.__setitem__(target, key, None)
        elif step == "take out":
            kind.__delitem__(target, key)
        elif step == "popitem":
            kind.popitem(target)
        elif step == "merge":
            kind.update(target, key)
        else:
            kind.clear(target)
    put_values(kind, target, entries)


def become(kind: Any, target: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """Make a dict equal to these entries, in this order. Unchanged entries are not touched, in case the dict is under iteration."""
    old, new = keys_of(target), list(entries)  # an OrderedDict has an order of its own
    if old and not (len(old) <= len(new) and all(map(operator.is_, old, new))):  # usually the keys share a prefix
        remaining = iter(old)
        unmoved = set(map(id, itertools.takewhile(lambda key: any(old_key is key for old_key in remaining), new)))
        for key in old:
            if id(key) not in unmoved:
                kind.__delitem__(target, key)
    put_values(kind, target, entries)


def put_values(kind: Any, target: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """Store the values under their keys; a value that is already there is not stored again."""
    for key, value in entries.items():
        if dict.get(target, key, _MISSING) is not value:
            kind.__setitem__(target, key, value)


_MISSING = object()


def become_after_clear(kind: Any, target: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """`become` for a dict that the program cleared: its positions start from zero again."""
    kind.clear(target)
    kind.update(target, entries)


def become_and_invalidate_iterators(kind: Any, target: OrderedDict[Any, Any], entries: dict[Any, Any]) -> None:
    """`become` for an OrderedDict whose order was changed: iterators over it raise, even if the order is the original one again."""
    become(kind, target, entries)
    kind.__setitem__(target, _MISSING, None)
    kind.__delitem__(target, _MISSING)


class OrderedDictVariable(DictVariable):
    """A `collections.OrderedDict`; its entries are one, too, so that iterators detect the same changes as CPython's.

    Unlike a dict it may have attributes, as torch's `state_dict` uses: `destination._metadata = ...`.
    """

    value_type = OrderedDict
    container_type = OrderedDict

    def __init__(
        self, entries: Entries | None = None, source: Source | None = None, real: OrderedDict[Any, Any] | None = None
    ) -> None:
        super().__init__(OrderedDict(entries or {}), source)
        self._since_then = iter(self.entries)
        self.real = real
        self.attributes: dict[str, VariableTracker | None] = {}  # the attributes stored by the program; None: deleted

    @property
    def becoming(self) -> Callable[..., None]:
        if "mutated" in complaint_of(self._since_then):  # `clear` changes only the size
            return become_and_invalidate_iterators
        return become_after_clear if any(step == "clear" for step, _ in self.steps) else become

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        stored = self.attributes.get(name)
        if stored is not None:
            return stored
        if name == "__dict__":
            ctx.break_graph("DX303", name=name, type=self.type_name())
        if self.source is not None and not hasattr(OrderedDict, name) and name not in self.attributes:
            if self.real is None:
                ctx.break_graph("DX303", name=name, type=self.type_name())
            if name in instance_dict(self.real):
                return ctx.build(instance_dict(self.real)[name], self.source.attribute(name))
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        return super().get_attribute(ctx, name)

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        if hasattr(OrderedDict, name) or (self.source is not None and self.real is None):
            ctx.break_graph("DX303", name=name, type=self.type_name())
        ctx.journal.note(self, "__setattr__")
        self.attributes[name] = value

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        if hasattr(OrderedDict, name):
            super().delete_attribute(ctx, name)
        self.get_attribute(ctx, name)  # raises AttributeError
        ctx.journal.note(self, "__delattr__")
        if self.source is None:
            del self.attributes[name]
        else:
            self.attributes[name] = None

    def all_attributes(self, ctx: TraceContext) -> dict[str, VariableTracker]:
        """The content of `vars(self)`; that there are no other attributes is guarded."""
        names = list(self.attributes)
        if self.source is not None and self.real is not None:
            own = tuple(instance_dict(self.real))
            ctx.guard(self.source.attribute("__dict__", "getattr"), "DICT_KEYS", own)
            names = [*own, *(name for name in names if name not in own)]
        return {name: self.get_attribute(ctx, name) for name in names if self.attributes.get(name, self) is not None}

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(OrderedDict, DictVariable(self.entries))
        for name, value in self.attributes.items():
            assert value is not None  # for a dict made in the frame, no attribute is recorded as deleted
            build.writer.copy(1)
            build.push(value)
            build.writer.swap(2)
            build.writer.store_attr(name)

    def write_back(self, build: Reconstruction) -> None:
        super().write_back(build)
        write_attributes(build, self, self.attributes)


def _factory_may_set_the_key() -> bool:
    """Whether an item that the factory itself has stored stays, and is the result: so from Python 3.14 on."""
    probed: defaultdict[str, int] = defaultdict(lambda: probed.setdefault("key", 1) + 1)
    return probed["key"] == 1


_FACTORY_MAY_SET_THE_KEY = _factory_may_set_the_key()


class DefaultDictVariable(DictVariable):
    """A `collections.defaultdict`."""

    value_type = defaultdict
    container_type = defaultdict

    def __init__(self, entries: Entries | None = None, source: Source | None = None, factory: VariableTracker = NONE) -> None:
        super().__init__(entries, source)
        self.factory = factory

    def new_container(self, items: Iterable[Any]) -> Any:
        return defaultdict(None, items)

    def like(self, entries: Entries) -> DictVariable:
        return DefaultDictVariable(entries, None, self.factory)

    def missing(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        factory = self.factory.read(ctx)
        if factory.is_constant() and factory.as_constant() is None:
            return super().missing(ctx, key)
        value = factory.call(ctx, [], {})
        if _FACTORY_MAY_SET_THE_KEY and (entry := self.entries.get(key.hash_key(ctx))) is not None:
            return entry[1].read(ctx)
        self.set_item(ctx, key, value)
        return value

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "default_factory":
            self.factory = self.factory.read(ctx)
            return self.factory
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(defaultdict, self.factory, DictVariable(self.entries))


class MappingProxyVariable(DictVariable):
    """A `types.MappingProxyType`: a read-only view, which forwards to the dict behind it, an OrderedDict or defaultdict as well."""

    kind = "mapping proxy"
    mutable = True
    value_type = MappingProxyType

    def __init__(self, behind: DictVariable, source: Source | None = None) -> None:
        self.behind = behind
        self.source = source

    @property
    def container_type(self) -> type[Any] | None:  # type: ignore[override]
        return self.behind.container_type

    @property
    def entries(self) -> Entries:  # type: ignore[override]
        return self.behind.entries

    @property
    def steps(self) -> list[Step]:  # type: ignore[override]
        return self.behind.steps

    def like(self, entries: Entries) -> DictVariable:
        return self.behind.like(entries)

    def find(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker | None:
        return self.behind.find(ctx, key)

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return self.behind.contains(ctx, item)

    def missing(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        return self.behind.missing(ctx, key)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self.behind.iterate(ctx)

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        ctx.raise_exception(TypeError, "'mappingproxy' object does not support item assignment")

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        ctx.raise_exception(TypeError, "'mappingproxy' object does not support item deletion")

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(MappingProxyType, self.behind)


# -- live values ------------------------------------------------------------------------------------------------------


def _nth_value(index: int) -> Callable[[Any], Any]:
    def value(mapping: Any) -> Any:
        return nth_value(mapping, index) if type(mapping) is dict else values_of(mapping)[index]

    return value


def existing_entries(ctx: TraceContext, value: Any, source: Source | None) -> Entries:
    """The entries of a live mapping: keys guarded, values lazy (made by the engine itself if `source` is None)."""
    try:
        items = list(zip(keys_of(value), values_of(value), strict=True))
    except KeyError:  # an OrderedDict from which a method of dict removed a key
        ctx.break_graph("DX302", question="its items", type=type(value).__name__)
    if source is None:
        pairs = [(ctx.build(key, None), ctx.build(item, None)) for key, item in items]
        entries: Entries = {key.hash_key(ctx): (key, item) for key, item in pairs}
        refuse_stale_hashes(ctx, behind(value), list(entries), [key for key, _ in items])
        return entries
    ctx.guard(source, "TYPE_MATCH", type(value))
    keys = tuple(key for key, _ in items)
    if all(map(is_plain_value, keys)):
        ctx.guard(source, "DICT_KEYS", keys)
        plain = [(ctx.build(key, None), ctx.values.lazy(item, source.item(key))) for key, item in items]
        return {key.hash_key(ctx): (key, item) for key, item in plain}
    ctx.guard(source, "LIST_LENGTH", len(value))
    entries = {}
    for index, (key, item) in enumerate(items):
        tracker = existing_key(ctx, key, source.key(index))
        entries[tracker.hash_key(ctx)] = tracker, ctx.values.lazy(item, _value_source(source, index))
    refuse_stale_hashes(ctx, behind(value), list(entries), keys)
    return entries


def existing_key(ctx: TraceContext, key: object, source: Source) -> VariableTracker:
    """A key that hashes by identity, guarded to be this very object."""
    if not is_plain_value(key):
        ctx.guard(source, "ID_MATCH", Identity(key, keep=False))
    return ctx.build(key, source)


def _value_source(source: Source, index: int) -> Source:
    function = _nth_value(index)
    value_source: Source = source.child(("value", index), lambda: CallSource(source, function, f"value {index} of "))
    return value_source


@builds(dict)
def build_dict(ctx: TraceContext, value: dict[Any, Any], source: Source | None) -> VariableTracker:
    """A dict: its type is guarded, its keys when the program depends on them, values when they are read."""
    if source is None:
        return DictVariable(existing_entries(ctx, value, source))
    ctx.guard(source, "TYPE_MATCH", dict)
    return ExistingDictVariable(ctx, value, source)


@builds(defaultdict)
def build_defaultdict(ctx: TraceContext, value: defaultdict[Any, Any], source: Source | None) -> VariableTracker:
    """A defaultdict: guarded like a dict; its factory is guarded when it is called."""
    if source is None:
        factory = ctx.build(value.default_factory, None)
    else:
        factory = ctx.values.lazy(value.default_factory, source.attribute("default_factory", "getattr"))
    return DefaultDictVariable(existing_entries(ctx, value, source), source, factory)


@builds(MappingProxyType)
def build_mapping_proxy(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A mappingproxy: guarded like the underlying dict; a proxy of a user-defined mapping calls the mapping's methods."""
    shown = behind(value)
    if type(shown) not in (dict, OrderedDict, defaultdict):
        ctx.break_graph("DX302", question="its items", type=f"mappingproxy of a {type(shown).__qualname__}")
    shown_source = source
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", MappingProxyType)
        shown_source = source.child("behind", lambda: CallSource(source, behind, "what is behind "))
    if type(shown) is dict:
        return MappingProxyVariable(DictVariable(existing_entries(ctx, shown, shown_source)), source)
    return MappingProxyVariable(cast("DictVariable", ctx.build(shown, shown_source).read(ctx)), source)  # the one of that mapping


# -- operators --------------------------------------------------------------------------------------------------------


def _behind_proxy(mapping: DictVariable) -> DictVariable:
    """What an operator gets of a mapping proxy: CPython unwraps both sides."""
    return mapping.behind if isinstance(mapping, MappingProxyVariable) else mapping


@binary_rule(DictVariable, DictVariable, "==", "!=")
def _equal_dicts(ctx: TraceContext, symbol: str, lhs: DictVariable, rhs: DictVariable) -> VariableTracker:
    lhs, rhs = _behind_proxy(lhs), _behind_proxy(rhs)
    same = lhs.entries.keys() == rhs.entries.keys() and all(
        equal(ctx, value.read(ctx), rhs.entries[hash_key][1].read(ctx)) for hash_key, (_, value) in lhs.entries.items()
    )
    if isinstance(lhs, OrderedDictVariable) and isinstance(rhs, OrderedDictVariable):
        same = same and list(lhs.entries) == list(rhs.entries)
    return ConstantVariable(same == (symbol == "=="))


@binary_rule(DictVariable, DictVariable, "|")
def _merge(ctx: TraceContext, symbol: str, lhs: DictVariable, rhs: DictVariable) -> VariableTracker:
    lhs, rhs = _behind_proxy(lhs), _behind_proxy(rhs)
    keeper = rhs if lhs.value_type is dict and lhs.storage_owner is None else lhs
    merged = keeper.like(dict(lhs.entries))
    update(ctx, merged, rhs)
    return merged


@binary_rule(DictVariable, VariableTracker, "|=")
def _merge_in_place(ctx: TraceContext, symbol: str, lhs: DictVariable, rhs: VariableTracker) -> VariableTracker:
    if isinstance(lhs, MappingProxyVariable):
        ctx.raise_exception(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
    ctx.journal.note(lhs, "|=")
    update(ctx, lhs, rhs)
    return lhs


# -- methods ----------------------------------------------------------------------------------------------------------


def update(ctx: TraceContext, self: DictVariable, other: VariableTracker) -> None:
    """`self.update(other)`: a dict, anything with keys(), or an iterable of pairs. The caller records the mutation."""
    if self.source is not None and not self.entries and not isinstance(self.entries, OrderedDict):
        _merge_into_empty(ctx, self, other)
        return
    for key, value in pairs_of(ctx, other, _unpacked_pair if isinstance(self, OrderedDictVariable) else _pair_of):
        self.store(ctx, key, value)


def _merge_into_empty(ctx: TraceContext, self: DictVariable, other: VariableTracker) -> None:
    """Update a real dict that is empty now. If it was emptied key by key, here or before a graph break, it still has its empty
    positions, and iterators observe whether CPython reuses them or copies the positions of `other`.
    """
    mapping = other.merged_as(ctx)
    if not isinstance(mapping, DictVariable):
        for key, value in pairs_of(ctx, other):
            self.store(ctx, key, value)
        return
    pairs = mapping.pairs(ctx)
    if mapping.source is not None and {step for step, _ in self.steps} & {"take out", "popitem"}:
        # `other` may have empty positions, too
        ctx.break_graph("DX213", method="dict.update of a dict that was emptied key by key")
    steps = list(self.steps)
    for key, value in pairs:
        self.store(ctx, key, value)
    if pairs:
        merged: Entries = {hash_key: (key, NONE) for hash_key, (key, _) in self.entries.items()}
        self.steps[:] = [*steps, ("merge", DictVariable(merged))]


def pairs_of(
    ctx: TraceContext, other: VariableTracker, pair_of: Callable[[TraceContext, int, VariableTracker], Pair] | None = None
) -> Iterator[Pair]:
    """The pairs that `dict(other)` would hold, each read when it is asked for."""
    mapping = other.merged_as(ctx)
    if isinstance(mapping, DictVariable):
        yield from mapping.pairs(ctx)
    elif defines(other.python_type(), "keys"):
        for key in fast_items(ctx, other.call_method(ctx, "keys", [], {})):
            yield key, other.get_item(ctx, key)
    else:
        for index, item in enumerate(each_item(ctx, other)):
            yield (pair_of or _pair_of)(ctx, index, item)


def _unpacked_pair(ctx: TraceContext, index: int, item: VariableTracker) -> Pair:
    """A pair for an OrderedDict, whose `update` unpacks it (Objects/odictobject.c, mutablemapping_add_pairs)."""
    parts = first_items(ctx, item.iterate(ctx), 3)
    if len(parts) > 2:
        ctx.raise_exception(ValueError, "too many values to unpack (expected 2)")
    if len(parts) < 2:
        ctx.raise_exception(ValueError, f"need more than {len(parts)} value{'s' * (not parts)} to unpack")
    return parts[0], parts[1]


def _pair_of(ctx: TraceContext, index: int, item: VariableTracker) -> Pair:
    try:
        parts = fast_items(ctx, item)
    except ObservedException as raised:
        if not issubclass(raised.exception.python_type(), TypeError):
            raise
        ctx.raise_exception(TypeError, no_update_element(index))
    if len(parts) != 2:
        ctx.raise_exception(ValueError, f"dictionary update sequence element #{index} has length {len(parts)}; 2 is required")
    return parts[0], parts[1]


@builtin_method(dict, "get")
@builtin_method(MappingProxyType, "get")
def _get(ctx: TraceContext, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE, /) -> VariableTracker:
    value = self.find(ctx, key)
    return default if value is None else value


@mutating_method(dict, "setdefault")
def _setdefault(ctx: TraceContext, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE) -> VariableTracker:
    value = self.find(ctx, key)
    if value is None:
        self.store(ctx, key, default)
    return default if value is None else value


@mutating_method(dict, "pop")
def _pop(ctx: TraceContext, self: DictVariable, key: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    pair = self.take_out(dict_hash_key(ctx, key))
    if pair is None:
        return self.missing_key(ctx, key) if default is None else default
    return pair[1].read(ctx)


@mutating_method(dict, "popitem")
def _popitem(ctx: TraceContext, self: DictVariable, /) -> VariableTracker:
    if not self.entries:
        ctx.raise_exception(KeyError, "popitem(): dictionary is empty")
    return part_of(ctx, cast("Pair", self.take_out(next(reversed(self.entries)), "popitem")), "items")


@mutating_method(OrderedDict, "popitem")
def _popitem_ordered(ctx: TraceContext, self: DictVariable, last: VariableTracker | None = None) -> VariableTracker:
    if not self.entries:
        ctx.raise_exception(KeyError, "dictionary is empty")
    hash_key = next(reversed(self.entries) if last is None or specialize_bool(ctx, last) else iter(self.entries))
    return part_of(ctx, cast("Pair", self.take_out(hash_key)), "items")


@mutating_method(OrderedDict, "move_to_end")
def _move_to_end(ctx: TraceContext, self: DictVariable, key: VariableTracker, last: VariableTracker | None = None) -> None:
    entries, hash_key = cast("OrderedDict[object, Pair]", self.entries), dict_hash_key(ctx, key)
    if hash_key in entries:
        entries.move_to_end(hash_key, last=last is None or specialize_bool(ctx, last))
    else:
        self.missing_key(ctx, key)


@mutating_method(dict, "clear")
def _clear(ctx: TraceContext, self: DictVariable, /) -> None:
    self.take_all()


@mutating_method(dict, "update")
def _update(ctx: TraceContext, self: DictVariable, other: VariableTracker | None = None, /, **kwargs: VariableTracker) -> None:
    if other is not None:
        update(ctx, self, other)
    for name, value in kwargs.items():
        self.store(ctx, ConstantVariable(name), value)


@builtin_method(dict, "copy", "__copy__")
@builtin_method(MappingProxyType, "copy")
def _copy(ctx: TraceContext, self: DictVariable, /) -> VariableTracker:
    return self.like(dict(self.entries))
