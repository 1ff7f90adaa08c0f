"""A dict or a set that has as many keys as before, but others, while it is walked: what comes next is CPython's to say."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)


def walked(x: Any, things: Any, change: Any, walk: Any = iter) -> Any:
    seen: list[Any] = []
    try:
        for thing in walk(things):
            seen.append(thing)
            x = x * 2
            if len(seen) == 1:
                change(things)
    except RuntimeError as error:
        return x, seen, str(error), things
    return x, seen, "", things


def first_replaced(things: Any) -> None:
    del things[1]
    things[50] = 0


def later_one_to_the_end(things: Any) -> None:
    things[2] = things.pop(2)


def last_one_replaced(things: Any) -> None:
    del things[3]
    things[1] = 7
    things["new"] = 0


def member_replaced(things: Any) -> None:
    things.discard(3)
    things.add(100)


def only_one_replaced(things: Any) -> None:
    del things["only"]
    things["new"] = 0


def cleared_and_filled(things: Any) -> None:
    things.clear()
    things["new"] = 0


CHANGES = [
    (only_one_replaced, lambda: {"only": 1}),
    (cleared_and_filled, lambda: {"only": 1}),
    *[(change, lambda: {1: 1, 2: 2, 3: 3}) for change in (first_replaced, later_one_to_the_end, last_one_replaced)],
    (member_replaced, lambda: {1, 2, 3}),
]  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize(("change", "make"), CHANGES, ids=lambda value: value.__name__ if value.__name__ != "<lambda>" else "")
def test_a_walk_goes_on_as_in_cpython(change: Any, make: Any, inside: bool) -> None:
    """CPython finds a key that was put behind the others, and says that keys have changed; of a set it may give new members.

    A dict that was cleared is walked no further: the first place is behind the walk.
    """

    def program(x: Any, things: Any) -> Any:
        return walked(x, make() if inside else things, change)

    assert_same_as_eager(program, X, make())


def last_taken_out_and_put_back(things: Any) -> None:
    things["c"] = things.pop("c")


def first_taken_out_and_put_back(things: Any) -> None:
    things["a"] = things.pop("a")


def last_moved_to_where_it_is(things: Any) -> None:
    things.move_to_end("c")


def moved_there_and_back(things: Any) -> None:
    things.move_to_end("c", last=False)
    things.move_to_end("c")


def put_and_taken_out(things: Any) -> None:
    things["new"] = 1
    del things["new"]


def value_replaced(things: Any) -> None:
    things["b"] = things.setdefault("c", 8)


ORDER_CHANGES = [
    last_taken_out_and_put_back, first_taken_out_and_put_back, last_moved_to_where_it_is, moved_there_and_back, put_and_taken_out,
    value_replaced, OrderedDict.clear, OrderedDict.popitem, lambda things: torch._dynamo.graph_break(),
]  # fmt: skip


class Named(OrderedDict):  # type: ignore[type-arg]
    """A class of the program's own, as model outputs are."""


@pytest.mark.parametrize("made_by", [OrderedDict, Named])
@pytest.mark.parametrize("walk", [OrderedDict.keys, OrderedDict.values, OrderedDict.items, reversed])
@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize("change", ORDER_CHANGES, ids=lambda change: change.__name__)
def test_an_ordered_dict_notices_that_its_order_was_changed_and_restored(
    change: Any, inside: bool, walk: Any, made_by: Any
) -> None:
    """What counts is that its order was changed, not what it is now; a value that is replaced is no change of order."""

    def program(x: Any, things: Any) -> Any:
        return walked(x, made_by(a=1, b=2, c=3) if inside else things, change, walk)

    assert_same_as_eager(program, X, made_by(a=1, b=2, c=3))


@pytest.mark.parametrize("change", ORDER_CHANGES, ids=lambda change: change.__name__)
def test_a_walk_that_a_break_lies_in_notices_it_too(change: Any) -> None:
    """The real dict, whose order is what it was before, is told that it was another meanwhile."""

    def program(x: Any, things: Any) -> Any:
        walk = iter(things)
        seen = [next(walk)]
        print("in a walk")
        change(things)
        x = x * 2
        print("changed")
        try:
            seen.extend(walk)
        except RuntimeError as error:
            return x, seen, str(error), things
        return x, seen, "", things

    assert_same_as_eager(program, X, OrderedDict(a=1, b=2, c=3))


def popped(things: Any, key: Any, meanwhile: Any) -> None:
    value = things.pop(key)
    meanwhile()
    things[key] = value


def deleted(things: Any, key: Any, meanwhile: Any) -> None:
    value = things[key]
    del things[key]
    meanwhile()
    things.setdefault(key, value)


def popped_as_the_last_one(things: Any, key: Any, meanwhile: Any) -> None:
    last, value = things.popitem()
    meanwhile()
    things[last] = value


def all_taken_out(things: Any, key: Any, meanwhile: Any) -> None:
    values = [(one, things.pop(one)) for one in list(things)]
    meanwhile()
    for one, value in values:
        things[one] = value


def emptied_and_updated(things: Any, key: Any, meanwhile: Any) -> None:
    others = {one: things.pop(one) for one in list(things)}
    meanwhile()
    things.update(others)


