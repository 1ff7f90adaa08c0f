"""Iterators: base classes, and the plain iterators over sequences and items.

The idea: iterators are lazy in the program, so their trackers are lazy too: `next_item` computes one more item, None means
exhausted. A list may be mutated during iteration, so its iterator holds the list's tracker and an index, as CPython's does.

An iterator made in this frame can be reconstructed at any position (`reconstruct`) from what it iterates over and its position. One
that existed before the frame is in existing_iterator.py.

In: a tracker to iterate over. Out: one item at a time. PyTorch's counterpart: `IteratorVariable` in
torch/_dynamo/variables/iter.py, `ListIteratorVariable` in lists.py. Iterators built on other iterators are in builtin_iterators.py
and itertools_iterators.py.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.objects.type_lookup import has_name
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.specialize import equal

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


TEXT_ITERATOR = type(iter("é"))
"""The type of an iterator over any text but exact ASCII text."""
PLAIN_ITERATORS = frozenset(map(type, (iter(""), iter("é"), iter(b""), iter([]), iter(()), iter(range(0)))))


class IteratorVariable(BuiltinValueVariable):
    """Any iterator that the engine can advance."""

    kind: ClassVar[str] = "iterator"
    mutable: ClassVar[bool] = True

    def parts(self) -> Iterator[VariableTracker]:
        """The trackers it consists of: what it iterates over, inner iterators, functions that it calls."""
        for value in vars(self).values():
            for part in value if isinstance(value, list | tuple) else (value,):
                if isinstance(part, VariableTracker):
                    yield part

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        while (candidate := self.next_item(ctx)) is not None:
            if equal(ctx, candidate, item):
                return ConstantVariable(True)
        return ConstantVariable(False)


class AskingIteratorVariable(IteratorVariable):
    """An iterator that advances other iterators or calls functions, so that their StopIteration propagates, with its value.

    Subclasses define what `next()` returns or raises; a loop treats any StopIteration as the end, whoever raised it.
    """

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        return item_or_end(ctx, self.next_or_raise)

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        raise NotImplementedError(type(self))


def item_or_end(ctx: TraceContext, step: Callable[[TraceContext], VariableTracker]) -> VariableTracker | None:
    """The result of a step, or None if it raises StopIteration: CPython's PyIter_Next."""
    try:
        return step(ctx)
    except ObservedException as raised:
        if issubclass(raised.exception.python_type(), StopIteration):
            return None
        raise


class ItemsIteratorVariable(IteratorVariable):
    """An iterator over items that no container holds."""

    value_type = type(iter(()))

    def __init__(self, items: list[VariableTracker], value_type: type[Any] | None = None) -> None:
        self.items = items
        self.index = 0
        self._type = value_type

    def python_type(self) -> type[Any]:
        return self._type or self.value_type

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.index >= len(self.items):
            return None
        self.index += 1
        return self.items[self.index - 1].read(ctx)

    def remaining(self, most: int | None = None) -> Contents | None:
        return Contents(self.items[self.index : None if most is None else self.index + most])

    def bulk(self) -> int:
        return max(len(self.items) - self.index, 0)

    def reconstruct(self, build: Reconstruction) -> None:
        rest = self.items[self.index :]

        def load_items() -> None:
            for item in rest:
                build.push(item)
            build.writer.build_tuple(len(rest))

        build.call_helper(_FROM_ITEMS.get(self.python_type(), iter), load_items)


class SequenceIteratorVariable(IteratorVariable):
    """An iterator over a list, tuple or deque, which reads its current content at each step."""

    def __init__(self, sequence: Any, value_type: type[Any], step: int = 1) -> None:
        self.sequence: Any = sequence  # None once exhausted, as in CPython
        self.step = step
        self.index = 0 if step > 0 else len(sequence.items) - 1
        self._type = value_type

    def python_type(self) -> type[Any]:
        return self._type

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        if self.sequence is None:
            return None
        items = self.sequence.items
        if not 0 <= self.index < len(items):
            self.sequence = None
            return None
        item: VariableTracker = items[self.index]
        self.index += self.step
        return item.read(ctx)

    def remaining(self, most: int | None = None) -> Contents | None:
        shown: Contents | None = self.sequence.contents(0) if self.sequence is not None else Contents([])
        if self.sequence is None or shown is None:
            return shown
        if shown.live is not None:  # items without trackers have not been consumed
            return cast("Contents | None", self.sequence.contents(most))
        if self.index < 0:
            return Contents([])
        end = None if most is None else self.index + self.step * most
        return Contents(self.sequence.items[self.index : end if end is None or end >= 0 else None : self.step])

    def bulk(self) -> int:
        if self.sequence is None:
            return 0
        return max(cast(int, self.sequence.bulk()) - self.index, 0) if self.step > 0 else self.index + 1

    def reconstruct(self, build: Reconstruction) -> None:
        if self.sequence is None:
            ItemsIteratorVariable([], self._type).reconstruct(build)
        elif self.step > 0:
            build.call_object(iterator_at, self.sequence, ConstantVariable(self.index))
        else:
            build.call_object(reversed_iterator_at, self.sequence, ConstantVariable(self.index))

    def text(self) -> str:
        return f"{self._type.__name__} at {self.index}"


_LONGEST_SEQUENCE = 10_000  # of an object iterated through `__getitem__`


class _ByIndex:
    def __getitem__(self, index: int) -> int:
        raise IndexError(index)


