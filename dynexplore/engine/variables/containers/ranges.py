"""Ranges and slices: three numbers each, known or symbolic.

The idea: `range` and `slice` only hold start, stop and step. When a range is walked, or a slice is applied to a
Python sequence, the numbers must be known; a slice of a tensor goes into the graph as it is.

In: the numbers. Out: a real `range` or `slice`, or an argument of an FX node.
torch/_dynamo/variables/lists.py (RangeVariable, SliceVariable) does the same job.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import NotConstant, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.operators import COMPARE, binary_rule
from dynexplore.engine.variables.scalars.concrete_values import is_settled, is_tensor, known_index, settled
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, run_now
from dynexplore.engine.variables.signatures import builtin_method
from dynexplore.engine.variables.type_errors import raise_type_error

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_PARTS = ("start", "stop", "step")


class ThreeNumbersVariable(BuiltinValueVariable):
    """What ranges and slices share: start, stop, step."""

    mutable = True  # they cannot change, but two references to one of them must stay so

    def __init__(self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None) -> None:
        self.parts = [start, stop, step]
        self.source = source

    def read_items(self, ctx: TraceContext) -> None:
        self.parts = [part.read(ctx) for part in self.parts]

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _PARTS:
            return self.parts[_PARTS.index(name)].read(ctx)
        return super().get_attribute(ctx, name)

    def as_constant(self) -> Any:
        return self.value_type(*(part.as_constant() for part in self.parts))

    def text(self) -> str:
        return f"{self.value_type.__name__}({', '.join(part.text() for part in self.parts)})"


class RangeVariable(ThreeNumbersVariable):
    """A `range`."""

    kind = "range"
    value_type = range

    def known(self, ctx: TraceContext) -> range:
        """The real range; symbolic ends are specialized."""
        return range(*(known_index(ctx, part.read(ctx), "range()") for part in self.parts))

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.known(ctx))

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.known(ctx)))

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [ConstantVariable(number) for number in self.known(ctx)]

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return RangeIteratorVariable(self.known(ctx))

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        try:
            return ConstantVariable(settled(item) in self.known(ctx))
        except NotConstant:
            ctx.break_graph("DX105" if is_tensor(item) else "DX302", operation="`in` a range", type=item.type_name())

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        if isinstance(key, SliceVariable):
            return range_of(run_now(ctx, operator.getitem, self.known(ctx), key.known(ctx)))
        if type(key) is not ConstantVariable:
            key = ConstantVariable(known_index(ctx, key, "range index"))
        return computed(ctx, operator.getitem, self.known(ctx), key.as_constant())

    def hash_key(self, ctx: TraceContext) -> object:
        return self.known(ctx)

    def as_proxy(self) -> Any:
        if not self.is_constant():
            raise NotProxyable("range of symbolic numbers")
        return self.as_constant()

    def contents(self) -> Contents | None:
        try:
            parts = [part.unguarded_value() for part in self.parts]
        except Unknown:
            return None
        return Contents([], range(*parts)) if all(isinstance(part, int) for part in parts) else None

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(range, *self.parts)


class SliceVariable(ThreeNumbersVariable):
    """A `slice`."""

    kind = "slice"
    value_type = slice

    def known(self, ctx: TraceContext) -> slice:
        """The real slice, for a Python sequence."""
        return slice(*(self._end(ctx, part.read(ctx)) for part in self.parts))

    def _end(self, ctx: TraceContext, part: VariableTracker) -> int | None:
        if part.is_constant():
            return part.as_constant()  # type: ignore[no-any-return]  # Python says what it thinks of other constants
        return known_index(ctx, part, "slice")

    def hash_key(self, ctx: TraceContext) -> object:
        return run_now(ctx, lambda: hash(slice(None)) and self)  # unhashable before Python 3.12

    def as_proxy(self) -> Any:
        return slice(*(part.as_proxy() for part in self.parts))

    def unguarded_value(self, depth: int = 8) -> Any:
        return slice(*(part.unguarded_value(depth) for part in self.parts))

    def reconstruct(self, build: Reconstruction) -> None:
        for part in self.parts:
            build.push(part)
        build.writer.build_slice(3)


class RangeIteratorVariable(BuiltinValueVariable):
    """An iterator over a known range."""

    kind = "iterator"
    mutable = True
    value_type = type(iter(range(0)))

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if not self.numbers:
            return None
        number, self.numbers = self.numbers[0], self.numbers[1:]
        return ConstantVariable(number)

    def remaining(self) -> Contents | None:
        return Contents([], self.numbers)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(iter, range_of(self.numbers))

    def text(self) -> str:
        return f"iterator over {self.numbers}"


def range_of(numbers: range) -> RangeVariable:
    """The tracker of a known range."""
    start, stop, step = map(ConstantVariable, (numbers.start, numbers.stop, numbers.step))
    return RangeVariable(start, stop, step)


def _three(ctx: TraceContext, value: Any, source: Source | None) -> list[VariableTracker]:
    """The tracker of each part; existing ones are guarded one by one."""
    sources = [source.attribute(name, "getattr") if source is not None else None for name in _PARTS]
    return [ctx.build(getattr(value, name), part) for name, part in zip(_PARTS, sources, strict=True)]


@builds(range, slice)
def build_three_numbers(ctx: TraceContext, value: range | slice, source: Source | None) -> VariableTracker:
    """A range or a slice: its type and its three parts are guarded."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", type(value))
    start, stop, step = _three(ctx, value, source)
    tracker = RangeVariable if isinstance(value, range) else SliceVariable
    return tracker(start, stop, step, source)


@binary_rule(RangeVariable, RangeVariable, *COMPARE)
def _compare_ranges(ctx: TraceContext, symbol: str, left: RangeVariable, right: RangeVariable) -> VariableTracker:
    return computed(ctx, COMPARE[symbol], left.known(ctx), right.known(ctx))


@binary_rule(SliceVariable, SliceVariable, *COMPARE)
def _compare_slices(ctx: TraceContext, symbol: str, left: SliceVariable, right: SliceVariable) -> VariableTracker:
    try:
        return computed(ctx, COMPARE[symbol], left.as_constant(), right.as_constant())
    except NotConstant:
        raise_type_error(ctx, COMPARE[symbol], left, right, kind="DX305", operator=symbol, left="slice", right="slice")


@builtin_method(range, "index")
def _index(ctx: TraceContext, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    return _asked(ctx, self, "index", item)


@builtin_method(range, "count")
def _count(ctx: TraceContext, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    return _asked(ctx, self, "count", item)


def _asked(ctx: TraceContext, self: RangeVariable, name: str, item: VariableTracker) -> VariableTracker:
    if not is_settled(item):
        ctx.break_graph("DX213", method=f"range.{name}")
    return computed(ctx, getattr(self.known(ctx), name), settled(item))


@builtin_method(slice, "indices")
def _indices(ctx: TraceContext, self: SliceVariable, length: VariableTracker, /) -> VariableTracker:
    return computed(ctx, self.known(ctx).indices, known_index(ctx, length, "slice.indices()"))
