"""Sets: set and frozenset.

The idea: a set's tracker keeps a real set of hash keys (the constant itself, a tuple of hash keys, the tracker of an object that
hashes by identity) and applies the program's operations to it, with operands of the same types: a set copies another set's table,
and makes room for all keys of a dict at once. So equality and, for constants, iteration order are Python's own. Members that hash
by identity are iterated in insertion order.

For a set that existed before the frame, type and content are guarded, and the order only when something depends on it.

In: live sets, BUILD_SET and similar instructions. Out: members, new sets. PyTorch's counterpart: `SetVariable` in
torch/_dynamo/variables/sets.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from dynexplore.engine.native import set_in_table, set_table_of, set_with_table_of
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.containers.hashable import set_hash_key
from dynexplore.engine.variables.containers.iterator import (
    ItemsIteratorVariable,
    IteratorVariable,
    set_iterator_at,
)
from dynexplore.engine.variables.containers.list_items import each_item
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.contract.nested_text import nested_text
from dynexplore.engine.variables.contract.write_back import refill
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable, mutating_method
from dynexplore.engine.variables.objects.user_hash_key import refuse_collisions, refuse_stale_hashes
from dynexplore.engine.variables.operators import BINARY, COMPARE, binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_literal, is_plain_value
from dynexplore.engine.variables.signatures import builtin_method

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

Members = dict[object, VariableTracker]
_ALGEBRA = ("|", "&", "-", "^")
_MANY = 64


class SetVariable(BuiltinValueVariable):
    """A `set`."""

    kind = "set"
    mutable = True
    value_type: ClassVar[type[Any]] = set
    container_type: ClassVar[type[Any] | None] = set

    def __init__(self, members: Members | None = None, source: Source | None = None, keys: set[object] | None = None) -> None:
        self.members: Members = dict(members or {})
        self.keys = set(self.members) if keys is None else keys
        self.source = source
        self._order_guard: tuple[Any, ...] | None = None

    def guard_order(self, order: tuple[Any, ...]) -> None:
        """Guard this order of the live set as soon as the program iterates over it."""
        self._order_guard = order

    def ordered(self, ctx: TraceContext) -> list[VariableTracker]:
        """The members in Python's iteration order, guarded."""
        self.table(ctx)
        return self.in_order()

    def table(self, ctx: TraceContext) -> set[object]:
        """The hash keys, for an operation whose result is in an order that depends on theirs, which is guarded."""
        if self._order_guard is not None and self.source is not None:
            ctx.guard(self.source, "DICT_KEYS", self._order_guard)
        return self.keys

    def in_order(self) -> list[VariableTracker]:
        """The members in order, without a guard."""
        if any(map(is_by_identity, self.keys)):
            return list(self.members.values())
        return [self.members[key] for key in self.keys]

    def building(self) -> tuple[list[VariableTracker], tuple[Any, ...] | None]:
        """The members in an order in which such a set is built: of colliding keys, the first one added takes the place. Where that
        does not give the table that the program's operations gave, in iteration order, with the table.
        """
        if any(map(is_by_identity, self.keys)):
            return self.in_order(), None
        order = list(self.keys)
        added, built = list(order), list(set(order))
        for _ in range(_TRIES):
            if built == order:
                break
            displaced = next(key for key, goal in zip(built, order, strict=True) if key is not goal)
            added.remove(displaced)
            added.insert(0, displaced)
            built = list(set(added))
        table = set_table_of(self.keys)
        is_built_so = built == order and table == set_table_of(set(added))
        if is_built_so or not all(item.is_constant() for item in self.members.values()):
            return [self.members[key] for key in (added if built == order else order)], None
        return self.in_order(), table

    def put(self, ctx: TraceContext, item: VariableTracker) -> None:
        """Add a member. The caller records the mutation."""
        key = set_hash_key(ctx, item)
        self.table(ctx).add(key)
        self.members.setdefault(key, item)

    def take(self, key: object) -> VariableTracker | None:
        """Remove a member; None if it is missing. The caller records the mutation."""
        self.keys.discard(key)
        return self.members.pop(key, None)

    def keep(self, keys: set[object], others: Members) -> None:
        """Become the set of these hash keys, whose new members are among `others`."""
        self.members = {key: self.members[key] for key in self.members if key in keys} | {
            key: item for key, item in others.items() if key in keys and key not in self.members
        }
        self.keys = keys

    # -- for those who watch

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(list(itertools.islice(self.members.values(), most)))

    def bulk(self) -> int:
        return len(self.members)

    def identity(self) -> object | None:
        return self

    # -- questions

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.members)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.members))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return SetIteratorVariable(self, self.ordered(ctx))

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return self.ordered(ctx)

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.lookup_key(ctx, item) in self.members)

    def lookup_key(self, ctx: TraceContext, item: VariableTracker) -> object:
        """The hash key of a value to look up; a set is looked up as a frozenset (setobject.c, set_contains)."""
        return frozenset(item.keys) if isinstance(item, SetVariable) else set_hash_key(ctx, item)

    def reconstruct(self, build: Reconstruction) -> None:
        refuse_collisions(self.members)
        items, table = self.building()
        if table is not None:
            build.call_object(set_in_table, SetVariable(), TupleVariable(items), ConstantVariable(table))
            return
        for item in items:
            build.push(item)
        build.writer.build_set(len(self.members))

    def write_back(self, build: Reconstruction) -> None:
        """`real.clear(); real.update(members)`."""
        refuse_collisions(self.members)
        items, table = self.building()
        if table is None:
            refill(build, self, TupleVariable(items), clear=set.clear, fill=set.update)
        else:
            refill(build, self, TupleVariable([TupleVariable(items), ConstantVariable(table)]), clear=None, fill=_fill)

    @nested_text
    def text(self) -> str:
        many = len(self.members) > _MANY  # sorting would take long, and only four are shown
        first = itertools.islice(self.members.values(), 4) if many else self.in_order()[:4]
        shown = ", ".join(item.text() for item in first)
        return f"{self.type_name()} of {len(self.members)}: {shown}{', ...' if len(self.members) > 4 else ''}"


