"""Iterators built on other iterators: enumerate, zip, map, filter, reversed, `iter(function, sentinel)`.

The idea: each step takes one item from the inner iterators and produces one item, exactly when the program asks for it. So an
infinite or expensive inner iterator costs what it costs in Python, and a half-consumed iterator can be reconstructed from its inner
iterators. A StopIteration of an inner iterator propagates unchanged: `next(map(f, generator))` raises it with the value that the
generator returned.

In: calls of these builtins. Out: iterator trackers. PyTorch's counterpart: `MapVariable`, `ZipVariable` and their neighbors in
torch/_dynamo/variables/iter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.variables.containers.iterator import (
    AskingIteratorVariable,
    ByIndexIteratorVariable,
    IteratorVariable,
    SequenceIteratorVariable,
    item_or_end,
)
from dynexplore.engine.variables.containers.ranges import RangeIteratorVariable, RangeVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.specialize import specialize_bool, specialize_index
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

CONSTANT_ONE = ConstantVariable(1)


class EnumerateVariable(AskingIteratorVariable):
    """`enumerate(iterable, start)`."""

    value_type = enumerate

    def __init__(self, inner: VariableTracker, number: VariableTracker) -> None:
        self.inner, self.number = inner, number

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        item = self.inner.next_or_raise(ctx)
        number, self.number = self.number, binary(ctx, "+", self.number, CONSTANT_ONE)
        return TupleVariable([number, item])

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(enumerate, self.inner, self.number)


class ZipVariable(AskingIteratorVariable):
    """`zip(*iterables, strict=...)`."""

    value_type = zip

    def __init__(self, inner: Sequence[VariableTracker], strict: bool = False) -> None:
        self.inner, self.strict = list(inner), strict

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        if not self.inner:
            ctx.raise_exception(StopIteration)
        if not self.strict:
            return TupleVariable([iterator.next_or_raise(ctx) for iterator in self.inner])
        items = []
        for index, iterator in enumerate(self.inner):
            item = iterator.next_item(ctx)
            if item is None:
                self._check_ends(ctx, index)
            else:
                items.append(item)
        return TupleVariable(items)

    def _check_ends(self, ctx: TraceContext, index: int) -> NoReturn:
        """One iterator has ended: with `strict`, all must have; StopIterations of the
        others are dropped (bltinmodule.c, zip_next).
        """
        if index > 0:
            others = "argument 1" if index == 1 else f"arguments 1-{index}"
            ctx.raise_exception(ValueError, f"zip() argument {index + 1} is shorter than {others}")
        for other in range(1, len(self.inner)):
            if self.inner[other].next_item(ctx) is not None:
                shorter = "argument 1" if other == 1 else f"arguments 1-{other}"
                ctx.raise_exception(ValueError, f"zip() argument {other + 1} is longer than {shorter}")
        ctx.raise_exception(StopIteration)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(strict_zip if self.strict else zip, *self.inner)


def strict_zip(*iterators: Any) -> Any:
    """`zip(*iterators, strict=True)`."""
    return zip(*iterators, strict=True)


class MapVariable(AskingIteratorVariable):
    """`map(function, *iterables)`."""

    value_type = map

    def __init__(self, function: VariableTracker, inner: Sequence[VariableTracker]) -> None:
        self.function, self.inner = function, list(inner)

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        return self.function.call(ctx, [iterator.next_or_raise(ctx) for iterator in self.inner], {})

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(map, self.function, *self.inner)


class CallIteratorVariable(IteratorVariable):
    """`iter(function, sentinel)`: calls the function until it returns a value equal to the sentinel, or raises StopIteration."""

    value_type = type(iter(int, 0))

    def __init__(self, function: VariableTracker, sentinel: VariableTracker) -> None:
        self.function, self.sentinel = function, sentinel
        self.over = False

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.over:
            return None
        item = item_or_end(ctx, lambda ctx: self.function.call(ctx, [], {}))
        self.over = item is None or specialize_bool(ctx, compare(ctx, "==", self.sentinel, item))
        return None if self.over else item

    def reconstruct(self, build: Reconstruction) -> None:
        if self.over:
            build.call_object(iter, ConstantVariable(int), ConstantVariable(0))
        else:
            build.call_object(iter, self.function, self.sentinel)


def holds(ctx: TraceContext, predicate: VariableTracker | None, item: VariableTracker) -> bool:
    """Whether a predicate holds for an item; predicate None: the item's own truth value."""
    if predicate is None or (predicate.is_constant() and predicate.as_constant() is None):
        return specialize_bool(ctx, item)
    return specialize_bool(ctx, predicate.call(ctx, [item], {}))


class FilterVariable(AskingIteratorVariable):
    """`filter(predicate, iterable)`; with `expected_truth` False, itertools.filterfalse."""

    def __init__(self, predicate: VariableTracker, inner: VariableTracker, expected_truth: bool, value_type: type[Any]) -> None:
        self.predicate, self.inner, self.expected_truth = predicate, inner, expected_truth
        self._type = value_type

    def python_type(self) -> type[Any]:
        return self._type

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        while holds(ctx, self.predicate, item := self.inner.next_or_raise(ctx)) != self.expected_truth:
            pass
        return item

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self._type, self.predicate, self.inner)


# -- rules ------------------------------------------------------------------------------------------------------------


@builtin(enumerate)
def _enumerate(ctx: TraceContext, iterable: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    if start is not None and not issubclass(start.python_type(), int):
        ctx.break_graph("DX204", function="enumerate")  # Python calls `__index__` of a tensor
    return EnumerateVariable(iterable.iterate(ctx), ConstantVariable(0) if start is None else start)


@builtin(zip)
def _zip(ctx: TraceContext, *iterables: VariableTracker, strict: VariableTracker | None = None) -> VariableTracker:
    return ZipVariable([item.iterate(ctx) for item in iterables], strict is not None and specialize_bool(ctx, strict))


@builtin(map)
def _map(ctx: TraceContext, function: VariableTracker, iterable: VariableTracker, /, *others: VariableTracker) -> VariableTracker:
    return MapVariable(function, [item.iterate(ctx) for item in (iterable, *others)])


@builtin(filter)
def _filter(ctx: TraceContext, predicate: VariableTracker, iterable: VariableTracker, /) -> VariableTracker:
    return FilterVariable(predicate, iterable.iterate(ctx), True, filter)


@builtin(reversed)
def _reversed(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return reversed_of(ctx, value)


def reversed_of(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """`reversed(value)`."""
    walk: Callable[[TraceContext], VariableTracker] | None = getattr(value, "iterate_reversed", None)
    if walk is not None:
        return walk(ctx)
    if isinstance(value, RangeVariable):
        return RangeIteratorVariable(value.concrete(ctx)[::-1])
    python_type = value.python_type()
    if python_type is str or python_type is bytes:
        return SequenceIteratorVariable(TupleVariable(value.unpack(ctx)), reversed, step=-1)
    if defines(python_type, "__reversed__"):
        return value.call_method(ctx, "__reversed__", [], {})
    if not defines(python_type, "__getitem__") or not defines(python_type, "__len__"):
        ctx.raise_exception(TypeError, f"{name_in_messages(python_type)!r} object is not reversible")
    return ByIndexIteratorVariable(value, specialize_index(ctx, value.length(ctx), "reversed()") - 1, step=-1)