class OwnDict(dict):  # type: ignore[type-arg]
    """A class of the program's own."""


PUT_BACK = [popped, deleted, popped_as_the_last_one, all_taken_out, emptied_and_updated]
MADE_BY = [dict, OwnDict, functools.partial(defaultdict, int)]


@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize("break_at", ["nowhere", "the change", "each step"])
@pytest.mark.parametrize("make", MADE_BY, ids=["dict", "own dict", "defaultdict"])
@pytest.mark.parametrize("change", PUT_BACK, ids=lambda change: change.__name__)
def test_a_key_that_is_put_back_where_it_was_stands_behind_all_places(change: Any, make: Any, break_at: str, inside: bool) -> None:
    """CPython counts places: it finds the key again, or says that keys have changed; `popitem` alone gives its place back."""

    def program(x: Any, at: int, things: Any) -> Any:
        own, seen = make(**things) if inside else things, []
        try:
            for key in own:
                seen.append(key)
                x = x * 2
                if len(seen) == at:
                    change(own, key, torch._dynamo.graph_break if break_at == "the change" else bool)
                if break_at == "each step":
                    torch._dynamo.graph_break()
        except RuntimeError as error:
            return x, seen, str(error), own
        return x, seen, own

    for things in ({"a": 1, "b": 2, "c": 3}, {"a": 1}):
        assert_same_as_eager(program, X, len(things), make(**things))
    assert_same_as_eager(program, X, 1, make(a=1, b=2, c=3))


class Growing(OrderedDict[Any, Any]):
    """Asking for an item adds one. (To take one out crashes CPython itself before 3.14.8.)"""

    def __getitem__(self, key: Any) -> Any:
        self.setdefault(9, key)
        return key


def test_an_ordered_dict_that_changes_while_it_is_copied() -> None:
    """`OrderedDict.copy` asks a `__getitem__` of the program: one Python copies the new item, too, another raises."""

    def copies(x: torch.Tensor) -> Any:
        items = Growing([(1, 2)])
        try:
            return x + 1, list(items.copy()), len(items)
        except (KeyError, RuntimeError) as error:
            return x + 1, repr(error), len(items)

    assert_same_as_eager(copies, torch.ones(2))


def emptied_key_by_key(things: Any) -> None:
    for key in list(things):
        things.pop(key)


def emptied_from_behind(things: Any) -> None:
    while things:
        things.popitem()


REFILLS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda things, x: things.update({"new": x}),
    "update with keywords": lambda things, x: things.update({"new": x}, more=x),
    "update with pairs": lambda things, x: things.update([("new", x)]),
    "or": lambda things, x: things.__ior__({"new": x}),
    "item": lambda things, x: things.__setitem__("new", x),
}


@pytest.mark.parametrize("where", ["between", "after"])
@pytest.mark.parametrize("make", MADE_BY, ids=["dict", "own dict", "defaultdict"])
@pytest.mark.parametrize("refill", REFILLS.values(), ids=REFILLS)
@pytest.mark.parametrize("empty", [emptied_key_by_key, emptied_from_behind, dict.clear], ids=lambda empty: empty.__name__)
def test_a_dict_emptied_before_a_graph_break_and_filled_after_it(empty: Any, refill: Any, make: Any, where: str) -> None:
    """An update may take over the places of the other dict, and the loop then ends; puts leave the empty places in front."""

    def program(x: Any, things: Any) -> Any:
        seen = []
        try:
            for key in things:
                seen.append(key)
                empty(things)
                if where == "between":
                    torch._dynamo.graph_break()
                refill(things, x)
                if where == "after":
                    torch._dynamo.graph_break()
                if len(seen) == 4:
                    break
        except RuntimeError as error:
            return x * 2, seen, str(error), things
        return x * 2, seen, things

    for things in ({"a": 1}, {"a": 1, "b": 2}, {"a": 1}):
        assert_same_as_eager(program, X, make(**things))


@pytest.mark.parametrize("walk", [iter, reversed])
@pytest.mark.parametrize("view", ["", ".keys()", ".values()", ".items()"])
@pytest.mark.parametrize("removed", ["range(7)", "range(1, 10)", "range(3, 9)"])
@pytest.mark.parametrize("change", ["clear(); things[0] = 0", "clear(); things.update(new); [things.pop(k) for k in range(3, 10)]"])
def test_a_dict_of_this_frame_with_empty_positions(walk: Any, view: str, removed: str, change: str) -> None:
    """Keys were removed before the walk begins: an iterator counts the positions that they leave empty."""
    names: dict[str, Any] = {"walk": walk, "new": dict.fromkeys(range(10))}
    lines = (
        f"things = dict.fromkeys(range(10))\n    for k in {removed}: del things[k]\n    walked = walk(things{view}); next(walked)\n"
        f"    things.{change}\n    x = x * 2\n"
        "    try: seen = list(walked)\n    except RuntimeError as error: seen = str(error)\n    return x, seen, things"
    )
    exec(f"def program(x):\n    x = x + 1\n    {lines}\n", names)
    assert_same_as_eager(names["program"], X, calls=2)
