"""Sets as trackers."""

from __future__ import annotations

from typing import Any

import pytest
from engine.variables.fake_context import FakeContext, plain, raised

from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.operators import binary, compare

pytestmark = pytest.mark.plain("asks trackers in a context without translator")


def test_an_existing_set_guards_its_content_and_its_order_when_walked() -> None:
    """Building a set costs two guards; only walking it relies on the order."""
    ctx = FakeContext()
    s = ctx.argument({1, 2})
    assert ctx.guards == [("arg", "TYPE_MATCH"), ("arg", "SET_CONTENT")]
    s.iterate(ctx)
    assert ctx.guards[2:] == [("arg", "DICT_KEYS")]


SETS = [{5, 1, 33, 9, 2}, {"b", "a", "c"}, {1.5, None, (1, 2)}, frozenset({10, 3})]


@pytest.mark.parametrize("members", SETS, ids=["ints", "texts", "mixed", "frozen"])
def test_constants_are_walked_in_pythons_order(members: Any) -> None:
    """Members that are constants come in the order in which this very set gives them."""
    ctx = FakeContext()
    assert [plain(ctx, item) for item in ctx.argument(members).unpack(ctx)] == list(members)


@pytest.mark.parametrize("symbol", ["|", "&", "-", "^"])
@pytest.mark.parametrize(("left", "right"), [({1, 2}, {2, 3}), (frozenset({1}), {1, 2}), ({1}, frozenset())], ids=str)
def test_algebra(symbol: str, left: Any, right: Any) -> None:
    """Set algebra gives Python's result, of the left side's type."""
    from dynexplore.engine.variables.operators import BINARY

    ctx = FakeContext()
    expected = BINARY[symbol](left, right)
    made = binary(ctx, symbol, ctx.made(left), ctx.made(right))
    assert plain(ctx, made) == expected
    assert made.python_type() is type(expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("add", 9), {1, 2, 9}), (("discard", 1), {2}), (("remove", 1), {2}), (("update", [3]), {1, 2, 3}), (("clear",), set()),
        (("difference_update", {1}), {2}), (("intersection_update", [1]), {1}), (("__ior__", {5}), {1, 2, 5}),
    ],
    ids=str,
)  # fmt: skip
def test_a_change_is_noted_and_made_in_place(change: tuple[Any, ...], expected: set[int]) -> None:
    """Each changing method tells the journal and changes the tracker, and the live set stays as it is."""
    ctx = FakeContext()
    live = {1, 2}
    s = ctx.argument(live)
    ctx.method(s, *change)
    assert plain(ctx, s) == expected
    assert live == {1, 2}
    assert ctx.journal.is_changed(s)


def test_pop_takes_what_python_takes() -> None:
    """`pop` of a set of constants takes the member that Python takes."""
    ctx = FakeContext()
    live = {7, 3, 99}
    s = ctx.argument(live)
    assert [ctx.method(s, "pop") for _ in range(3)] == [live.pop() for _ in range(3)]
    with pytest.raises(ObservedException) as error:
        ctx.method(s, "pop")
    assert raised(error.value) == "KeyError: pop from an empty set"


def test_a_set_finds_a_frozenset() -> None:
    """A set as a member that is looked for stands for a frozenset."""
    ctx = FakeContext()
    s = ctx.made({frozenset({1})})
    assert s.contains(ctx, ctx.made({1})).as_constant() is True
    assert compare(ctx, "==", s, ctx.made({frozenset({1.0})})).as_constant() is True


def test_growing_while_walked_raises() -> None:
    """A set that grew raises when its iterator is asked for more."""
    ctx = FakeContext()
    s = ctx.made({1, 2})
    iterator = s.iterate(ctx)
    iterator.next_item(ctx)
    ctx.method(s, "add", 3)
    with pytest.raises(ObservedException) as error:
        iterator.next_item(ctx)
    assert raised(error.value) == "RuntimeError: Set changed size during iteration"