def _general_iterator(characters: tuple[str, ...]) -> Iterator[str]:
    """An iterator over text that is not ASCII, though what is left of it may be."""
    walk = iter(f"é{''.join(characters)}")
    next(walk)
    return walk


def _over_empty(mapping: type[Any], part: str, walk: Callable[[Any], Any]) -> Callable[[tuple[Any, ...]], Iterator[Any]]:
    return lambda items: walk(getattr(mapping(), part)())


_FROM_ITEMS: dict[type[Any], Callable[[tuple[Any, ...]], Iterator[Any]]] = {
    type(iter("")): lambda items: iter("".join(items)),
    TEXT_ITERATOR: _general_iterator,
    type(iter(b"")): lambda items: iter(bytes(items)),
    type(iter([])): lambda items: iter(list(items)),
    type(reversed([])): lambda items: reversed([*reversed(items)]),
    type(iter(deque())): lambda items: iter(deque(items)),
    type(reversed(())): lambda items: reversed((*reversed(items),)),
    type(reversed(deque())): lambda items: reversed(deque(reversed(items))),
    type(iter(set())): lambda items: iter(set(items)),
    type(iter(_ByIndex())): lambda items: iter(_ByIndex()),
    **{type(make(())): make for make in (
        _over_empty(mapping, part, walk) for mapping in (dict, OrderedDict) for part in ("keys", "values", "items")
        for walk in (iter, reversed)
    )},
}  # fmt: skip
"""How a new iterator of a type is made that has these items left; of sets, dicts, and by index, there are none left."""


class ByIndexIteratorVariable(AskingIteratorVariable):
    """An iterator over an object that only has `__getitem__`: it reads indices 0, 1, 2, ... until that raises IndexError."""

    value_type: ClassVar[type[Any]] = type(iter(_ByIndex()))

    def __init__(self, walked: VariableTracker, index: int = 0, step: int = 1) -> None:
        self.walked: VariableTracker | None = walked  # None once exhausted, as in CPython
        self.index, self.step = index, step

    def python_type(self) -> type[Any]:
        return self.value_type if self.step > 0 else reversed

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        if self.walked is None or self.index < 0:
            ctx.raise_exception(StopIteration)
        if self.index == _LONGEST_SEQUENCE:
            ctx.break_graph("DX307", question="iteration through __getitem__", type=self.walked.type_name())
        try:
            item = self.walked.get_item(ctx, ConstantVariable(self.index))
        except ObservedException as raised:
            if not issubclass(raised.exception.python_type(), (IndexError, StopIteration)):
                raise
            self.walked = None
            ctx.raise_exception(StopIteration)
        self.index += self.step
        return item

    def length_hint(self, ctx: TraceContext) -> None:
        """`__length_hint__` of such an iterator measures what it walks, if that can be measured."""
        if self.walked is None or not has_name(ctx, self.walked.python_type(), "__len__"):
            return
        try:
            self.walked.length(ctx)
        except ObservedException as raised:
            if not issubclass(raised.exception.python_type(), TypeError):
                raise

    def reconstruct(self, build: Reconstruction) -> None:
        if self.step < 0:
            raise NotImplementedError("`reversed` of a user object, whose `__len__` would run a second time")
        if self.walked is None:
            ItemsIteratorVariable([], self.value_type).reconstruct(build)
        else:
            build.call_object(by_index_iterator_at, self.walked, ConstantVariable(self.index))


def iterator_at(iterable: Iterable[Any], index: int) -> Iterator[Any]:
    """An iterator that has already returned `index` items."""
    iterator: Any = _walk(iterable)
    if type(iterator) in PLAIN_ITERATORS:
        iterator.__setstate__(index)
    else:
        next(islice(iterator, index, index), None)
    return iterator  # type: ignore[no-any-return]


def _walk(walked: Any) -> Iterator[Any]:
    """`iter(walked)`, bypassing overridden methods, which were called when the iteration began."""
    kind: Any = next((kind for kind in (list, tuple, set) if isinstance(walked, kind)), None)
    walk: Iterator[Any] = iter(walked) if kind is None else kind.__iter__(walked)
    return walk


def by_index_iterator_at(walked: Any, index: int) -> Iterator[Any]:
    """An iterator whose next item is `walked[index]`; nothing is read yet."""
    iterator: Any = iter(walked)
    iterator.__setstate__(index)
    return iterator  # type: ignore[no-any-return]


def set_iterator_at(walked: Any, rest: tuple[Any, ...]) -> Iterator[Any]:
    """An iterator over a set whose remaining items are `rest`; over `rest` itself if the set was rebuilt in another order."""
    kind = set if isinstance(walked, set) else frozenset
    skip = kind.__len__(walked) - len(rest)
    if all(map(_looks_same, list(_walk(walked))[skip:], rest)):
        return iterator_at(walked, skip)
    return iter(rest)


def _looks_same(lhs: object, rhs: object) -> bool:
    return lhs is rhs or (type(lhs) is type(rhs) and type(lhs) in _PLAIN and lhs == rhs)


_PLAIN = (int, float, str, bytes, bool, complex)


def reversed_iterator_at(sequence: Any, index: int) -> Iterator[Any]:
    """A reversed iterator whose next item is the one at `index`."""
    of_a_list = isinstance(sequence, list)  # also for a subclass, bypassing its methods
    iterator: Iterator[Any] = list.__reversed__(sequence) if of_a_list else reversed(sequence)
    skip = (list.__len__(sequence) if of_a_list else len(sequence)) - 1 - index
    next(islice(iterator, skip, skip), None)
    return iterator
