"""Dict views: keys(), values(), items(), and the iterators over them.

The idea: a view holds only the dict's tracker, so it always reflects the dict's current content. Views of keys and items are also
sets: their operators produce real sets. As in CPython, iteration raises if the dict's size changes meanwhile, and for an
OrderedDict also if its order changes.

In: a dict's tracker. Out: items, sets, iterators. PyTorch's counterpart: `DictViewVariable` in torch/_dynamo/variables/dicts.py.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from dynexplore.engine.variables.containers.hashable import dict_hash_key
from dynexplore.engine.variables.containers.iterator import (
    ItemsIteratorVariable,
    IteratorVariable,
    iterator_at,
    reversed_iterator_at,
)
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.containers.set_ import FrozenSetVariable, SetVariable, compare_sets, members_of, operand
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.contract.reconstruction import CannotRebuild
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.operators import BINARY, COMPARE, binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.specialize import equal
from dynexplore.engine.variables.signatures import builtin_method

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

Pair = tuple[VariableTracker, VariableTracker]
Entries = dict[object, Pair]
PARTS = ("keys", "values", "items")


def part_of(ctx: TraceContext, pair: Pair, part: str) -> VariableTracker:
    """The key, the value, or both as a tuple."""
    if part == "keys":
        return pair[0].read(ctx)
    if part == "values":
        return pair[1].read(ctx)
    return TupleVariable([pair[0].read(ctx), pair[1].read(ctx)])


@functools.cache
def _view_type(mapping_type: type[Any], part: str) -> type[Any]:
    return type(getattr(mapping_type(), part)())


@functools.cache
def _iterator_type(mapping_type: type[Any], part: str, backwards: bool) -> type[Any]:
    view = getattr(mapping_type(), part)()
    return type(reversed(view) if backwards else iter(view))


class DictViewVariable(BuiltinValueVariable):
    """`mapping.keys()`, `.values()` or `.items()`."""

    kind = "dict view"
    mutable = True

    def __init__(self, mapping: Any, part: str) -> None:
        self.mapping, self.part = mapping, part

    def python_type(self) -> type[Any]:
        return _view_type(self.mapping.value_type, self.part)

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.mapping.pairs_in_order())

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.mapping.pairs_in_order()))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return walk(self.mapping, self.part)

    def iterate_reversed(self, ctx: TraceContext) -> VariableTracker:
        """reversed(view)."""
        return walk(self.mapping, self.part, backwards=True)

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [part_of(ctx, pair, self.part) for pair in self.mapping.pairs_in_order()]

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        if self.part == "keys":
            return ConstantVariable(dict_hash_key(ctx, item) in self.mapping.entries)
        if self.part == "values":
            return ConstantVariable(any(equal(ctx, candidate, item) for candidate in self.unpack(ctx)))
        if not isinstance(item, TupleVariable) or len(item.items) != 2:
            return ConstantVariable(False)
        key, value = item.unpack(ctx)
        pair = self.mapping.entries.get(dict_hash_key(ctx, key))
        return ConstantVariable(pair is not None and equal(ctx, pair[1].read(ctx), value))

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "mapping":
            ctx.break_graph("DX303", name=name, type=self.type_name())
        return super().get_attribute(ctx, name)

    def as_set(self, ctx: TraceContext) -> SetVariable:
        """The view as a set: of keys, or of pairs whose values are hashable."""
        return members_of(ctx, TupleVariable(self.unpack(ctx)))

    def reconstruct(self, build: Reconstruction) -> None:
        if self.mapping.storage_owner is not None:  # without the methods of its class, which were called when the view was created
            build.call_object(getattr(self.mapping.value_type, self.part), self.mapping)
            return
        build.push(self.mapping)
        build.writer.load_attr(self.part)
        name = build.store_temporary()
        build.writer.call_helper(lambda: build.writer.load_fast(name))

    def contents(self, most: int | None = None) -> Contents | None:
        mapping: Contents | None = self.mapping.contents(most)
        if mapping is None:
            return None
        if self.part == "items":
            return Contents([TupleVariable(pair) for pair in mapping.items]) if mapping.live is None else None
        live = None if mapping.live is None else list(getattr(mapping.live, self.part)())
        return Contents([pair[self.part == "values"] for pair in mapping.items], live)

    def bulk(self) -> int:
        return cast(int, self.mapping.bulk())

    def text(self) -> str:
        return f"{self.part} of {self.mapping.text()}"


class DictIteratorVariable(IteratorVariable):
    """An iterator over a dict's keys, values or items."""

    def __init__(self, mapping: Any, part: str, backwards: bool = False) -> None:
        self.mapping = mapping
        self.part = part
        self.backwards = backwards
        self.keys = list(mapping.entries)[:: -1 if backwards else 1]
        self.index = 0
        self._steps_before = len(mapping.steps)

    def python_type(self) -> type[Any]:
        return _iterator_type(self.mapping.value_type, self.part, self.backwards)

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        entries = self.mapping.entries
        if self.index > len(self.keys):
            return None
        if len(entries) != len(self.keys):
            ctx.raise_exception(RuntimeError, "dictionary changed size during iteration")
        if not self._iterates_initial_content():
            ctx.break_graph("DX307", type="a dict whose keys changed during iteration")
        self.index += 1
        if self.index > len(self.keys):
            return None
        return part_of(ctx, entries[self.keys[self.index - 1]], self.part)

    def _iterates_initial_content(self) -> bool:
        """Whether no key was inserted or removed, even if the size is the same again: what CPython then returns
        or raises depends on where the dict stores its entries.
        """
        if len(self.mapping.steps) != self._steps_before:
            return False
        return list(self.mapping.entries)[:: -1 if self.backwards else 1] == self.keys

    def reconstruct(self, build: Reconstruction) -> None:
        if self.index > len(self.keys):
            ItemsIteratorVariable([], self.python_type()).reconstruct(build)
            return
        if self.mapping.source is None and {step for step, _ in self.mapping.steps[: self._steps_before]} - {"put"}:
            # the dict made anew has no empty positions, where the iterator's next steps would find or miss keys
            raise CannotRebuild(self.mapping, "it is iterated after keys were removed")
        if not self._iterates_initial_content():
            raise NotImplementedError("an iterator over a dict whose keys have changed since")
        view = DictViewVariable(self.mapping, self.part)
        walked = self.mapping if self.part == "keys" and self.mapping.storage_owner is None else view
        if self.backwards:
            build.call_object(reversed_iterator_at, walked, ConstantVariable(len(self.keys) - 1 - self.index))
        else:
            build.call_object(iterator_at, walked, ConstantVariable(self.index))


