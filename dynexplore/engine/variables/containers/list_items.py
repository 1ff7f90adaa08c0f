"""`list(iterable)` and its like: every item of an iterable, with the length hint that CPython asks for in between.

The idea: three functions of CPython's C API read a whole iterable, and they differ in what they call of the program. A length hint
(`operator.length_hint`: `__len__`, then `__length_hint__`) only reserves memory, but it is called, after `iter()` and before the
first item, and whatever it raises, other than a TypeError, is the result:

| function | used by | asked for its length hint |
|---|---|---|
| PySequence_List, `list.extend` | `list()`, `sorted()`, `[*items]`, `+=`, the rest of an unpacking | the iterable |
| PySequence_Tuple | `tuple()`, `f(*items)`, itertools' pools | the iterable; nothing from Python 3.14 on |
| PySequence_Fast | assignment to a slice, `str.join` | its iterator, unless it is a list or a tuple |

Everything else that iterates (`set()`, `sum()`, `deque()`, `dict()`) calls `unpack`, and asks for nothing.

In: iterable trackers. Out: the trackers of the items. PyTorch's counterpart: none; there no length hint is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class _Hinted:
    hint_calls = 0

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __length_hint__(self) -> int:
        self.hint_calls += 1
        return 0


_tried = _Hinted()
tuple(_tried)
_TUPLE_ASKS = _tried.hint_calls > 0  # until Python 3.13


def are_items_at_hand(iterable: VariableTracker) -> bool:
    """Whether all items are read at once, because reading one runs nothing of the program: those of a container of a C type."""
    return type(iterable).unpack is not VariableTracker.unpack


def each_item(ctx: TraceContext, iterable: VariableTracker, *, hinted: bool = False) -> Iterator[VariableTracker]:
    """The items one at a time, for a container that is filled while they are read: the program sees it grow, and if the next item
    raises, it keeps the items before. The items of a container of a C type are read at once: `x.extend(x)` ends.
    """
    if are_items_at_hand(iterable):
        yield from iterable.unpack(ctx)
        return
    iterator = iterable.iterate(ctx)
    if hinted:
        iterable.length_hint(ctx)
    while (item := iterator.next_item(ctx)) is not None:
        yield item


def list_items(ctx: TraceContext, iterable: VariableTracker) -> list[VariableTracker]:
    """The items, read as PySequence_List reads them."""
    return list(each_item(ctx, iterable, hinted=True))


def tuple_items(ctx: TraceContext, iterable: VariableTracker) -> list[VariableTracker]:
    """The items, read as PySequence_Tuple reads them."""
    return list_items(ctx, iterable) if _TUPLE_ASKS else iterable.unpack(ctx)


def fast_items(ctx: TraceContext, iterable: VariableTracker) -> list[VariableTracker]:
    """The items, read as PySequence_Fast reads them."""
    if type_of(iterable) in (list, tuple):
        return iterable.unpack(ctx)
    return list_items(ctx, iterable.iterate(ctx))


def first_items(ctx: TraceContext, iterator: VariableTracker, most: int) -> list[VariableTracker]:
    """The next items of an iterator, so many at most."""
    items: list[VariableTracker] = []
    while len(items) < most and (item := iterator.next_item(ctx)) is not None:
        items.append(item)
    return items