def _fill(real: set[Any], content: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    set_in_table(real, *content)


def fill_set(build: Reconstruction, target: VariableTracker, content: SetVariable) -> None:
    """Fill a new instance of a subclass of set with the members of its storage."""
    items, table = content.building()
    if table is None:
        build.call_object(set.update, target, TupleVariable(items))
    else:
        build.call_object(set_in_table, target, TupleVariable(items), ConstantVariable(table))


_TRIES = 8  # to find the order of adding: each moves a member that was displaced by a later one to the front


class FrozenSetVariable(SetVariable):
    """A `frozenset`."""

    kind = "frozenset"
    value_type = frozenset
    container_type = frozenset

    def as_constant(self) -> Any:
        if any(map(is_by_identity, self.keys)):
            return frozenset(item.as_constant() for item in self.members.values())
        return set_in_table(None, tuple(item.as_constant() for item in self.in_order()), set_table_of(self.keys))

    def hash_key(self, ctx: TraceContext) -> object:
        return frozenset(self.keys)

    def reconstruct(self, build: Reconstruction) -> None:
        refuse_collisions(self.members)
        if self.is_constant() and is_literal(self.as_constant()):
            build.writer.load_const(self.as_constant())
        else:
            items, table = self.building()
            if table is None:
                build.call_object(frozenset, TupleVariable(items))
            else:
                build.call_object(set_in_table, ConstantVariable(None), TupleVariable(items), ConstantVariable(table))


class SetIteratorVariable(IteratorVariable):
    """An iterator over a set; raises if the set's size changes during iteration, as in CPython."""

    value_type: ClassVar[type[Any]] = type(iter(set()))

    def __init__(self, walked: SetVariable, order: list[VariableTracker]) -> None:
        self.walked, self.order, self.index = walked, order, 0
        self.keys = set(walked.members)

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.index > len(self.order):
            return None
        if len(self.walked.members) != len(self.order):
            ctx.raise_exception(RuntimeError, "Set changed size during iteration")
        if self.walked.members.keys() != self.keys:  # which new members CPython returns depends on where it stores them
            ctx.break_graph("DX307", type="a set whose members changed during iteration")
        self.index += 1
        return self.order[self.index - 1] if self.index <= len(self.order) else None

    def reconstruct(self, build: Reconstruction) -> None:
        if self.index > len(self.order):
            ItemsIteratorVariable([], self.value_type).reconstruct(build)
        elif self.walked.members.keys() != self.keys:
            raise NotImplementedError("an iterator over a set whose members have changed since")
        else:
            build.call_object(set_iterator_at, self.walked, TupleVariable(self.order[self.index :]))


def is_by_identity(key: object) -> bool:
    """Whether a hash key belongs to an object that hashes by identity."""
    if isinstance(key, (tuple, frozenset)):
        return any(map(is_by_identity, key))
    return isinstance(key, VariableTracker)


Operand = set[object] | dict[object, None] | list[object]


def operand(ctx: TraceContext, items: VariableTracker) -> tuple[Operand, Members]:
    """The hash keys of an operand in a container that CPython's set operations treat as they do the operand; its members."""
    if isinstance(items, SetVariable):
        return items.table(ctx), items.members
    members: Members = {}
    keys: list[object] = []
    for item in each_item(ctx, items):
        key = set_hash_key(ctx, item)
        keys.append(key)
        members.setdefault(key, item)
    return (dict.fromkeys(keys) if items.python_type() is dict else keys), members


def members_of(ctx: TraceContext, items: VariableTracker) -> SetVariable:
    """`set(items)`."""
    if isinstance(items, SetVariable) or items.python_type() is dict:
        keys, members_of_operand = operand(ctx, items)
        return SetVariable(members_of_operand, keys=set(keys))
    members = SetVariable({})
    for item in items.unpack(ctx):
        members.put(ctx, item)
    return members


def _common(ctx: TraceContext, lhs: SetVariable, rhs: VariableTracker) -> SetVariable:
    """`lhs & rhs`. Equal members are those of `rhs`, or of the smaller set; once all of `lhs` were met, nothing more of an iterable
    is read (setobject.c, set_intersection).
    """
    if isinstance(rhs, SetVariable):
        smaller, other = (lhs, rhs) if len(rhs.members) > len(lhs.members) else (rhs, lhs)
        members = {key: item for key, item in smaller.members.items() if key in other.members}
        return SetVariable(members, keys=lhs.table(ctx) & rhs.table(ctx))
    common = SetVariable({})
    for item in each_item(ctx, rhs):
        if item.hash_key(ctx) in lhs.members:  # whose TypeError does not name the set, as that of `add` does from Python 3.14 on
            common.put(ctx, item)
            if len(common.members) >= len(lhs.members):
                break
    return common


# -- live values ------------------------------------------------------------------------------------------------------


def _existing(ctx: TraceContext, value: Any, source: Source | None, tracker: type[SetVariable]) -> SetVariable:
    if source is None or all(map(is_plain_value, value)):
        items = [ctx.build(item, None) for item in value]
    else:
        ctx.guard(source, "LIST_LENGTH", len(value))
        items = [_member(ctx, item, source.key(index)) for index, item in enumerate(value)]
    built = tracker({item.hash_key(ctx): item for item in items}, source)
    refuse_stale_hashes(ctx, value, list(built.members), list(value))
    if source is None and all(map(is_plain_value, value)):
        built.keys = set_with_table_of(value)
    if source is not None and all(map(is_plain_value, value)):
        ctx.guard(source, "SET_CONTENT", frozenset(value))
        built.keys = set_with_table_of(value)
        built.guard_order(tuple(value))
    return built


def _member(ctx: TraceContext, item: object, source: Source) -> VariableTracker:
    if not is_plain_value(item):
        ctx.guard(source, "ID_MATCH", Identity(item, keep=False))
    return ctx.build(item, source)


@builds(set)
def build_set(ctx: TraceContext, value: set[Any], source: Source | None) -> VariableTracker:
    """A set: type and content are guarded."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", set)
    return _existing(ctx, value, source, SetVariable)


@builds(frozenset)
def build_frozenset(ctx: TraceContext, value: frozenset[Any], source: Source | None) -> VariableTracker:
    """A frozenset: type and content are guarded."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", frozenset)
    return _existing(ctx, value, source, FrozenSetVariable)


