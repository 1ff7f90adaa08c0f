"""Lists and tuples (and torch.Size): their items are trackers in a real Python list.

The idea: operations on positions (indices, slices, inserts, pops, their errors and messages) run the real operation on the real
list of trackers. Operations on values (`==`, `in`, sorting) compare the trackers one by one.

For a list that existed before the frame, type and length are guarded, and its items become trackers when they are read. A mutation
is recorded in the journal, applied to the tracker in place, and replayed at the end as `real[:] = items`.

In: live lists and tuples, BUILD_LIST and similar instructions. Out: items, new sequences, nested FX arguments. PyTorch's
counterpart: `ListVariable`, `TupleVariable`, `SizeVariable` in torch/_dynamo/variables/lists.py.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.containers.dynamic_index import dynamic_item
from dynexplore.engine.variables.containers.iterator import SequenceIteratorVariable
from dynexplore.engine.variables.containers.list_items import each_item, list_items
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sorting import sorted_items
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.engine.variables.contract.nested_text import nested_text
from dynexplore.engine.variables.contract.write_back import refill
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable, mutating_method
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.operators import COMPARE, binary, binary_rule, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_literal, run_now
from dynexplore.engine.variables.scalars.specialize import (
    equal,
    fitting_index,
    is_specializable,
    is_tensor,
    specialize,
    specialize_index,
)
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.signatures import builtin_method
from dynexplore.engine.variables.type_errors import raise_type_error, type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class SequenceVariable(BuiltinValueVariable):
    """Shared by lists, tuples and deques."""

    iterator_type: type[Any] = type(iter([]))
    reversed_type: type[Any] = type(reversed([]))

    def __init__(self, items: Iterable[VariableTracker], source: Source | None = None) -> None:
        self.items = list(items)
        self.source = source

    def real(self) -> Any:
        """The items in a real sequence of the value's type, on which to run an index operation."""
        return self.items

    def of_slice(self, items: Iterable[VariableTracker]) -> VariableTracker:
        """The result of slicing this sequence."""
        raise NotImplementedError

    # -- questions

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.items)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.items))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return SequenceIteratorVariable(self, self.iterator_type)

    def iterate_reversed(self, ctx: TraceContext) -> VariableTracker:
        """reversed(value)."""
        return SequenceIteratorVariable(self, self.reversed_type, step=-1)

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [item.read(ctx) for item in self.items]

    def read_items(self, ctx: TraceContext) -> None:
        for index, item in enumerate(self.items):
            self.items[index] = item = item.read(ctx)
            item.read_items(ctx)

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(any(equal(ctx, candidate.read(ctx), item) for candidate in self.items))

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        if isinstance(key, SliceVariable):
            index = key.concrete(ctx)
            items = run_now(ctx, operator.getitem, self.items, index)
            return self if self.is_whole(index) else self.of_slice(items)
        index = self.index_of(ctx, key)
        if type(index) is int and -len(self.items) <= index < len(self.items):
            return self.items[index].read(ctx)
        return run_now(ctx, operator.getitem, self.real(), index).read(ctx)  # type: ignore[no-any-return]

    state: int = 0
    """Counts the mutations of a deque."""

    def refuse_change(self, ctx: TraceContext, before: int) -> None:
        """Raise if the sequence was mutated since then and its type forbids that; lists allow it."""

    def is_whole(self, index: slice) -> bool:
        """Whether slicing returns the sequence itself."""
        return False

    def index_of(self, ctx: TraceContext, key: VariableTracker) -> Any:
        """The Python value of an index; other constants are returned too, and Python rejects them."""
        if is_specializable(key):
            return specialize(key)
        if is_tensor(key) or defines(key.python_type(), "__index__"):
            return fitting_index(ctx, key, f"{self.type_name()} index", IndexError)
        raise_type_error(ctx, operator.getitem, self, key, kind="DX306", type=self.type_name(), key=key.type_name())

    # -- into the graph, and for people

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(self.items[:most])

    def bulk(self) -> int:
        return len(self.items)

    def content_at(self, key: Any) -> Any:
        return self.items[key] if isinstance(key, int) and -len(self.items) <= key < len(self.items) else None

    def as_proxy(self) -> Any:
        return [item.as_proxy() for item in self.items]

    @nested_text
    def text(self) -> str:
        shown = ", ".join(item.text() for item in self.items[:4])
        return f"{self.type_name()} of {len(self.items)}: {shown}{', ...' if len(self.items) > 4 else ''}"


