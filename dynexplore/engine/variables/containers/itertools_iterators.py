"""The iterators of `itertools`, as trackers: one class for each.

The idea: as in builtin_iterators.py, each is lazy and built on inner iterators. Those that consume their input first (product,
permutations, combinations) pass trackers to the real function and iterate over its result. Each can be reconstructed at its current
position.

In: inner iterators, functions, numbers. Out: iterator trackers. itertools_rules.py maps each call to its class. PyTorch's
counterpart: torch/_dynamo/polyfills/itertools.py and `ItertoolsVariable` in variables/iter.py.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.containers.builtin_iterators import holds
from dynexplore.engine.variables.containers.iterator import (
    AskingIteratorVariable,
    ItemsIteratorVariable,
    IteratorVariable,
    iterator_at,
)
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.operators import binary
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.specialize import equal, specialize_bool

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_TEE: type[Any] = type(itertools.tee(())[0])


class ChainVariable(IteratorVariable):
    """`chain(*iterables)`: `outer` yields the iterables, `active` is the current one."""

    value_type = itertools.chain

    def __init__(self, outer: VariableTracker, active: VariableTracker | None = None) -> None:
        self.outer, self.active = outer, active

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        while True:
            if self.active is None:
                iterable = self.outer.next_item(ctx)
                if iterable is None:
                    return None
                self.active = iterable.iterate(ctx)
            item = self.active.next_item(ctx)
            if item is not None:
                return item
            self.active = None

    def reconstruct(self, build: Reconstruction) -> None:
        outer = self.outer
        if self.active is not None:
            outer = ChainVariable(ItemsIteratorVariable([TupleVariable([self.active]), outer]))
        build.call_object(itertools.chain.from_iterable, outer)


class IsliceVariable(AskingIteratorVariable):
    """`islice(iterable, start, stop, step)`: skip `skip` items, then yield every `step`-th while `remaining` are left."""

    value_type = itertools.islice

    def __init__(self, inner: VariableTracker, skip: int, remaining: int | None, step: int) -> None:
        self.inner, self.skip, self.remaining_count, self.step = inner, skip, remaining, step

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        skip, remaining = self.skip, self.remaining_count
        self.skip, self.remaining_count = 0, 0  # once ended, it stays exhausted
        walked, self.inner = self.inner, ItemsIteratorVariable([])
        for _ in range(skip):
            walked.next_or_raise(ctx)
        if remaining is not None and remaining <= skip:
            ctx.raise_exception(StopIteration)
        item = walked.next_or_raise(ctx)
        self.inner, self.remaining_count = walked, None if remaining is None else remaining - skip - 1
        self.skip = self.step - 1 if self.remaining_count is None else min(self.step - 1, self.remaining_count)
        return item

    def reconstruct(self, build: Reconstruction) -> None:
        ends = (self.skip, self.remaining_count, self.step)
        build.call_object(itertools.islice, self.inner, *map(ConstantVariable, ends))


class TeeBufferVariable(IteratorVariable):
    """The buffer that the iterators of one `tee` share: the inner iterator, and the items that have been taken from it."""

    value_type = _TEE

    def __init__(self, inner: VariableTracker) -> None:
        self.inner = inner
        self.items: list[VariableTracker] = []
        self.is_running = False

    def item_at(self, ctx: TraceContext, index: int) -> VariableTracker:
        """The item at this index; the one after the last buffered item is taken now, and may raise."""
        if index == len(self.items):
            if self.is_running:
                ctx.raise_exception(RuntimeError, "cannot re-enter the tee iterator")
            self.is_running = True
            try:
                self.items.append(self.inner.next_or_raise(ctx))
            finally:
                self.is_running = False
        return self.items[index].read(ctx)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(tee_behind, TupleVariable(self.items), self.inner)


class TeeVariable(AskingIteratorVariable):
    """One of the iterators that `tee` returns."""

    value_type = _TEE

    def __init__(self, buffer: TeeBufferVariable, index: int = 0) -> None:
        self.buffer, self.index = buffer, index

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        item = self.buffer.item_at(ctx, self.index)
        self.index += 1
        return item

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(tee_at, self.buffer, ConstantVariable(self.index))


def tee_behind(items: tuple[Any, ...], inner: Iterator[Any]) -> Iterator[Any]:
    """A `tee` iterator that first yields the items already taken from `inner`, then the rest of it."""
    return itertools.tee(itertools.chain(items, inner), 1)[0]


def tee_at(first: Iterator[Any], index: int) -> Iterator[Any]:
    """Another iterator of the same `tee`, which has already yielded this many items."""
    other = copy.copy(first)
    next(itertools.islice(other, index, index), None)
    return other


class RepeatVariable(IteratorVariable):
    """`repeat(value, times)`."""

    value_type = itertools.repeat

    def __init__(self, value: VariableTracker, times: int | None) -> None:
        self.value, self.times = value, times

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        return self.value

    def reconstruct(self, build: Reconstruction) -> None:
        times = () if self.times is None else (ConstantVariable(self.times),)
        build.call_object(itertools.repeat, self.value, *times)


class CountVariable(IteratorVariable):
    """`count(start, step)`."""

    value_type = itertools.count

    def __init__(self, number: VariableTracker, step: VariableTracker) -> None:
        self.number, self.step = number, step

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        number, self.number = self.number, binary(ctx, "+", self.number, self.step)
        return number

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(itertools.count, self.number, self.step)


class CycleVariable(IteratorVariable):
    """`cycle(iterable)`: the items of the first pass are saved for the following ones."""

    value_type = itertools.cycle

    def __init__(self, inner: VariableTracker) -> None:
        self.inner: VariableTracker | None = inner
        self.saved: list[VariableTracker] = []
        self.index = 0

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.inner is not None:
            item = self.inner.next_item(ctx)
            if item is not None:
                self.saved.append(item)
                return item
            self.inner = None
        if not self.saved:
            return None
        self.index += 1
        return self.saved[(self.index - 1) % len(self.saved)]

    def reconstruct(self, build: Reconstruction) -> None:
        if self.inner is None:
            build.call_object(cycle_at, TupleVariable(self.saved), ConstantVariable(self.index))
        else:
            walked = ChainVariable(ItemsIteratorVariable([TupleVariable(self.saved), self.inner]))
            build.call_object(cycle_at, walked, ConstantVariable(len(self.saved)))


def cycle_at(iterable: Any, index: int) -> Iterator[Any]:
    """A cycle that has already yielded `index` items."""
    return iterator_at(itertools.cycle(iterable), index)


class AccumulateVariable(AskingIteratorVariable):
    """`accumulate(iterable, function, initial=...)`; `total` is None before the first item."""

    value_type = itertools.accumulate

    def __init__(self, inner: VariableTracker, function: VariableTracker, initial: VariableTracker | None) -> None:
        self.inner, self.function = inner, function
        self.initial, self.total = initial, None if initial is None else initial

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        if self.initial is not None:
            first, self.initial = self.initial, None
            return first
        item = self.inner.next_or_raise(ctx)
        self.total = item if self.total is None else self._step(ctx, self.total, item)
        return self.total

    def _step(self, ctx: TraceContext, total: VariableTracker, item: VariableTracker) -> VariableTracker:
        if self.function is NONE:
            return binary(ctx, "+", total, item)
        return self.function.call(ctx, [total, item], {})

    def reconstruct(self, build: Reconstruction) -> None:
        if self.total is None:
            build.call_object(itertools.accumulate, self.inner, self.function)
        else:
            started = ConstantVariable(self.initial is None)
            build.call_object(accumulate_from, self.inner, self.function, self.total, started)


def accumulate_from(iterable: Any, function: Any, total: Any, started: bool) -> Iterator[Any]:
    """An `accumulate` at a total; `started`: the total itself has been yielded."""
    walked = itertools.chain((total,), iterable)  # an `initial` of None would be none
    return iterator_at(itertools.accumulate(walked, function), int(started))


class StarmapVariable(AskingIteratorVariable):
    """`starmap(function, iterable)`."""

    value_type = itertools.starmap

    def __init__(self, function: VariableTracker, inner: VariableTracker) -> None:
        self.function, self.inner = function, inner

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        return self.function.call(ctx, self.inner.next_or_raise(ctx).unpack(ctx), {})

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(itertools.starmap, self.function, self.inner)


class TakewhileVariable(AskingIteratorVariable):
    """`takewhile(predicate, iterable)`."""

    value_type = itertools.takewhile

    def __init__(self, predicate: VariableTracker, inner: VariableTracker) -> None:
        self.predicate, self.inner = predicate, inner

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        item = self.inner.next_or_raise(ctx)
        if holds(ctx, self.predicate, item):
            return item
        self.inner = ItemsIteratorVariable([])
        ctx.raise_exception(StopIteration)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(itertools.takewhile, self.predicate, self.inner)


class DropwhileVariable(AskingIteratorVariable):
    """`dropwhile(predicate, iterable)`."""

    value_type = itertools.dropwhile

    def __init__(self, predicate: VariableTracker, inner: VariableTracker) -> None:
        self.predicate, self.inner = predicate, inner
        self.started = False

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        item = self.inner.next_or_raise(ctx)
        while not self.started and holds(ctx, self.predicate, item):
            item = self.inner.next_or_raise(ctx)
        self.started = True
        return item

    def reconstruct(self, build: Reconstruction) -> None:
        if self.started:
            build.call_object(itertools.chain, self.inner)
        else:
            build.call_object(itertools.dropwhile, self.predicate, self.inner)


class ZipLongestVariable(IteratorVariable):
    """`zip_longest(*iterables, fillvalue=...)`; an exhausted inner iterator is replaced by None."""

    value_type = itertools.zip_longest

    def __init__(self, inner: Sequence[VariableTracker], fill: VariableTracker) -> None:
        self.inner: list[VariableTracker | None] = list(inner)
        self.fill = fill

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        items = []
        for index, iterator in enumerate(self.inner):
            item = None if iterator is None else iterator.next_item(ctx)
            if item is None:
                self.inner[index] = None
            items.append(self.fill if item is None else item)
        return TupleVariable(items) if any(iterator is not None for iterator in self.inner) else None

    def reconstruct(self, build: Reconstruction) -> None:
        inner = [ItemsIteratorVariable([]) if iterator is None else iterator for iterator in self.inner]
        build.call_object(filled_zip, self.fill, *inner)


def filled_zip(fill: Any, *iterators: Any) -> Any:
    """`zip_longest(*iterators, fillvalue=fill)`."""
    return itertools.zip_longest(*iterators, fillvalue=fill)


class PairwiseVariable(AskingIteratorVariable):
    """`pairwise(iterable)`."""

    value_type = itertools.pairwise

    def __init__(self, inner: VariableTracker) -> None:
        self.inner = inner
        self.last: VariableTracker | None = None

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        previous = self.last
        if previous is None:
            previous = self.last = self.inner.next_or_raise(ctx)
        item = self.inner.next_or_raise(ctx)  # it may ask this iterator itself
        self.last = item
        return TupleVariable([previous, item])

    def reconstruct(self, build: Reconstruction) -> None:
        walked = self.inner
        if self.last is not None:
            walked = ChainVariable(ItemsIteratorVariable([TupleVariable([self.last]), walked]))
        build.call_object(itertools.pairwise, walked)


class CompressVariable(AskingIteratorVariable):
    """`compress(data, selectors)`."""

    value_type = itertools.compress

    def __init__(self, data: VariableTracker, selectors: VariableTracker) -> None:
        self.data, self.selectors = data, selectors

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        while True:
            item = self.data.next_or_raise(ctx)
            if specialize_bool(ctx, self.selectors.next_or_raise(ctx)):
                return item

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(itertools.compress, self.data, self.selectors)


class PoolsIteratorVariable(IteratorVariable):
    """product, permutations, combinations: they consume their input first; the real function iterates over the trackers."""

    def __init__(self, function: Any, pools: Sequence[TupleVariable], options: Sequence[Any]) -> None:
        self.function, self.pools, self.options = function, list(pools), tuple(options)
        self.walk = make_pools(function, self.options, *(pool.items for pool in pools))
        self.consumed = 0

    def python_type(self) -> type[Any]:
        return self.function  # type: ignore[no-any-return]

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        items = next(self.walk, None)
        if items is None:
            return None
        self.consumed += 1
        return TupleVariable(items)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(
            pools_at,
            ConstantFunction(self.function),
            TupleVariable(list(map(ConstantVariable, self.options))),
            ConstantVariable(self.consumed),
            *self.pools,
        )


class ConstantFunction(VariableTracker):
    """A live function, as an argument of a reconstruction call."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.function)