# -- operators --------------------------------------------------------------------------------------------------------


@binary_rule(SetVariable, SetVariable, *COMPARE)
def compare_sets(ctx: TraceContext, symbol: str, lhs: SetVariable, rhs: SetVariable) -> VariableTracker:
    """`==`, `<=` and the other comparisons."""
    return ConstantVariable(COMPARE[symbol](lhs.keys, rhs.keys))


@binary_rule(SetVariable, SetVariable, *_ALGEBRA)
def combine(ctx: TraceContext, symbol: str, lhs: SetVariable, rhs: SetVariable) -> VariableTracker:
    """Union, intersection, difference, symmetric difference; the result has the left operand's type."""
    if symbol == "&":
        return _of_type(lhs, _common(ctx, lhs, rhs))
    result_set = type(lhs)(lhs.members, keys=set())
    result_set.keep(BINARY[symbol](lhs.table(ctx), rhs.table(ctx)), rhs.members)
    return result_set


def _of_type(example: SetVariable, members: SetVariable) -> SetVariable:
    return type(example)(members.members, keys=members.keys)


_IN_PLACE: dict[str, Callable[[Any, Any], object]] = {
    "|=": set.update, "-=": set.difference_update, "^=": set.symmetric_difference_update,
}  # fmt: skip


def _combine(ctx: TraceContext, symbol: str, self: SetVariable, other: VariableTracker) -> None:
    """`self <symbol>= other` for any iterable; `s -= s` empties it. The caller records the mutation."""
    if symbol == "&=":
        common = _common(ctx, self, other)
        self.members, self.keys = common.members, common.keys
    else:
        keys, members = operand(ctx, other)
        _IN_PLACE[symbol](self.table(ctx), keys)
        self.keep(self.keys, members)