def _assigned_items(ctx: TraceContext, index: slice, value: VariableTracker) -> list[VariableTracker]:
    """The new content of a list after a slice assignment (Objects/listobject.c, list_ass_subscript)."""
    try:
        iterator = value.iterate(ctx)
    except ObservedException as raised:
        if raised.exception.python_type() is not TypeError:
            raise
        run_now(ctx, operator.setitem, [], index, None)  # fails as well, with the running Python's message
        raise
    return value.unpack(ctx) if type_of(value) in (list, tuple) else list_items(ctx, iterator)


class ListVariable(SequenceVariable):
    """A `list`."""

    kind = "list"
    value_type = list
    container_type = list
    mutable = True

    def of_slice(self, items: Iterable[VariableTracker]) -> VariableTracker:
        return ListVariable(items)

    def add(self, items: Iterable[VariableTracker]) -> None:
        """Append items. The caller records the mutation."""
        self.items.extend(items)

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        if isinstance(key, SliceVariable):
            index: Any = key.concrete(ctx)
            replacement: Any = _assigned_items(ctx, index, value)
        else:
            index, replacement = self.index_of(ctx, key), value
        ctx.journal.note(self, "__setitem__")
        run_now(ctx, operator.setitem, self.items, index, replacement)

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        index = key.concrete(ctx) if isinstance(key, SliceVariable) else self.index_of(ctx, key)
        ctx.journal.note(self, "__delitem__")
        run_now(ctx, operator.delitem, self.items, index)

    def unguarded_value(self, depth: int = 8) -> Any:
        return _unguarded(self, depth)

    def identity(self) -> object | None:
        return self

    def reconstruct(self, build: Reconstruction) -> None:
        for item in self.items:
            build.push(item)
        build.writer.build_list(len(self.items))

    def write_back(self, build: Reconstruction) -> None:
        """`real[:] = items`; an instance of a user-defined subclass is refilled without its `__setitem__`."""
        if self.storage_owner is not None:
            refill(build, self, ListVariable(self.items), clear=list.clear, fill=list.extend)
            return
        build.push(ListVariable(self.items))
        items = build.store_temporary()
        build.push(self)
        target = build.store_temporary()

        def assign() -> None:
            writer = build.writer
            writer.load_fast(items)
            writer.load_fast(target)
            writer.load_const(None)
            writer.load_const(None)
            writer.build_slice(2)
            writer.store_subscr()

        build.later(assign)


class ExistingListVariable(ListVariable):
    """A list that existed before the frame. As long as the program only appends to it, only its type is guarded:
    a loop that collects results uses one graph, whatever the length.
    """

    def __init__(self, ctx: TraceContext, real: list[Any], source: Source) -> None:
        self.ctx, self.real_list, self.source = ctx, real, source
        self.added: list[VariableTracker] = []
        self._items: list[VariableTracker] | None = None

    @property
    def items(self) -> list[VariableTracker]:  # type: ignore[override]
        """All items; from now on the length is guarded."""
        if self._items is None:
            self._items = [*existing_items(self.ctx, self.real_list, self.source), *self.added]
        return self._items

    def add(self, items: Iterable[VariableTracker]) -> None:
        (self.added if self._items is None else self._items).extend(items)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        chosen = None if ctx.journal.is_changed(self) else dynamic_item(ctx, self.real_list, self.source, key)
        return super().get_item(ctx, key) if chosen is None else chosen

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(self.added[:most], self.real_list) if self._items is None else Contents(self._items[:most])

    def bulk(self) -> int:
        return len(self.real_list) + len(self.added) if self._items is None else len(self._items)

    def content_at(self, key: Any) -> Any:
        return None if self._items is None else super().content_at(key)

    def unguarded_value(self, depth: int = 8) -> Any:
        if self._items is None:
            raise Unknown
        return super().unguarded_value(depth)

    def write_back(self, build: Reconstruction) -> None:
        if self._items is not None:
            super().write_back(build)
            return
        refill(build, self, ListVariable(self.added), clear=None, fill=list.extend)

    def text(self) -> str:
        return super().text() if self._items is not None else f"list of {len(self.real_list) + len(self.added)}"


