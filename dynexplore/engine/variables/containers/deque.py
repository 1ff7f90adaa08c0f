"""Deques: `collections.deque`, with or without a maximum length.

The idea: a list of trackers that grows at both ends. When a bounded deque is full, the tracker drops items at the opposite end as
CPython does.

In: live deques, calls of the class. Out: items. PyTorch's counterpart: `DequeVariable` in torch/_dynamo/variables/lists.py.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.containers.iterator import SequenceIteratorVariable
from dynexplore.engine.variables.containers.list_items import each_item
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import (
    SequenceVariable,
    TupleVariable,
    compare_sequences,
    count,
    existing_items,
    index,
    live_items,
)
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.write_back import refill
from dynexplore.engine.variables.objects.builtin_value import mutating_method
from dynexplore.engine.variables.operators import COMPARE, binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import equal, specialize_index
from dynexplore.engine.variables.signatures import builtin, builtin_method

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class DequeIteratorVariable(SequenceIteratorVariable):
    """An iterator over a deque; raises if the deque is mutated during iteration, as in CPython."""

    def __init__(self, sequence: Any, value_type: type[Any], step: int = 1) -> None:
        super().__init__(sequence, value_type, step)
        self.state = sequence.state

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.sequence is not None and self.sequence.state != self.state:
            ctx.raise_exception(RuntimeError, "deque mutated during iteration")
        return super().next_item(ctx)

    def reconstruct(self, build: Reconstruction) -> None:
        if self.sequence is not None and self.sequence.state != self.state:
            raise NotImplementedError("an iterator over a deque that has changed since")
        super().reconstruct(build)


class DequeVariable(SequenceVariable):
    """A `deque`; `state` counts its mutations."""

    kind = "deque"
    value_type = deque
    container_type = deque
    mutable = True

    def __init__(self, items: Iterable[VariableTracker], maxlen: int | None = None, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen
        self.state = 0
        self.trim()

    def real(self) -> Any:
        return deque(self.items)

    def new_container(self, items: Iterable[Any]) -> Any:
        return deque(items, self.maxlen)

    def identity(self) -> object | None:
        return self

    def trim(self, from_left: bool = True) -> None:
        """Drop items beyond the maximum length."""
        extra = len(self.items) - self.maxlen if self.maxlen is not None else 0
        if extra > 0:
            del self.items[slice(None, extra) if from_left else slice(len(self.items) - extra, None)]

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return DequeIteratorVariable(self, type(iter(deque())))

    def iterate_reversed(self, ctx: TraceContext) -> VariableTracker:
        return DequeIteratorVariable(self, type(reversed(deque())), step=-1)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return ConstantVariable(self.maxlen) if name == "maxlen" else super().get_attribute(ctx, name)

    def refuse_change(self, ctx: TraceContext, before: int) -> None:
        if self.state != before:
            ctx.raise_exception(RuntimeError, "deque mutated during iteration")

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        before = self.state
        for candidate in live_items(ctx, self):
            if equal(ctx, candidate, item):
                return ConstantVariable(True)
            self.refuse_change(ctx, before)
        return ConstantVariable(False)

    def index_of(self, ctx: TraceContext, key: VariableTracker) -> Any:
        return key.concrete(ctx) if isinstance(key, SliceVariable) else super().index_of(ctx, key)  # which deques reject

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        item: VariableTracker = run_now(ctx, operator.getitem, self.real(), self.index_of(ctx, key))
        return item.read(ctx)

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        index = self.index_of(ctx, key)
        ctx.journal.note(self, "__setitem__")
        self._positions(ctx, operator.setitem, index, value)

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        index = self.index_of(ctx, key)
        ctx.journal.note(self, "__delitem__")
        self.state += 1
        self._positions(ctx, operator.delitem, index)

    def _positions(self, ctx: TraceContext, function: Any, *args: Any) -> Any:
        """Run an index operation on a real deque of the trackers."""
        real = deque(self.items, self.maxlen)
        result = run_now(ctx, function, real, *args)
        self.items[:] = real
        return result

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(deque, TupleVariable(self.items), ConstantVariable(self.maxlen))

    def write_back(self, build: Reconstruction) -> None:
        """`real.clear(); real.extend(items)`, or each item by itself: an iterator over it goes on where no length has changed."""
        if self.state:
            refill(build, self, TupleVariable(self.items), clear=deque.clear, fill=deque.extend)
        else:
            refill(build, self, TupleVariable(self.items), clear=None, fill=_set_each)


def _set_each(real: deque[Any], items: tuple[Any, ...]) -> None:
    for position, item in enumerate(items):
        real[position] = item


@builds(deque)
def build_deque(ctx: TraceContext, value: deque[Any], source: Source | None) -> VariableTracker:
    """A deque: type, length and maximum length are guarded, items when they are read."""
    items = existing_items(ctx, value, source)
    if source is not None:
        ctx.guard(source.attribute("maxlen", "getattr"), "EQUALS", value.maxlen)
    return DequeVariable(items, value.maxlen, source)


@builtin(deque)
def _deque(ctx: TraceContext, iterable: VariableTracker | None = None, maxlen: VariableTracker | None = None) -> VariableTracker:
    items = [] if iterable is None else iterable.unpack(ctx)
    unlimited = maxlen is None or (maxlen.is_constant() and maxlen.as_constant() is None)
    largest = None if maxlen is None or unlimited else specialize_index(ctx, maxlen, "deque()")
    if largest is not None and largest < 0:
        ctx.raise_exception(ValueError, "maxlen must be non-negative")
    return DequeVariable(items, largest)


@binary_rule(DequeVariable, DequeVariable, *COMPARE)
def _compare(ctx: TraceContext, symbol: str, lhs: DequeVariable, rhs: DequeVariable) -> VariableTracker:
    return compare_sequences(ctx, symbol, lhs, rhs)


@binary_rule(DequeVariable, DequeVariable, "+")
def _concatenate(ctx: TraceContext, symbol: str, lhs: DequeVariable, rhs: DequeVariable) -> VariableTracker:
    return DequeVariable(lhs.items + rhs.items, lhs.maxlen)


@binary_rule(DequeVariable, VariableTracker, "+=")
def _extend_in_place(ctx: TraceContext, symbol: str, lhs: DequeVariable, rhs: VariableTracker) -> VariableTracker:
    ctx.journal.note(lhs, "extend")
    _extend(ctx, lhs, rhs)
    return lhs


@mutating_method(deque, "append")
def _append(ctx: TraceContext, self: DequeVariable, item: VariableTracker, /) -> None:
    self.state += 1
    self.items.append(item)
    self.trim()


@mutating_method(deque, "appendleft")
def _appendleft(ctx: TraceContext, self: DequeVariable, item: VariableTracker, /) -> None:
    _push_left(self, item)


def _push_left(self: DequeVariable, item: VariableTracker) -> None:
    self.state += 1
    self.items.insert(0, item)
    self.trim(from_left=False)


@mutating_method(deque, "extend")
def _extend(ctx: TraceContext, self: DequeVariable, items: VariableTracker, /) -> None:
    for item in each_item(ctx, items):
        self.state += 1
        self.items.append(item)
        self.trim()


@mutating_method(deque, "extendleft")
def _extendleft(ctx: TraceContext, self: DequeVariable, items: VariableTracker, /) -> None:
    for item in each_item(ctx, items):
        _push_left(self, item)


@mutating_method(deque, "pop")
def _pop(ctx: TraceContext, self: DequeVariable, /) -> VariableTracker:
    self.state += 1
    item: VariableTracker = self._positions(ctx, deque.pop)
    return item.read(ctx)


@mutating_method(deque, "popleft")
def _popleft(ctx: TraceContext, self: DequeVariable, /) -> VariableTracker:
    self.state += 1
    item: VariableTracker = self._positions(ctx, deque.popleft)
    return item.read(ctx)


@mutating_method(deque, "rotate")
def _rotate(ctx: TraceContext, self: DequeVariable, steps: VariableTracker | None = None, /) -> None:
    self.state += 1
    self._positions(ctx, deque.rotate, 1 if steps is None else specialize_index(ctx, steps, "deque.rotate()"))


@mutating_method(deque, "insert")
def _insert(ctx: TraceContext, self: DequeVariable, index: VariableTracker, item: VariableTracker, /) -> None:
    self.state += 1
    self._positions(ctx, deque.insert, specialize_index(ctx, index, "deque.insert()"), item)


def _remove_while_changed() -> None:
    """What `remove` raises if the deque is mutated during the search."""

    class Changes:
        def __eq__(self, other: object) -> bool:
            items.append(None)
            return False

    items: deque[Any] = deque([Changes()])
    items.remove(1)


@mutating_method(deque, "remove")
def _remove(ctx: TraceContext, self: DequeVariable, item: VariableTracker, /) -> None:
    before = self.state
    for position, candidate in enumerate(self.unpack(ctx)):
        same = equal(ctx, candidate, item)
        if self.state != before:
            run_now(ctx, _remove_while_changed)  # with the running Python's message
        if same:
            self.state += 1
            del self.items[position]
            return
    run_now(ctx, deque().remove, item.as_constant() if item.is_constant() else None)


@mutating_method(deque, "reverse")
def _reverse(ctx: TraceContext, self: DequeVariable, /) -> None:
    self.state += 1
    self.items.reverse()


@mutating_method(deque, "clear")
def _clear(ctx: TraceContext, self: DequeVariable, /) -> None:
    self.state += 1
    self.items.clear()


@builtin_method(deque, "copy", "__copy__")
def _copy(ctx: TraceContext, self: DequeVariable, /) -> VariableTracker:
    return DequeVariable(self.items, self.maxlen)


builtin_method(deque, "count")(count)
builtin_method(deque, "index")(index)
builtin_method(deque, "__reversed__")(lambda ctx, self, /: self.iterate_reversed(ctx))