@binary_rule(SetVariable, SetVariable, *(f"{symbol}=" for symbol in _ALGEBRA))
def combine_in_place(ctx: TraceContext, symbol: str, lhs: SetVariable, rhs: SetVariable) -> VariableTracker:
    """`left |= right` and similar; a frozenset yields a new one."""
    if isinstance(lhs, FrozenSetVariable):
        return combine(ctx, symbol[:-1], lhs, rhs)
    ctx.journal.note(lhs, symbol)
    _combine(ctx, symbol, lhs, rhs)
    return lhs


# -- methods ----------------------------------------------------------------------------------------------------------


def _combining(symbol: str) -> Callable[..., VariableTracker]:
    def row(ctx: TraceContext, self: SetVariable, *others: VariableTracker) -> VariableTracker:
        combined = self
        for other in others:
            combined = _combined(ctx, symbol, combined, other, is_copy=combined is not self)
        return combined if others else type(self)(self.members, keys=set(self.table(ctx)))

    return row


def _combined(ctx: TraceContext, symbol: str, self: SetVariable, other: VariableTracker, *, is_copy: bool) -> SetVariable:
    """`self.union(other)` and its like, for the next of several others: the first makes a set, which the rest change."""
    if symbol == "&":
        return _of_type(self, _common(ctx, self, other))
    if symbol == "|" and not is_copy:
        self, is_copy = type(self)(self.members, keys=set(self.table(ctx))), True
    if is_copy:
        _update(ctx, f"{symbol}=", self, other)
        return self
    keys, members = operand(ctx, other)
    made_by = set.difference if symbol == "-" else set.symmetric_difference
    combined = type(self)(self.members, keys=set())
    combined.keep(made_by(self.table(ctx), keys), members)
    return combined


_ONE_BY_ONE: dict[str, Callable[[TraceContext, SetVariable, VariableTracker], object]] = {
    "|=": lambda ctx, self, item: self.put(ctx, item),
    "-=": lambda ctx, self, item: self.take(set_hash_key(ctx, item)),
}