def make_pools(function: Any, options: tuple[Any, ...], *pools: Any) -> Iterator[Any]:
    """`product(*pools, repeat=n)`, `combinations(pool, n)` and similar."""
    if function is itertools.product:
        return itertools.product(*pools, repeat=options[0])
    return function(*pools, *options)  # type: ignore[no-any-return]


def pools_at(function: Any, options: tuple[Any, ...], consumed: int, *pools: Any) -> Iterator[Any]:
    """The same after `consumed` items."""
    walk = make_pools(function, options, *pools)
    next(itertools.islice(walk, consumed, consumed), None)
    return walk


class BatchedVariable(IteratorVariable):
    """`batched(iterable, n)` (Python 3.12 and later)."""

    def __init__(self, function: Any, inner: VariableTracker, size: int) -> None:
        self.function, self.inner, self.size = function, inner, size

    def python_type(self) -> type[Any]:
        return self.function  # type: ignore[no-any-return]

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        items: list[VariableTracker] = []
        while len(items) < self.size and (item := self.inner.next_item(ctx)) is not None:
            items.append(item)
        return TupleVariable(items) if items else None

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.function, self.inner, ConstantVariable(self.size))


class GroupbyVariable(AskingIteratorVariable):
    """`groupby(iterable, key)`: runs of neighbors with equal keys. All groups share one iterator; a group ends where the next
    begins.

    `item` and `key` were read last (None: nothing read, or a group has yielded it); `group_key` and `group` belong to the group
    that was yielded last. The steps are those of groupby_next and _grouper_next in itertoolsmodule.c.
    """

    value_type = itertools.groupby

    def __init__(self, inner: VariableTracker, function: VariableTracker) -> None:
        self.inner, self.function = inner, function
        self.item: VariableTracker | None = None
        self.key: VariableTracker | None = None
        self.group_key: VariableTracker | None = None
        self.group: GroupVariable | None = None

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        self.group = None
        while self.key is None or (self.group_key is not None and equal(ctx, self.group_key, self.key)):
            self.read_item(ctx)
        self.group_key = self.key
        self.group = GroupVariable(self, self.key)
        return TupleVariable([self.key, self.group])

    def read_item(self, ctx: TraceContext) -> None:
        """Read one more item of the inner iterator, and compute its key."""
        item = self.inner.next_or_raise(ctx)
        by_item = self.function.is_constant() and self.function.as_constant() is None
        self.key = item if by_item else self.function.call(ctx, [item], {})
        self.item = item

    def reconstruct(self, build: Reconstruction) -> None:
        if self.key is not None or self.group_key is not None:
            raise NotImplementedError("a partly consumed groupby")
        build.call_object(itertools.groupby, self.inner, self.function)


class GroupVariable(AskingIteratorVariable):
    """One group of a `groupby`: exhausted as soon as the `groupby` advances."""

    value_type = type(next(itertools.groupby("a"))[1])

    def __init__(self, groups: GroupbyVariable, key: VariableTracker) -> None:
        self.groups, self.key = groups, key

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        groups = self.groups
        if groups.group is not self:
            ctx.raise_exception(StopIteration)
        if groups.item is None:
            groups.read_item(ctx)
        assert groups.key is not None
        if not equal(ctx, self.key, groups.key):
            ctx.raise_exception(StopIteration)
        item, groups.item, groups.key = groups.item, None, None
        if item is None:  # the comparison itself has advanced the group
            ctx.raise_exception(StopIteration)
        return item

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("a group of a groupby")
