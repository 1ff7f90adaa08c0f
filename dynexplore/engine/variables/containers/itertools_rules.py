"""Rules for calls of `itertools`: each creates one of the iterators of itertools_iterators.py.

The idea: a rule has the signature of Python's function and raises its errors for invalid arguments: it calls the real function on
the numbers alone, which validates them.

In: calls of itertools. Out: iterator trackers. PyTorch's counterpart: torch/_dynamo/polyfills/itertools.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.containers.builtin_iterators import FilterVariable
from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable
from dynexplore.engine.variables.containers.itertools_iterators import (
    AccumulateVariable,
    BatchedVariable,
    ChainVariable,
    CompressVariable,
    CountVariable,
    CycleVariable,
    DropwhileVariable,
    GroupbyVariable,
    IsliceVariable,
    PairwiseVariable,
    PoolsIteratorVariable,
    RepeatVariable,
    StarmapVariable,
    TakewhileVariable,
    TeeBufferVariable,
    TeeVariable,
    ZipLongestVariable,
)
from dynexplore.engine.variables.containers.list_items import tuple_items
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.type_lookup import has_name
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import specialize_index
from dynexplore.engine.variables.signatures import builtin, builtin_method
from dynexplore.engine.variables.type_errors import raise_if_refused

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@builtin(itertools.chain)
def _chain(ctx: TraceContext, *iterables: VariableTracker) -> VariableTracker:
    return ChainVariable(ItemsIteratorVariable(list(iterables)))


@builtin_method(itertools.chain, "from_iterable")
def _chain_from(ctx: TraceContext, class_method: VariableTracker, iterables: VariableTracker, /) -> VariableTracker:
    return ChainVariable(iterables.iterate(ctx))


@builtin(itertools.islice)
def _islice(
    ctx: TraceContext, iterable: VariableTracker, first: VariableTracker, second: VariableTracker | None = None,
    third: VariableTracker | None = None, /,
) -> VariableTracker:  # fmt: skip
    numbers = [_end(ctx, end) for end in (first, second, third) if end is not None]
    run_now(ctx, itertools.islice, (), *numbers)  # validates the numbers
    if len(numbers) == 1:
        return IsliceVariable(iterable.iterate(ctx), 0, numbers[0], 1)
    start, stop, step = (*numbers, None)[:3]
    return IsliceVariable(iterable.iterate(ctx), start or 0, stop, step or 1)


def _end(ctx: TraceContext, end: VariableTracker) -> Any:
    return end.as_constant() if end.is_constant() else specialize_index(ctx, end, "islice()")


@builtin(itertools.repeat)
def _repeat(ctx: TraceContext, object: VariableTracker, times: VariableTracker | None = None) -> VariableTracker:
    if times is None:
        return RepeatVariable(object, None)
    count = specialize_index(ctx, times, "repeat()")
    run_now(ctx, itertools.repeat, None, count)  # raises for an invalid count
    return RepeatVariable(object, max(0, count))


@builtin(itertools.count)
def _count(ctx: TraceContext, start: VariableTracker | None = None, step: VariableTracker | None = None) -> VariableTracker:
    raise_if_refused(ctx, itertools.count, *(number for number in (start, step) if number is not None))
    return CountVariable(ConstantVariable(0) if start is None else start, ConstantVariable(1) if step is None else step)


@builtin(itertools.cycle)
def _cycle(ctx: TraceContext, iterable: VariableTracker, /) -> VariableTracker:
    return CycleVariable(iterable.iterate(ctx))


@builtin(itertools.accumulate)
def _accumulate(
    ctx: TraceContext, iterable: VariableTracker, func: VariableTracker = NONE, *, initial: VariableTracker = NONE
) -> VariableTracker:
    absent = initial.is_constant() and initial.as_constant() is None
    function = NONE if func.is_constant() and func.as_constant() is None else func
    return AccumulateVariable(iterable.iterate(ctx), function, None if absent else initial)


@builtin(itertools.starmap)
def _starmap(ctx: TraceContext, function: VariableTracker, iterable: VariableTracker, /) -> VariableTracker:
    return StarmapVariable(function, iterable.iterate(ctx))


@builtin(itertools.takewhile)
def _takewhile(ctx: TraceContext, predicate: VariableTracker, iterable: VariableTracker, /) -> VariableTracker:
    return TakewhileVariable(predicate, iterable.iterate(ctx))


@builtin(itertools.dropwhile)
def _dropwhile(ctx: TraceContext, predicate: VariableTracker, iterable: VariableTracker, /) -> VariableTracker:
    return DropwhileVariable(predicate, iterable.iterate(ctx))


@builtin(itertools.filterfalse)
def _filterfalse(ctx: TraceContext, predicate: VariableTracker, iterable: VariableTracker, /) -> VariableTracker:
    return FilterVariable(predicate, iterable.iterate(ctx), False, itertools.filterfalse)


@builtin(itertools.zip_longest)
def _zip_longest(ctx: TraceContext, *iterables: VariableTracker, fillvalue: VariableTracker = NONE) -> VariableTracker:
    return ZipLongestVariable([item.iterate(ctx) for item in iterables], fillvalue)


@builtin(itertools.pairwise)
def _pairwise(ctx: TraceContext, iterable: VariableTracker, /) -> VariableTracker:
    return PairwiseVariable(iterable.iterate(ctx))


@builtin(itertools.compress)
def _compress(ctx: TraceContext, data: VariableTracker, selectors: VariableTracker) -> VariableTracker:
    return CompressVariable(data.iterate(ctx), selectors.iterate(ctx))


@builtin(itertools.product)
def _product(ctx: TraceContext, *iterables: VariableTracker, repeat: VariableTracker | None = None) -> VariableTracker:
    times = 1 if repeat is None else specialize_index(ctx, repeat, "product()")
    run_now(ctx, itertools.product, repeat=times)
    return PoolsIteratorVariable(itertools.product, [TupleVariable(tuple_items(ctx, item)) for item in iterables], [times])


@builtin(itertools.permutations)
def _permutations(ctx: TraceContext, iterable: VariableTracker, r: VariableTracker | None = None) -> VariableTracker:
    pool, size = TupleVariable(tuple_items(ctx, iterable)), None if r is None else _end(ctx, r)
    run_now(ctx, itertools.permutations, (), size)  # raises for an invalid size
    return PoolsIteratorVariable(itertools.permutations, [pool], [size])


def _choose(function: Any) -> Callable[..., VariableTracker]:
    def row(ctx: TraceContext, iterable: VariableTracker, r: VariableTracker) -> VariableTracker:
        pool = TupleVariable(tuple_items(ctx, iterable))
        size = specialize_index(ctx, r, f"{function.__name__}()")
        run_now(ctx, function, (), size)
        return PoolsIteratorVariable(function, [pool], [size])

    return row


for _function in (itertools.combinations, itertools.combinations_with_replacement):
    builtin(_function)(_choose(_function))


@builtin(itertools.groupby)
def _groupby(ctx: TraceContext, iterable: VariableTracker, key: VariableTracker = NONE) -> VariableTracker:
    return GroupbyVariable(iterable.iterate(ctx), key)


_TEE_ITERATOR: Any = itertools.tee((), 1)[0]
_GIVES_ITS_ARGUMENT = itertools.tee(_TEE_ITERATOR, 1)[0] is _TEE_ITERATOR  # until Python 3.13


@builtin(itertools.tee)
def _tee(ctx: TraceContext, iterable: VariableTracker, n: VariableTracker | None = None, /) -> VariableTracker:
    count = 2 if n is None else specialize_index(ctx, n, "tee()")
    run_now(ctx, itertools.tee, (), count)  # raises for an invalid count
    if not count:
        return TupleVariable([])
    inner = iterable.iterate(ctx)
    if isinstance(inner, TeeVariable):
        first = inner if _GIVES_ITS_ARGUMENT else TeeVariable(inner.buffer, inner.index)
        return TupleVariable([first, *(TeeVariable(inner.buffer, inner.index) for _ in range(count - 1))])
    if has_name(ctx, inner.python_type(), "__copy__"):
        ctx.break_graph("DX205", function="itertools.tee", arguments=inner.type_name())  # `tee` copies such an iterator
    buffer = TeeBufferVariable(inner)
    return TupleVariable([TeeVariable(buffer) for _ in range(count)])


def _batched(ctx: TraceContext, iterable: VariableTracker, n: VariableTracker) -> VariableTracker:
    function: Any = itertools.batched  # type: ignore[attr-defined]
    size = specialize_index(ctx, n, "batched()")
    run_now(ctx, function, (), size)  # raises for a size below 1
    return BatchedVariable(function, iterable.iterate(ctx), size)


if hasattr(itertools, "batched"):
    builtin(itertools.batched)(_batched)