def _updating(symbol: str) -> Callable[..., None]:
    def row(ctx: TraceContext, self: SetVariable, *others: VariableTracker) -> None:
        for other in others:
            _update(ctx, symbol, self, other)

    return row


def _update(ctx: TraceContext, symbol: str, self: SetVariable, other: VariableTracker) -> None:
    """One of `update` and its like; an iterable is read while the set changes. The caller records the mutation."""
    if symbol not in _ONE_BY_ONE or isinstance(other, SetVariable) or other.python_type() is dict:
        _combine(ctx, symbol, self, other)
        return
    for item in each_item(ctx, other):
        _ONE_BY_ONE[symbol](ctx, self, item)
    if symbol == "-=":
        self.table(ctx).difference_update(())  # which closes the places of what was discarded


for _symbol, _name in zip("|&-", ("union", "intersection", "difference"), strict=True):
    builtin_method(set, _name)(_combining(_symbol))
    builtin_method(frozenset, _name)(_combining(_symbol))
    mutating_method(set, "update" if _symbol == "|" else f"{_name}_update")(_updating(_symbol + "="))


@builtin_method(set, "symmetric_difference")
@builtin_method(frozenset, "symmetric_difference")
def _symmetric_difference(ctx: TraceContext, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    return _combining("^")(ctx, self, other)


@mutating_method(set, "symmetric_difference_update")
def _symmetric_difference_update(ctx: TraceContext, self: SetVariable, other: VariableTracker, /) -> None:
    _updating("^=")(ctx, self, other)


@mutating_method(set, "add")
def _add(ctx: TraceContext, self: SetVariable, item: VariableTracker, /) -> None:
    self.put(ctx, item)


@mutating_method(set, "discard")
def _discard(ctx: TraceContext, self: SetVariable, item: VariableTracker, /) -> None:
    self.table(ctx)
    self.take(self.lookup_key(ctx, item))


@mutating_method(set, "remove")
def _remove(ctx: TraceContext, self: SetVariable, item: VariableTracker, /) -> None:
    self.table(ctx)
    if self.take(self.lookup_key(ctx, item)) is None:
        ctx.raise_exception(KeyError, item.as_constant() if item.is_constant() else item)


@mutating_method(set, "pop")
def _pop(ctx: TraceContext, self: SetVariable, /) -> VariableTracker:
    order = self.ordered(ctx)
    if not order:
        ctx.raise_exception(KeyError, "pop from an empty set")
    if any(map(is_by_identity, self.keys)):
        key = next(iter(self.members))
    else:
        key = self.keys.pop()
    member = self.take(key)
    assert member is not None
    return member


@mutating_method(set, "clear")
def _clear(ctx: TraceContext, self: SetVariable, /) -> None:
    self.keys.clear()
    self.members.clear()


@builtin_method(set, "copy", "__copy__")
@builtin_method(frozenset, "copy", "__copy__")
def _copy(ctx: TraceContext, self: SetVariable, /) -> VariableTracker:
    return self if isinstance(self, FrozenSetVariable) else members_of(ctx, self)


def _relation(
    function: Callable[[set[object], set[object]], bool], *, inside: bool | None = None
) -> Callable[..., VariableTracker]:
    """A comparison with any iterable; with `inside`, it is read up to the first item that is not in the set, or that is."""

    def row(ctx: TraceContext, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
        if inside is None or isinstance(other, SetVariable):
            return ConstantVariable(function(self.keys, members_of(ctx, other).keys))
        return ConstantVariable(all((set_hash_key(ctx, item) in self.members) is inside for item in each_item(ctx, other)))

    return row


for _type in (set, frozenset):
    builtin_method(_type, "issubset")(_relation(set.issubset))
    builtin_method(_type, "issuperset")(_relation(set.issuperset, inside=True))
    builtin_method(_type, "isdisjoint")(_relation(set.isdisjoint, inside=False))


def frozen(items: SetVariable) -> FrozenSetVariable:
    """`frozenset(items)`, of a set that was made for it."""
    return FrozenSetVariable(items.members, keys=items.keys)