class OrderedDictIteratorVariable(DictIteratorVariable):
    """An iterator over an OrderedDict, which detects every change of the order, even one that was undone.

    CPython decides what counts as a change: the entries are kept in a real OrderedDict, and a real iterator over it is
    consulted.
    """

    def __init__(self, mapping: Any, part: str, backwards: bool = False) -> None:
        super().__init__(mapping, part, backwards)
        self.walk: Any = reversed(mapping.entries) if backwards else iter(mapping.entries)

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        try:
            key = next(self.walk)
        except StopIteration:
            self.index = len(self.keys) + 1
            return None
        except RuntimeError as error:
            self.index = len(self.keys) + 1  # it is exhausted then
            ctx.raise_exception(RuntimeError, str(error))
        self.index += 1
        return part_of(ctx, self.mapping.entries[key], self.part)

    def _iterates_initial_content(self) -> bool:
        return not complaint_of(self.walk)


def complaint_of(walk_of_ordered_dict: Any) -> str:
    """The error message that CPython would raise at the next step of an OrderedDict iterator, or ""; no step is taken."""
    try:
        walk_of_ordered_dict.__reduce__()  # lists the remaining items
    except RuntimeError as error:
        return str(error)
    return ""


def walk(mapping: Any, part: str, backwards: bool = False) -> DictIteratorVariable:
    """An iterator over the keys, values or items of a mapping."""
    kind = OrderedDictIteratorVariable if isinstance(mapping.entries, OrderedDict) else DictIteratorVariable
    return kind(mapping, part, backwards)


