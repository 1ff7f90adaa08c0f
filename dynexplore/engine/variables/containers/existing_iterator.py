"""Iterators that existed before the frame: a loop that resumes after a graph break.

The idea: after a break in a loop, the resume function gets the loop's iterator as an argument. Iterators over lists, tuples, ranges
and strings (and enumerate and zip over such) can be inspected without advancing them (`__reduce__`), so the next item has a source:
"the item k steps ahead". The item is guarded like any other value, but the iterator's position is not: one graph serves every
iteration. Exhaustion is a separate guard. After the graph has run, the real iterator is advanced by the number of steps that the
program took.

`__reduce__` of an iterator over a dict lists the items that are left, so those are the sequence. A list that an iterator walks, and
an iterator inside another one, are objects of the call like any other: a guard says that they are not those that the frame changes.

A list or dict that was mutated in this frame during iteration, and iterators over anything else, break the graph at the step.

In: live iterators with a source. Out: items with sources. PyTorch's counterpart: none; Dynamo skips a frame that breaks in a loop.
"""

from __future__ import annotations

import functools
import gc
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


def sequence_and_index(iterator: Any) -> tuple[Any, int]:
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
        sequence, index = sequence_and_index(iterator)
        return type_below(sequence).__getitem__(sequence, index + steps)

    return ahead


def walked_by(iterator: Any) -> Any:
    """The list that a plain iterator iterates over."""
    return sequence_and_index(iterator)[0]


def dict_of(iterator: Any) -> Any:
    """The dict that an iterator over one of its views walks; None once it is exhausted. It has no other way to say it."""
    return next((value for value in gc.get_referents(iterator) if isinstance(value, dict)), None)


def rest_of(iterator: Any) -> Iterator[Any] | None:
    """An iterator over what an iterator over a dict has left, which stays where it is; None if its next step raises."""
    try:
        _, (rest,) = iterator.__reduce__()
    except RuntimeError:  # the dict has other keys since
        return None
    remaining: Iterator[Any] = iter(rest)
    return remaining


@functools.cache
def rest_of_pairs(index: int) -> Callable[[Any], Iterator[Any] | None]:
    """The same for the keys (0) or the values (1) of an iterator over items, whose tuples are made at each step."""

    def rest_of_part(iterator: Any) -> Iterator[Any] | None:
        rest = rest_of(iterator)
        return None if rest is None else iter([pair[index] for pair in rest])

    return rest_of_part


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
        self.outer: ExistingIteratorVariable | None = None
        """The iterator that takes steps of this one."""

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def parts(self) -> Iterator[VariableTracker]:
        return iter(())

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.outer is not None:  # the steps of both would be taken one after the other
            ctx.break_graph("DX307", question="next()", type=f"{self.type_name()} inside {self.outer.type_name()}")
        item = self.ahead(ctx)
        ctx.journal.note(self, "next")
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
        sequence, index = sequence_and_index(self.value)
        walked = ctx.journal.tracker_of(sequence)
        if walked is None and isinstance(sequence, list):  # from now on an object that the frame may change, under any name
            of = self.source
            walked = ctx.build(sequence, of.child("walked", lambda: CallSource(of, walked_by, "the list of ")))
        if walked is not None and ctx.journal.is_changed(walked.container()):
            ctx.break_graph("DX307", question="next()", type="a list that has changed since")
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


LONGEST_REST = 64
"""The maximum number of items that an iterator over a dict has left: each guard on one of them lists them all."""


class ExistingDictIteratorVariable(ExistingIteratorVariable):
    """An iterator over a dict's keys, values or items: what it has left is a sequence."""

    def __init__(self, value: Any, source: Source) -> None:
        super().__init__(value, source)
        self._rests: list[ExistingIteratorVariable] = []

    def look(self, ctx: TraceContext) -> VariableTracker | None:
        if not self._rests:
            self._build_rests(ctx)
        if self._is_walked_changed():
            ctx.break_graph("DX307", question="next()", type="a dict that has changed since")
        items = [rest.ahead(ctx) for rest in self._rests]
        if len(items) == 1:
            return items[0]
        return TupleVariable([item for item in items if item is not None]) if None not in items else None

    def write_back(self, build: Reconstruction) -> None:
        if self._is_walked_changed():
            raise NotImplementedError("its dict is changed after the step, which then raises")
        super().write_back(build)

    def _is_walked_changed(self) -> bool:
        return self._walked is not None and self._journal.is_changed(self._walked)

    def _build_rests(self, ctx: TraceContext) -> None:
        walked, source = dict_of(self.value), self.source
        if type(walked) not in (dict, type(None)) or self.value.__length_hint__() > LONGEST_REST or rest_of(self.value) is None:
            ctx.break_graph("DX307", question="next()", type=self.type_name())
        self._journal, self._walked = ctx.journal, None
        if walked is not None:
            self._walked = ctx.build(walked, source.child("dict", lambda: CallSource(source, dict_of, "the dict of ")))
        parts = [rest_of_pairs(0), rest_of_pairs(1)] if type(self.value) is _ITEMS else [rest_of]
        for index, part in enumerate(parts):
            label = ("keys", "values")[index] if len(parts) > 1 else "items"
            read_part = functools.partial(CallSource, source, part, f"{label} left of ")
            tracker = ctx.build(part(self.value), source.child(label, read_part))
            assert isinstance(tracker, ExistingIteratorVariable)
            self._rests.append(tracker)


_ITEMS: type[Any] = type(iter({}.items()))


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
        for index in range(len(iterators)):
            item = _inner(ctx, self, index).ahead(ctx)
            if item is None:
                return None
            items.append(item)
        return TupleVariable(items) if items else None


def _inner(ctx: TraceContext, outer: ExistingIteratorVariable, index: int) -> ExistingIteratorVariable:
    """The inner iterator of another one; breaks the graph if the program also advances it directly."""
    source = CallSource(outer.source, part_of(index), f"iterator {index} of ")
    interned: Source = outer.source.child(("part", index), lambda: source)
    inner = ctx.build(part_of(index)(outer.value), interned)
    if not isinstance(inner, ExistingIteratorVariable) or ctx.journal.is_changed(inner) or inner.outer not in (None, outer):
        ctx.break_graph("DX307", question="next()", type=f"{outer.type_name()} over {inner.type_name()}")
    inner.outer = outer
    ctx.journal.observe_identity(inner)  # other iterators inside `zip` are other objects in later calls, too
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
    **dict.fromkeys((type(iter(getattr({}, part)())) for part in ("keys", "values", "items")), ExistingDictIteratorVariable),
    enumerate: ExistingEnumerateVariable,
    zip: ExistingZipVariable,
}
_OPAQUE: tuple[Any, ...] = (
    map, filter, reversed, types.GeneratorType, type(reversed([])), type(iter(set())), type(iter(deque())),
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
