"""Containers that live across a graph break: made again by the modified code, equal, shared and connected as they were."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from collections import OrderedDict, defaultdict, deque

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.arange(6.0).reshape(2, 3)
Point = collections.namedtuple("Point", "x y")
MAKERS = {
    "list": lambda x: [x, 1, [x]],
    "tuple": lambda x: (x, 1, ()),
    "constant_tuple": lambda x: (1, ("a", None)),
    "dict": lambda x: {"a": x, 2: {"b": [x]}, None: 1, (1, "t"): 2},
    "ordered_dict": lambda x: OrderedDict([("b", x), ("a", 1)]),
    "default_dict": lambda x: defaultdict(list, {"k": [x]}),
    "mapping_proxy": lambda x: types.MappingProxyType({"a": x}),
    "set": lambda x: {1, "a", (2, 3)},
    "frozenset": lambda x: frozenset({1, 2}),
    "set_of_tensors": lambda x: {x},
    "dict_by_tensor": lambda x: {x: 1},
    "deque": lambda x: deque([x, 2, 3], maxlen=2),
    "range": lambda x: range(1, 9, 2),
    "slice": lambda x: slice(1, None, x.shape[0]),
    "size": lambda x: x.shape,
    "named_tuple": lambda x: Point(x, y=[1]),
    "torch_result": lambda x: torch.max(x, 1),
    "partial": lambda x: functools.partial(operator.add, x),
    "partial_with_keywords": lambda x: functools.partial(torch.sum, dim=0),
    "item_getter": lambda x: operator.itemgetter(1, 0),
    "keys": lambda x: {"a": x, "b": 1}.keys(),
    "values": lambda x: {"a": x}.values(),
    "items": lambda x: {"a": 1, "b": x.shape}.items(),
    "text": lambda x: f"{x.shape}",
    "dtype": lambda x: [x.dtype, x.device],
    "nested": lambda x: {"l": [(x, {"d": deque([Point(1, 2)])})]},
    "products": lambda x: itertools.product([1, 2], repeat=2),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_new_container_survives_a_break(name: str) -> None:
    """What was made before a break is the same after it, in content, type and sharing."""
    make = MAKERS[name]

    def program(x):
        made = make(x + 1)
        both = [made, made]
        print("break")
        return made, both[0] is both[1], type(made).__name__, x * 2

    assert_same_as_eager(program, X)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "products"])
def test_an_argument_survives_a_break(name: str) -> None:
    """A container that came from outside stays this very object."""

    def program(x, given):
        y = x + 1
        kept = [given]
        print("break")
        return y * 2, kept[0] is given, given

    given = MAKERS[name](X + 1)
    assert_same_as_eager(program, X, given, breaks=["DX206"])


def test_changes_before_and_after_a_break() -> None:
    """Each side of a break sees the changes of the other, made to the same objects, once."""

    def program(x, items, table, members, queue):
        items.append(x + 1)
        table["new"] = items
        members.add("m")
        queue.appendleft(items)
        inner = {"shared": items}
        print(len(items), len(table), len(members), len(queue))
        items.append(2)
        inner["shared"].append(3)
        table.pop("old")
        members.discard("a")
        queue.pop()
        return inner, items is table["new"], queue[0] is items

    assert_same_as_eager(program, X, [0], {"old": 1}, {"a"}, deque([1, 2]), calls=2, setup=None)


def test_items_move_between_containers_before_a_break() -> None:
    """Values are fetched from where they were at entry, although that place holds something else by now."""

    def program(x, left, right):
        left[0], right["k"] = right["k"], left[0]
        left.append(left.pop(0))
        print("break")
        return x + 1, left, right

    assert_same_as_eager(program, X, [torch.ones(2), 1], {"k": torch.zeros(2)}, breaks=["DX206"])


def test_a_view_shows_changes_after_a_break() -> None:
    """A view that was taken before a break is still a view of the same dict after it."""

    def program(x):
        table = {"a": x}
        keys, items = table.keys(), table.items()
        print("break")
        table["b"] = 2
        return list(keys), len(items), x + 1

    assert_same_as_eager(program, X)


def test_a_closure_and_its_list() -> None:
    """A list that a nested function holds is the list that the frame holds, before and after a break."""

    def program(x):
        seen = []

        def note(value):
            seen.append(value)
            return len(seen)

        note(x)
        print("break")
        note(2)
        return seen, note(3), x * 2

    assert_same_as_eager(program, X)


def test_a_method_of_a_list_as_a_value() -> None:
    """A bound method of a list that was made before a break acts on that list after it."""

    def program(x):
        items = [x]
        put = items.append
        both = [put, put]
        print("break")
        put(1)
        both[1](2)
        return items, both[0] is both[1], x * 2

    assert_same_as_eager(program, X)