class TupleVariable(SequenceVariable):
    """A `tuple`."""

    kind = "tuple"
    value_type = tuple
    container_type = tuple
    mutable = True  # immutable, but two references to one tuple must stay the same object
    iterator_type = type(iter(()))
    reversed_type = reversed
    live: tuple[Any, ...] | None = None
    """The real tuple, if it existed before the frame."""

    is_content: bool = False
    """Whether it is the storage of a user-defined subclass instance, not a tuple object by itself."""

    def returns_self_when_copied(self) -> bool:
        """Whether operations that change nothing (slice, sum, product) return the same object, as they do for an exact tuple."""
        return type(self) is TupleVariable and not self.is_content

    def is_whole(self, index: slice) -> bool:
        return self.returns_self_when_copied() and index.indices(len(self.items)) == (0, len(self.items), 1)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        chosen = dynamic_item(ctx, self.live, self.source, key) if self.live is not None else None
        return super().get_item(ctx, key) if chosen is None else chosen

    def real(self) -> Any:
        return tuple(self.items)

    def of_slice(self, items: Iterable[VariableTracker]) -> VariableTracker:
        return TupleVariable(items)

    def as_constant(self) -> Any:
        return tuple([item.as_constant() for item in self.items])

    def unguarded_value(self, depth: int = 8) -> Any:
        return tuple(_unguarded(self, depth))

    def hash_key(self, ctx: TraceContext) -> object:
        return tuple([item.read(ctx).hash_key(ctx) for item in self.items])

    def as_proxy(self) -> Any:
        return tuple([item.as_proxy() for item in self.items])

    def is_unguarded(self) -> bool:
        waiting, seen = list(self.items), {id(self)}
        while waiting:
            item = waiting.pop()
            if not isinstance(item, TupleVariable):
                if item.is_unguarded():
                    return True
            elif id(item) not in seen:  # a tuple may hold another one many times
                seen.add(id(item))
                waiting += item.items
        return False

    def reconstruct(self, build: Reconstruction) -> None:
        if not self.is_unguarded() and self.is_constant() and is_literal(constant := self.as_constant()):
            constant = constant if self.live is None else self.live
            if build.may_be_constant(constant):
                build.writer.load_const(constant)
                return
        for item in self.items:
            build.push(item)
        build.writer.build_tuple(len(self.items))


class SizeVariable(TupleVariable):
    """A `torch.Size`: what `tensor.shape` is."""

    kind = "size"
    value_type = torch.Size

    def as_constant(self) -> Any:
        return torch.Size(super().as_constant())

    def unguarded_value(self, depth: int = 8) -> Any:
        sizes = _unguarded(self, depth)
        return torch.Size(sizes) if all(type(size) is int for size in sizes) else tuple(sizes)

    def of_slice(self, items: Iterable[VariableTracker]) -> VariableTracker:
        return SizeVariable(items)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(torch.Size, TupleVariable(self.items))

    def text(self) -> str:
        return f"[{', '.join(item.text() for item in self.items)}]"


def _unguarded(sequence: SequenceVariable, depth: int) -> list[Any]:
    """The items as far as known. Raises Unknown."""
    if not depth:
        raise Unknown
    return [item.unguarded_value(depth - 1) for item in sequence.items]


# -- live values ------------------------------------------------------------------------------------------------------


def existing_items(ctx: TraceContext, value: Any, source: Source | None) -> list[VariableTracker]:
    """The items of a live sequence, with guards on type and length (none where `source` is None)."""
    if source is None:
        return [ctx.build(item, None) for item in value]
    ctx.guard(source, "TYPE_MATCH", type(value))
    ctx.guard(source, "LIST_LENGTH", len(value))
    return [ctx.values.lazy(item, source.item(index)) for index, item in enumerate(value)]


@builds(list)
def build_list(ctx: TraceContext, value: list[Any], source: Source | None) -> VariableTracker:
    """A list: its type is guarded, its length when the program depends on it, items when they are read."""
    if source is None:
        return ListVariable(existing_items(ctx, value, source))
    ctx.guard(source, "TYPE_MATCH", list)
    return ExistingListVariable(ctx, value, source)


@builds(tuple)
def build_tuple(ctx: TraceContext, value: tuple[Any, ...], source: Source | None) -> VariableTracker:
    """A tuple: type and length are guarded, items when they are read."""
    existing = TupleVariable(existing_items(ctx, value, source), source)
    existing.live = value
    return existing


@builds(torch.Size)
def build_size(ctx: TraceContext, value: torch.Size, source: Source | None) -> VariableTracker:
    """A torch.Size: guarded like a tuple."""
    return SizeVariable(existing_items(ctx, value, source), source)


# -- operators --------------------------------------------------------------------------------------------------------