@binary_rule(DictViewVariable, VariableTracker, "&", "|", "-", "^")
def _view_algebra(ctx: TraceContext, symbol: str, lhs: DictViewVariable, rhs: VariableTracker) -> VariableTracker:
    _needs_set(ctx, lhs)
    return _combine(ctx, symbol, lhs, rhs)


@binary_rule(SetVariable, DictViewVariable, "&", "|", "-", "^")
def _algebra_view(ctx: TraceContext, symbol: str, lhs: SetVariable, rhs: DictViewVariable) -> VariableTracker:
    _needs_set(ctx, rhs)
    return _combine(ctx, symbol, lhs, rhs)


def _combine(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """A set in the order that CPython's operation gives: it runs on real views and sets of the hash keys."""
    if symbol == "&" and FrozenSetVariable in (type(lhs), type(rhs)):  # a frozenset or a set, by the sizes
        ctx.break_graph("DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    (left, left_members), (right, right_members) = (_operand_of(ctx, side) for side in (lhs, rhs))
    keys: set[object] = BINARY[symbol](left, right)
    same = {id(key): item for members in (left_members, right_members) for key, item in members.items()}
    members = {**right_members, **left_members}
    return SetVariable({key: same.get(id(key)) or members[key] for key in keys}, keys=keys)


def _operand_of(ctx: TraceContext, side: VariableTracker) -> tuple[Any, dict[object, VariableTracker]]:
    """The hash keys of an operand, in a real object of its kind; and the members."""
    if not isinstance(side, DictViewVariable):
        return operand(ctx, side)
    members = side.as_set(ctx).members
    entries = side.mapping.entries
    if side.part == "keys":
        return entries.keys(), members
    kind = OrderedDict if isinstance(entries, OrderedDict) else dict
    return kind((key, value.read(ctx).hash_key(ctx)) for key, (_, value) in entries.items()).items(), members


def _needs_set(ctx: TraceContext, view: DictViewVariable) -> None:
    if view.part == "values":
        ctx.break_graph("DX304", operator="set algebra", left="dict_values", right="")


@binary_rule(DictViewVariable, DictViewVariable, *COMPARE)
@binary_rule(DictViewVariable, SetVariable, *COMPARE)
@binary_rule(SetVariable, DictViewVariable, *COMPARE)
def _compare_views(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    if "values" in (getattr(lhs, "part", None), getattr(rhs, "part", None)):
        if symbol not in ("==", "!="):
            ctx.break_graph("DX305", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
        return ConstantVariable((lhs is rhs) == (symbol == "=="))
    sets = [side.as_set(ctx) if isinstance(side, DictViewVariable) else side for side in (lhs, rhs)]
    return compare_sets(ctx, symbol, *sets)


def _declare_views() -> None:
    for part in PARTS:

        def view(ctx: TraceContext, self: Any, /, *, _part: str = part) -> VariableTracker:
            return DictViewVariable(self, _part)

        builtin_method(dict, part)(view)
        builtin_method(MappingProxyType, part)(lambda ctx, self, /, *, _part=part: DictViewVariable(self.behind, _part))
        for mapping_type in (dict, OrderedDict, defaultdict):
            builtin_method(_view_type(mapping_type, part), "__reversed__")(lambda ctx, self, /: self.iterate_reversed(ctx))
            if part != "values":
                builtin_method(_view_type(mapping_type, part), "isdisjoint")(
                    lambda ctx, self, other, /: ConstantVariable(self.as_set(ctx).keys.isdisjoint(members_of(ctx, other).keys))
                )


_declare_views()


@builtin_method(dict, "__reversed__")
def _reversed(ctx: TraceContext, self: Any, /) -> VariableTracker:
    return walk(self, "keys", backwards=True)


@builtin_method(MappingProxyType, "__reversed__")
def _reversed_behind(ctx: TraceContext, self: Any, /) -> VariableTracker:
    return walk(self.behind, "keys", backwards=True)
