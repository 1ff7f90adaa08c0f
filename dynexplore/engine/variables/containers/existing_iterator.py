"""Iterators that existed before the frame: a loop that resumes after a graph break.

The idea: after a break in a loop, the resume function gets the loop's iterator as an argument. Iterators over lists, tuples, ranges
and strings (and enumerate and zip over such) can be inspected without advancing them (`__reduce__`), so the next item has a source:
"the item k steps ahead". The item is guarded like any other value, but the iterator's position is not: one graph serves every
iteration. Exhaustion is a separate guard. After the graph has run, the real iterator is advanced by the number of steps that the
program took.

A list that was mutated in this frame during iteration, and iterators over anything else, break the graph at the step.

In: live iterators with a source. Out: items with sources. PyTorch's counterpart: none; Dynamo skips a frame that breaks in a loop.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from dynexplore.engine.provenance.sources import CallSource, IteratorSource, Source
from dynexplore.engine.variables.containers.iterator import PLAIN_ITERATORS, ItemsIteratorVariable, IteratorVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.scalars.unspecialized import UnspecializedVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def place_of(iterator: Any) -> tuple[Any, int]:
    """The sequence that a plain iterator iterates over, and the index of its next item; does not advance it."""
    _, (sequence,), *index = iterator.__reduce__()
    return sequence, (index[0] or 0) if index else 0


def type_below(sequence: Any) -> Any:
    """The C type whose length and items a plain iterator reads: it calls no overridden method."""
    return next(kind for kind in (list, tuple, str, bytes, range) if isinstance(sequence, kind))


@functools.cache
def item_ahead(steps: int) -> Callable[[Any], Any]:
    """A function that returns the item this many steps ahead. Raises IndexError if there is none."""

    def ahead(iterator: Any) -> Any:
        sequence, index = place_of(iterator)
        return type_below(sequence).__getitem__(sequence, index + steps)

    return ahead


@functools.cache
def part_of(index: int) -> Callable[[Any], Any]:
    """A function that returns an argument with which `enumerate` or `zip` would be reconstructed."""
    return lambda iterator: iterator.__reduce__()[1][index]


def move(iterator: Iterator[Any], steps: int, exhausted: bool) -> None:
    """Advance an iterator by this many steps, and past its end if the program exhausted it."""
    for _ in range(steps):
        next(iterator)
    if exhausted:
        next(iterator, None)


class ExistingIteratorVariable(IteratorVariable):
    """Shared by all existing iterators: steps are counted while tracing, and taken for real after the graph has run."""

    kind: ClassVar[str] = "iterator"

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source: Source = source
        self.steps = 0
        self.exhausted = False
        self._moved = False

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def parts(self) -> Iterator[VariableTracker]:
        return iter(())

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        item = self.ahead(ctx)
        ctx.journal.note(self, "next")
        self._moved = True
        return item

    def ahead(self, ctx: TraceContext) -> VariableTracker | None:
        """The next item; the step is counted, but not recorded in the journal."""
        if self.exhausted:
            return None
        item = self.look(ctx)
        if item is None:
            self.exhausted = True
        else:
            self.steps += 1
        return item

    def look(self, ctx: TraceContext) -> VariableTracker | None:
        """The item `steps` ahead of the real iterator, guarded; None, also guarded, if there is none."""
        raise NotImplementedError

    def write_back(self, build: Reconstruction) -> None:
        build.push(self)
        target = build.store_temporary()
        steps, exhausted = self.steps, self.exhausted

        def emit() -> None:
            writer = build.writer
            load_state = (lambda: writer.load_const(steps), lambda: writer.load_const(exhausted))
            build.call_helper(move, lambda: writer.load_fast(target), *load_state)
            writer.pop_top()

        build.later(emit)

    def text(self) -> str:
        return f"{self.type_name()}, {self.steps} steps on"


class ExistingPlainIteratorVariable(ExistingIteratorVariable):
    """An iterator over a list, tuple, range or string."""

    def look(self, ctx: TraceContext) -> VariableTracker | None:
        sequence, index = place_of(self.value)
        walked = ctx.journal.tracker_of(sequence)
        if walked is not None and ctx.journal.is_changed(walked.container()):
            ctx.break_graph("DX307", question="next()", type="a list that was changed meanwhile")
        kind = type_below(sequence)
        if index + self.steps >= kind.__len__(sequence):
            ctx.guard(self.source, "ITERATOR_REMAINING", self.steps)
            return None
        steps, source = self.steps, self.source
        ahead: Source = source.child(("ahead", steps), lambda: IteratorSource(source, item_ahead(steps), f"item {steps} of "))
        item = ctx.build(kind.__getitem__(sequence, index + steps), ahead)
        if isinstance(item, UnspecializedVariable):  # the guards of other values already require that the item exists
            ctx.guard(source, "ITERATOR_HAS_MORE", steps)
        return item


class ExistingEnumerateVariable(ExistingIteratorVariable):
    """An `enumerate` object: its inner iterator and its current count."""

    def look(self, ctx: TraceContext) -> VariableTracker | None:
        item = _inner(ctx, self, 0).ahead(ctx)
        if item is None:
            return None
        source = self.source.child(
            ("number", self.steps), lambda: IteratorSource(self.source, _number_ahead(self.steps), f"number {self.steps} of ")
        )
        return TupleVariable([ctx.build(_number_ahead(self.steps)(self.value), source), item])


@functools.cache
def _number_ahead(steps: int) -> Callable[[Any], Any]:
    return lambda iterator: iterator.__reduce__()[1][1] + steps


class ExistingZipVariable(ExistingIteratorVariable):
    """A `zip` object: its inner iterators."""

    def look(self, ctx: TraceContext) -> VariableTracker | None:
        _, iterators, *strict = self.value.__reduce__()
        if strict:
            ctx.break_graph("DX307", question="next()", type="zip(strict=True)")
        items = []
        for place in range(len(iterators)):
            item = _inner(ctx, self, place).ahead(ctx)
            if item is None:
                return None
            items.append(item)
        return TupleVariable(items) if items else None


def _inner(ctx: TraceContext, outer: ExistingIteratorVariable, place: int) -> ExistingIteratorVariable:
    """The inner iterator of another one; breaks the graph if the program also advances it directly."""
    source = CallSource(outer.source, part_of(place), f"iterator {place} of ")
    interned: Source = outer.source.child(("part", place), lambda: source)
    inner = ctx.build(part_of(place)(outer.value), interned)
    if not isinstance(inner, ExistingIteratorVariable) or ctx.journal.is_changed(inner):
        ctx.break_graph("DX307", question="next()", type=f"{outer.type_name()} over {inner.type_name()}")
    return inner


class OpaqueIteratorVariable(BuiltinValueVariable):
    """An iterator that cannot be inspected and that only Python can advance."""

    kind = "iterator"
    mutable = True

    def __init__(self, value: Any, source: Source) -> None:
        self.value, self.source = value, source

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self


# -- live values ------------------------------------------------------------------------------------------------------

_LOOKED_INTO: dict[type[Any], type[ExistingIteratorVariable]] = {
    **dict.fromkeys(PLAIN_ITERATORS, ExistingPlainIteratorVariable),
    enumerate: ExistingEnumerateVariable,
    zip: ExistingZipVariable,
}
_OPAQUE: tuple[Any, ...] = (
    map, filter, reversed, types.GeneratorType, type(reversed([])), type(iter(set())), type(iter(deque())),
    *(type(iter(getattr({}, part)())) for part in ("keys", "values", "items")),
    *(member for member in vars(itertools).values() if isinstance(member, type)),
)  # fmt: skip


@builds(*_LOOKED_INTO)
def build_iterator(ctx: TraceContext, value: Iterator[Any], source: Source | None) -> VariableTracker:
    """An iterator that can be inspected without advancing it."""
    if source is None:
        return ItemsIteratorVariable([ctx.build(item, None) for item in value], type(value))
    ctx.guard(source, "TYPE_MATCH", type(value))
    return _LOOKED_INTO[type(value)](value, source)


@builds(*_OPAQUE)
def build_opaque_iterator(ctx: TraceContext, value: Iterator[Any], source: Source | None) -> VariableTracker:
    """An iterator that only Python can advance."""
    if source is None:
        source = ctx.module_guards.source_of(value, type(value).__name__)
    else:
        ctx.guard(source, "TYPE_MATCH", type(value))
    return OpaqueIteratorVariable(value, source)