def live_items(ctx: TraceContext, sequence: SequenceVariable) -> Iterator[VariableTracker]:
    """Iterate over the current items: comparing an item may mutate the list."""
    position = 0
    while position < len(sequence.items):
        yield sequence.items[position].read(ctx)
        position += 1


@binary_rule(ListVariable, ListVariable, *COMPARE)
@binary_rule(TupleVariable, TupleVariable, *COMPARE)
def compare_sequences(ctx: TraceContext, symbol: str, lhs: SequenceVariable, rhs: SequenceVariable) -> VariableTracker:
    """The first pair that differs decides, else the lengths (listobject.c, list_richcompare)."""
    if symbol in ("==", "!=") and len(lhs.items) != len(rhs.items):
        return ConstantVariable(symbol == "!=")
    for index, (item, other_item) in enumerate(zip(live_items(ctx, lhs), live_items(ctx, rhs), strict=False)):
        if not equal(ctx, item, other_item):
            if index >= min(len(lhs.items), len(rhs.items)):
                break  # that comparison emptied one of them
            return ConstantVariable(symbol == "!=") if symbol in ("==", "!=") else compare(ctx, symbol, item, other_item)
    return ConstantVariable(COMPARE[symbol](len(lhs.items), len(rhs.items)))


@binary_rule(ListVariable, ListVariable, "+")
def _concatenate_lists(ctx: TraceContext, symbol: str, lhs: ListVariable, rhs: ListVariable) -> VariableTracker:
    return ListVariable(lhs.items + rhs.items)


@binary_rule(TupleVariable, TupleVariable, "+")
def _concatenate_tuples(ctx: TraceContext, symbol: str, lhs: TupleVariable, rhs: TupleVariable) -> VariableTracker:
    if not rhs.items and lhs.returns_self_when_copied():
        return lhs
    if not lhs.items and rhs.returns_self_when_copied() and lhs.value_type is tuple:
        return rhs
    result = type((lhs.value_type() if lhs.value_type is torch.Size else ()) + rhs.value_type())
    return (SizeVariable if result is torch.Size else TupleVariable)(lhs.items + rhs.items)


@binary_rule(ListVariable, VariableTracker, "+=")
def _extend_in_place(ctx: TraceContext, symbol: str, lhs: ListVariable, rhs: VariableTracker) -> VariableTracker:
    _extend(ctx, lhs, rhs)
    return lhs


def _repeated(ctx: TraceContext, sequence: SequenceVariable, count: VariableTracker) -> list[VariableTracker]:
    return run_now(ctx, operator.mul, sequence.items, specialize(count))  # type: ignore[no-any-return]


def _repeat(ctx: TraceContext, symbol: str, lhs: SequenceVariable, rhs: VariableTracker) -> VariableTracker:
    return _times(lhs, _repeated(ctx, lhs, rhs))


def _repeat_swapped(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: SequenceVariable) -> VariableTracker:
    if not hasattr(lhs.python_type(), "__index__"):
        raise_type_error(ctx, operator.mul, lhs, rhs, kind="DX304", operator="*", left=lhs.type_name(), right=rhs.type_name())
    return _times(rhs, _repeated(ctx, rhs, lhs))


def _times(sequence: SequenceVariable, items: list[VariableTracker]) -> VariableTracker:
    """The result of a repetition; an exact tuple repeated once is itself."""
    once = isinstance(sequence, TupleVariable) and sequence.returns_self_when_copied() and len(items) == len(sequence.items)
    return sequence if once else sequence.of_slice(items)


def _repeat_in_place(ctx: TraceContext, symbol: str, lhs: ListVariable, rhs: VariableTracker) -> VariableTracker:
    items = _repeated(ctx, lhs, rhs)
    ctx.journal.note(lhs, "*=")
    lhs.items[:] = items
    return lhs


for _number in (ConstantVariable, SymbolicNumberVariable):
    binary_rule(ListVariable, _number, "*=")(_repeat_in_place)
    for _sequence in (ListVariable, TupleVariable):
        binary_rule(_sequence, _number, "*", rank=25)(_repeat)
        binary_rule(_number, _sequence, "*", rank=25)(_repeat_swapped)


# -- methods ----------------------------------------------------------------------------------------------------------


@mutating_method(list, "append")
def _append(ctx: TraceContext, self: ListVariable, item: VariableTracker, /) -> None:
    self.add([item])


@mutating_method(list, "extend")
def _extend_row(ctx: TraceContext, self: ListVariable, items: VariableTracker, /) -> None:
    _add_each(ctx, self, items)


