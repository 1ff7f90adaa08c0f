"""Lists and tuples as trackers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine.variables.fake_context import FakeContext, plain, raised

from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import NotConstant
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable

pytestmark = pytest.mark.plain("asks trackers in a context without translator")


def test_an_existing_list_guards_type_and_length_and_reads_items_late() -> None:
    """Building a list costs a guard on its type, looking into it one on its length; an item costs its own when it is read."""
    ctx = FakeContext()
    items = ctx.argument([1, "two"])
    assert ctx.guards == [("arg", "TYPE_MATCH")]
    assert isinstance(items.items[1], LazyVariable)
    assert ctx.guards[1:] == [("arg", "LIST_LENGTH")]
    assert plain(ctx, items.get_item(ctx, ConstantVariable(1))) == "two"
    assert ctx.guards[2:] == [("arg[1]", "EQUALS")]


def test_one_tracker_per_live_list() -> None:
    """The same live list met twice is the same tracker."""
    ctx = FakeContext()
    inner = [1]
    outer = ctx.argument([inner, inner])
    first, second = outer.unpack(ctx)
    assert first is second


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("append", 9), [1, 2, 3, 9]), (("insert", 0, 9), [9, 1, 2, 3]), (("extend", (8, 9)), [1, 2, 3, 8, 9]),
        (("pop",), [1, 2]), (("pop", 0), [2, 3]), (("remove", 2), [1, 3]), (("reverse",), [3, 2, 1]), (("clear",), []),
        (("__setitem__", 0, 9), [9, 2, 3]), (("__delitem__", -1), [1, 2]), (("__setitem__", slice(1, None), (7,)), [1, 7]),
        (("__iadd__", [4]), [1, 2, 3, 4]), (("__imul__", 2), [1, 2, 3, 1, 2, 3]), (("sort",), [1, 2, 3]),
    ],
    ids=str,
)  # fmt: skip
def test_a_change_is_noted_and_made_in_place(change: tuple[Any, ...], expected: list[int]) -> None:
    """Each changing method tells the journal and changes the tracker, and the live list stays as it is."""
    ctx = FakeContext()
    live = [1, 2, 3]
    items = ctx.argument(live)
    ctx.method(items, *change)
    assert plain(ctx, items) == expected
    assert live == [1, 2, 3]
    assert ctx.journal.is_changed(items)
    assert len(ctx.changes) == 1


def test_reading_is_no_change() -> None:
    """Methods that only look leave the journal empty."""
    ctx = FakeContext()
    items = ctx.argument([1, 2, 2])
    assert ctx.method(items, "count", 2) == 2
    assert ctx.method(items, "index", 2) == 1
    assert ctx.method(items, "copy") == [1, 2, 2]
    assert not ctx.journal.changed


def test_a_list_made_here_is_not_replayed() -> None:
    """A change of a list without a source is seen, but leaves nothing to replay."""
    ctx = FakeContext()
    items = ctx.made([1])
    ctx.method(items, "append", 2)
    assert ctx.changes == ["append"]
    assert not ctx.journal.changed


def test_tuples_of_constants_are_constants() -> None:
    """A tuple is a constant when all its items are, and a key equal to any equal tuple."""
    ctx = FakeContext()
    made = ctx.made((1, (True, "a")))
    assert made.as_constant() == (1, (True, "a"))
    assert made.hash_key(ctx) == ctx.made((1.0, (1, "a"))).hash_key(ctx)
    with pytest.raises(NotConstant):
        TupleVariable([ListVariable([])]).as_constant()


def test_lists_cannot_be_hashed() -> None:
    """A list as a key raises what Python raises."""
    ctx = FakeContext()
    with pytest.raises(ObservedException) as error:
        ctx.made([1]).hash_key(ctx)
    assert raised(error.value) == "TypeError: unhashable type: 'list'"


@pytest.mark.parametrize(
    ("symbol", "left", "right", "expected"),
    [
        ("==", [1, 2], [1, 2.0], True), ("!=", [1], [1, 2], True), ("<", [1, 2], [1, 3], True), (">=", (1,), (1,), True),
        ("==", [1], (1,), False), ("<", (), (0,), True), ("==", [[1], ()], [[1], ()], True), ("==", [], None, False),
    ],
    ids=str,
)  # fmt: skip
def test_comparisons(symbol: str, left: Any, right: Any, expected: bool) -> None:
    """Sequences are compared item by item, as in Python."""
    ctx = FakeContext()
    assert compare(ctx, symbol, ctx.made(left), ctx.made(right)).as_constant() is expected


@pytest.mark.parametrize(
    ("symbol", "left", "right"),
    [("+", [1], (2,)), ("+", (1,), [2]), ("*", [1], "a"), ("-", [1], [1]), ("<", [1], 1), ("+", [1], None), ("@", (), ())],
    ids=str,
)
def test_operands_that_do_not_fit_raise_pythons_error(symbol: str, left: Any, right: Any) -> None:
    """The message is the one that Python gives."""
    from dynexplore.engine.variables.operators import BINARY, COMPARE

    ctx = FakeContext()
    with pytest.raises(TypeError) as expected:
        {**BINARY, **COMPARE}[symbol](left, right)
    with pytest.raises(ObservedException) as found:
        (compare if symbol in COMPARE else binary)(ctx, symbol, ctx.made(left), ctx.made(right))
    assert raised(found.value) == f"TypeError: {expected.value}"


def test_an_item_that_is_no_index_breaks_or_raises() -> None:
    """An index that Python refuses raises; one that only the graph knows breaks the graph."""
    ctx = FakeContext()
    items = ctx.made([1])
    with pytest.raises(ObservedException) as error:
        items.get_item(ctx, ctx.made("a"))
    assert raised(error.value) == "TypeError: list indices must be integers or slices, not str"
    with pytest.raises(GraphBreak):
        items.get_item(ctx, ctx.made(object()))


def test_sizes_stay_sizes() -> None:
    """Slices, sums and products of a torch.Size are torch.Sizes."""
    ctx = FakeContext()
    size = ctx.made(torch.Size([2, 3]))
    assert size.as_constant() == torch.Size([2, 3])
    for made in (
        size.get_item(ctx, ctx.made(slice(1, None))), binary(ctx, "+", size, ctx.made((1,))), binary(ctx, "*", size, ctx.made(2))
    ):  # fmt: skip
        assert made.python_type() is torch.Size
    assert ctx.method(size, "numel") == 6


def test_what_goes_into_the_graph() -> None:
    """Lists and tuples become the same nest of arguments."""
    ctx = FakeContext()
    nest = ctx.argument([1, (2, [3])])
    nest.read_items(ctx)
    assert nest.as_proxy() == [1, (2, [3])]
