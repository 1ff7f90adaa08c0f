"""Ranges and slices: start, stop and step, constant or symbolic.

The idea: `range` and `slice` only hold three numbers. Iterating over a range, or applying a slice to a Python sequence, specializes
them; a slice of a tensor goes into the graph with symbolic numbers.

In: the numbers. Out: a real `range` or `slice`, or an argument of an FX node. PyTorch's counterpart: `RangeVariable` and
`SliceVariable` in torch/_dynamo/variables/lists.py.
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
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, run_now
from dynexplore.engine.variables.scalars.specialize import is_specializable, is_tensor, specialize, specialize_index
from dynexplore.engine.variables.signatures import builtin_method
from dynexplore.engine.variables.type_errors import raise_type_error

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_PARTS = ("start", "stop", "step")


class StartStopStepVariable(BuiltinValueVariable):
    """Shared by ranges and slices: start, stop, step."""

    mutable = True  # immutable, but two references to one object must stay the same object

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


class RangeVariable(StartStopStepVariable):
    """A `range`."""

    kind = "range"
    value_type = range

    def concrete(self, ctx: TraceContext) -> range:
        """The real range; symbolic bounds are specialized."""
        numbers = [specialize_index(ctx, part.read(ctx), "range()") for part in self.parts]
        return run_now(ctx, range, *numbers)  # type: ignore[no-any-return]

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.concrete(ctx))

    def length(self, ctx: TraceContext) -> VariableTracker:
        return computed(ctx, len, self.concrete(ctx))  # raises OverflowError if it does not fit into a C integer

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [ConstantVariable(number) for number in self.concrete(ctx)]

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return RangeIteratorVariable(self.concrete(ctx))

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        try:
            return ConstantVariable(specialize(item) in self.concrete(ctx))
        except NotConstant:
            ctx.break_graph("DX105" if is_tensor(item) else "DX302", operation="`in` a range", type=item.type_name())

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        if isinstance(key, SliceVariable):
            return range_of(run_now(ctx, operator.getitem, self.concrete(ctx), key.concrete(ctx)))
        if type(key) is not ConstantVariable:
            key = ConstantVariable(specialize_index(ctx, key, "range index"))
        return computed(ctx, operator.getitem, self.concrete(ctx), key.as_constant())

    def hash_key(self, ctx: TraceContext) -> object:
        return self.concrete(ctx)

    def as_proxy(self) -> Any:
        if not self.is_constant():
            raise NotProxyable("range of symbolic numbers")
        return self.as_constant()

    def contents(self, most: int | None = None) -> Contents | None:
        try:
            parts = [part.unguarded_value() for part in self.parts]
        except Unknown:
            return None
        return Contents([], range(*parts)) if all(isinstance(part, int) for part in parts) else None

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(range, *self.parts)


class SliceVariable(StartStopStepVariable):
    """A `slice`."""

    kind = "slice"
    value_type = slice

    def concrete(self, ctx: TraceContext) -> slice:
        """The real slice, for a Python sequence."""
        return slice(*(self._end(ctx, part.read(ctx)) for part in self.parts))

    def _end(self, ctx: TraceContext, part: VariableTracker) -> int | None:
        if part.is_constant():
            return part.as_constant()  # type: ignore[no-any-return]  # Python raises for other constants
        return specialize_index(ctx, part, "slice")

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
    """An iterator over a range of constants."""

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

    def remaining(self, most: int | None = None) -> Contents | None:
        return Contents([], self.numbers)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(iter, range_of(self.numbers))

    def text(self) -> str:
        return f"iterator over {self.numbers}"


def range_of(numbers: range) -> RangeVariable:
    """The tracker of a range of constants."""
    start, stop, step = map(ConstantVariable, (numbers.start, numbers.stop, numbers.step))
    return RangeVariable(start, stop, step)


def _build_parts(ctx: TraceContext, value: Any, source: Source | None) -> list[VariableTracker]:
    """The trackers of start, stop and step; those of an existing object are guarded one by one."""
    sources = [source.attribute(name, "getattr") if source is not None else None for name in _PARTS]
    return [ctx.build(getattr(value, name), part) for name, part in zip(_PARTS, sources, strict=True)]


@builds(range, slice)
def build_three_numbers(ctx: TraceContext, value: range | slice, source: Source | None) -> VariableTracker:
    """A range or a slice: its type and its three parts are guarded."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", type(value))
    start, stop, step = _build_parts(ctx, value, source)
    tracker = RangeVariable if isinstance(value, range) else SliceVariable
    return tracker(start, stop, step, source)


@binary_rule(RangeVariable, RangeVariable, *COMPARE)
def _compare_ranges(ctx: TraceContext, symbol: str, lhs: RangeVariable, rhs: RangeVariable) -> VariableTracker:
    return computed(ctx, COMPARE[symbol], lhs.concrete(ctx), rhs.concrete(ctx))


@binary_rule(SliceVariable, SliceVariable, *COMPARE)
def _compare_slices(ctx: TraceContext, symbol: str, lhs: SliceVariable, rhs: SliceVariable) -> VariableTracker:
    try:
        return computed(ctx, COMPARE[symbol], lhs.as_constant(), rhs.as_constant())
    except NotConstant:
        raise_type_error(ctx, COMPARE[symbol], lhs, rhs, kind="DX305", operator=symbol, left="slice", right="slice")


@builtin_method(range, "index")
def _index(ctx: TraceContext, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    return _computed_for(ctx, self, "index", item)


@builtin_method(range, "count")
def _count(ctx: TraceContext, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    return _computed_for(ctx, self, "count", item)


def _computed_for(ctx: TraceContext, self: RangeVariable, name: str, item: VariableTracker) -> VariableTracker:
    if not is_specializable(item):
        ctx.break_graph("DX213", method=f"range.{name}")
    return computed(ctx, getattr(self.concrete(ctx), name), specialize(item))


@builtin_method(slice, "indices")
def _indices(ctx: TraceContext, self: SliceVariable, length: VariableTracker, /) -> VariableTracker:
    return computed(ctx, self.concrete(ctx).indices, specialize_index(ctx, length, "slice.indices()"))