def _extend(ctx: TraceContext, self: ListVariable, items: VariableTracker) -> None:
    ctx.journal.note(self, "extend")
    _add_each(ctx, self, items)


def _add_each(ctx: TraceContext, self: ListVariable, items: VariableTracker) -> None:
    for item in each_item(ctx, items, hinted=True):
        self.add([item])


@mutating_method(list, "insert")
def _insert(ctx: TraceContext, self: ListVariable, index: VariableTracker, item: VariableTracker, /) -> None:
    run_now(ctx, self.items.insert, specialize_index(ctx, index, "list.insert()"), item)


@mutating_method(list, "pop")
def _pop(ctx: TraceContext, self: ListVariable, index: VariableTracker | None = None, /) -> VariableTracker:
    position = -1 if index is None else specialize_index(ctx, index, "list.pop()")
    return run_now(ctx, self.items.pop, position).read(ctx)  # type: ignore[no-any-return]


@mutating_method(list, "remove")
def _remove(ctx: TraceContext, self: ListVariable, item: VariableTracker, /) -> None:
    for index, candidate in enumerate(self.unpack(ctx)):
        if equal(ctx, candidate, item):
            del self.items[index]
            return
    ctx.raise_exception(ValueError, "list.remove(x): x not in list")


@mutating_method(list, "clear")
def _clear(ctx: TraceContext, self: ListVariable, /) -> None:
    self.items.clear()


@mutating_method(list, "reverse")
def _reverse(ctx: TraceContext, self: ListVariable, /) -> None:
    self.items.reverse()


@mutating_method(list, "sort")
def _sort(
    ctx: TraceContext,
    self: ListVariable,
    /,
    *,
    key: VariableTracker | None = None,
    reverse: VariableTracker | None = None,
) -> None:
    items = self.unpack(ctx)
    put_back, self.items[:] = list(items), ()  # while CPython sorts a list, everybody else sees it empty
    try:
        put_back = sorted_items(ctx, items, key, reverse)
    finally:
        was_changed, self.items[:] = bool(self.items), put_back
    if was_changed:
        ctx.raise_exception(ValueError, "list modified during sort")


@builtin_method(list, "copy", "__copy__")
def _copy(ctx: TraceContext, self: ListVariable, /) -> VariableTracker:
    return ListVariable(self.items)


@builtin_method(list, "__reversed__")
def _reversed(ctx: TraceContext, self: ListVariable, /) -> VariableTracker:
    return self.iterate_reversed(ctx)


@builtin_method(list, "count")
@builtin_method(tuple, "count")
def count(ctx: TraceContext, self: SequenceVariable, item: VariableTracker, /) -> VariableTracker:
    """`sequence.count(item)`."""
    times, before = 0, self.state
    for candidate in live_items(ctx, self):
        times += equal(ctx, candidate, item)
        self.refuse_change(ctx, before)
    return ConstantVariable(times)


@builtin_method(list, "index")
@builtin_method(tuple, "index")
def index(
    ctx: TraceContext,
    self: SequenceVariable,
    item: VariableTracker,
    start: VariableTracker | None = None,
    stop: VariableTracker | None = None,
    /,
) -> VariableTracker:
    """`sequence.index(item[, start[, stop]])`."""
    before = self.state
    ends = [specialize_index(ctx, end, "index()") for end in (start, stop) if end is not None]
    for position in range(len(self.items))[slice(*[*ends, None][:2]) if ends else slice(None)]:
        if position >= len(self.items):
            break
        if equal(ctx, self.items[position].read(ctx), item):
            return ConstantVariable(position)
        self.refuse_change(ctx, before)
    return _raise_not_in(ctx, self, item)


def _raise_not_in(ctx: TraceContext, self: SequenceVariable, item: VariableTracker) -> VariableTracker:
    """Raise the ValueError of `index` or `remove` for a missing item; it names the item in some Python versions."""
    if not item.is_constant() and isinstance(self, ListVariable):
        ctx.break_graph("DX213", method="list.index of a value that is not in the list")
    return run_now(ctx, self.value_type().index, item.as_constant() if item.is_constant() else None)  # type: ignore[no-any-return]


@builtin_method(torch.Size, "numel")
def _numel(ctx: TraceContext, self: SizeVariable, /) -> VariableTracker:
    result: VariableTracker = ConstantVariable(1)
    for item in self.unpack(ctx):
        result = binary(ctx, "*", result, item)
    return result
