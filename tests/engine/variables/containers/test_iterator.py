"""Iterators as trackers: plain ones, those made of others, those of itertools."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
from engine.variables.fake_context import Call, FakeContext, plain

from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.variables.containers.iterator import iterator_at, reversed_iterator_at
from dynexplore.engine.variables.scalars.constant import ConstantVariable

pytestmark = pytest.mark.plain("asks trackers in a context without translator")


def test_a_list_iterator_sees_later_changes() -> None:
    """An iterator walks the list as it is at each step; once exhausted it stays so."""
    ctx = FakeContext()
    items = ctx.made([1])
    iterator = items.iterate(ctx)
    assert plain(ctx, iterator.next_item(ctx)) == 1
    ctx.method(items, "append", 2)
    assert plain(ctx, iterator.next_item(ctx)) == 2
    assert iterator.next_item(ctx) is None
    ctx.method(items, "append", 3)
    assert iterator.next_item(ctx) is None


def test_an_existing_iterator_is_looked_into() -> None:
    """Items that lie ahead are guarded one by one, the end is a guard, and the real iterator does not move."""
    ctx = FakeContext()
    live = iter([5, 6, 7])
    next(live)
    iterator = ctx.argument(live)
    assert [plain(ctx, iterator.next_item(ctx)) for _ in range(2)] == [6, 7]
    assert ctx.guards == [
        ("arg", "TYPE_MATCH"), ("the list of (arg)", "TYPE_MATCH"), ("arg", "ITERATOR_HAS_MORE"),
        ("item 0 of (arg)", "EQUALS"), ("item 1 of (arg)", "EQUALS"),
    ]  # fmt: skip
    assert iterator.next_item(ctx) is None
    assert ctx.guards[-1] == ("arg", "ITERATOR_REMAINING")
    assert ctx.journal.is_changed(iterator)
    assert list(live) == [6, 7]


def test_an_existing_zip_and_enumerate_are_looked_into() -> None:
    """enumerate and zip over plain iterators give items with sources too."""
    ctx = FakeContext()
    live = enumerate(zip([1, 2], "ab"), 5)
    next(live)
    iterator = ctx.argument(live)
    assert plain(ctx, iterator.next_item(ctx)) == (6, (2, "b"))
    assert iterator.next_item(ctx) is None
    assert next(live) == (6, (2, "b"))


def test_a_list_changed_while_an_existing_iterator_walks_it_breaks_the_graph() -> None:
    """What the list has become is not what its real iterator sees."""
    ctx = FakeContext()
    live = [1, 2]
    items, iterator = ctx.argument(live, "items"), ctx.argument(iter(live), "iterator")
    iterator.next_item(ctx)
    ctx.method(items, "append", 3)
    with pytest.raises(GraphBreak, match="changed since"):
        iterator.next_item(ctx)


def test_an_existing_iterator_of_another_kind_breaks_the_graph() -> None:
    """Only Python can step an iterator over a set, or a generator."""
    ctx = FakeContext()
    for live in (iter({1}), (n for n in [1]), map(str, [1])):
        iterator = ctx.argument(live, type(live).__name__)
        assert iterator.iterate(ctx) is iterator
        with pytest.raises(GraphBreak, match="iteration"):
            iterator.next_item(ctx)


@pytest.mark.parametrize("index", [0, 1, 3])
@pytest.mark.parametrize("walked", [[1, 2, 3], (1, 2, 3), range(3), "abc", {"a": 1, "b": 2, "c": 3}, {1, 2, 3}], ids=str)
def test_an_iterator_is_made_again_at_its_place(walked: Any, index: int) -> None:
    """`iterator_at` gives an iterator that has given so many items already."""
    assert list(iterator_at(walked, index)) == list(walked)[index:]


@pytest.mark.parametrize("walked", [[1, 2, 3], (1, 2, 3), {"a": 1, "b": 2, "c": 3}], ids=str)
def test_a_reversed_iterator_is_made_again_at_its_place(walked: Any) -> None:
    """`reversed_iterator_at` gives one whose next item is the one at the index."""
    assert list(reversed_iterator_at(walked, 1)) == list(walked)[1::-1]


BUILTINS = [
    (enumerate, ["ab", 3]), (zip, ["abc", [1, 2]]), (reversed, [[1, 2]]), (itertools.chain, ["ab", [1]]),
    (itertools.islice, ["abcdef", 1, 5, 2]), (itertools.islice, ["abc", 2]), (itertools.repeat, ["a", 2]),
    (itertools.accumulate, [[1, 2, 3]]), (itertools.pairwise, ["abc"]), (itertools.product, ["ab", [1, 2]]),
    (itertools.permutations, ["abc", 2]), (itertools.combinations, ["abc", 2]), (itertools.compress, ["abc", [1, 0, 1]]),
    (itertools.zip_longest, ["ab", [1]]), (itertools.islice, ["abc", 5, 2]), (itertools.combinations_with_replacement, ["ab", 2]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), BUILTINS, ids=lambda value: getattr(value, "__name__", None))
def test_items_are_pythons(function: Any, args: list[Any]) -> None:
    """Each of these iterators gives what the real one gives, and has its type."""
    ctx = FakeContext()
    made = ctx.call(function, *map(ctx.made, args))
    assert made.python_type() is type(function(*args))
    assert [plain(ctx, item) for item in made.unpack(ctx)] == [
        list(item) if isinstance(item, list) else item for item in function(*args)
    ]


def test_infinite_iterators_are_lazy() -> None:
    """count, cycle and repeat give one item after the other, for ever."""
    ctx = FakeContext()
    for function, args in ((itertools.count, [5, 2]), (itertools.cycle, ["ab"]), (itertools.repeat, [1])):
        made, real = ctx.call(function, *map(ctx.made, args)), function(*args)
        assert [plain(ctx, made.next_item(ctx)) for _ in range(5)] == list(itertools.islice(real, 5))


def test_functions_are_called_when_an_item_is_asked_for() -> None:
    """map and filter call their function for each item, not before."""
    ctx = FakeContext()
    calls: list[int] = []

    def note(value: int) -> bool:
        calls.append(value)
        return value % 2 == 0

    mapped = ctx.call(map, Call(ctx, note), ctx.made([1, 2]))
    filtered = ctx.call(filter, Call(ctx, note), ctx.made([1, 2, 3, 4]))
    assert calls == []
    assert plain(ctx, mapped.next_item(ctx)) is False
    assert plain(ctx, filtered.next_item(ctx)) == 2
    assert calls == [1, 1, 2]


def test_a_shared_iterator_is_stepped_by_both() -> None:
    """zip over the same iterator twice takes its items in turn."""
    ctx = FakeContext()
    iterator = ctx.made([1, 2, 3, 4]).iterate(ctx)
    assert plain(ctx, ctx.call(zip, iterator, iterator)) == [(1, 2), (3, 4)]


def test_reductions() -> None:
    """starmap, takewhile, dropwhile and accumulate with a function."""
    ctx = FakeContext()
    small = Call(ctx, lambda value: value < 3)
    numbers = ctx.made([1, 2, 3, 1])
    assert plain(ctx, ctx.call(itertools.takewhile, small, numbers)) == [1, 2]
    assert plain(ctx, ctx.call(itertools.dropwhile, small, numbers)) == [3, 1]
    assert plain(ctx, ctx.call(itertools.filterfalse, small, numbers)) == [3]
    assert plain(ctx, ctx.call(itertools.starmap, ctx.made(operator.mul), ctx.made([(2, 3)]))) == [6]
    assert plain(ctx, ctx.call(itertools.accumulate, numbers, ctx.made(operator.mul), initial=ConstantVariable(2))) == [
        2, 2, 4, 12, 12,
    ]  # fmt: skip
