"""The order in which the members of a set come: CPython's own, whatever the set went through."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import OrderedDict
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled
from grown_sets import grown_set


def filled(*changes: tuple[Any, Any]) -> Any:
    """A function that makes such a set anew in each call."""
    return functools.partial(grown_set, *changes)


MADE = {
    "few": filled(([0, 8, 16, 3], [])),
    "others": filled(([16, 8, 24, 1, 9], [])),
    "with gaps": filled(([64, 0, 8, 16, 24, 32, 40], [8, 32])),
    "once large": filled((range(0, 200, 8), range(0, 160, 8)), ([5, 13, 21], [])),
}
OPERANDS: dict[str, Any] = {
    "set": set, "frozenset": frozenset, "list": list, "dict": dict.fromkeys, "keys": lambda items: dict.fromkeys(items).keys(),
}  # fmt: skip
OF_SETS: dict[str, Any] = {
    **{name: lambda s, t, name=name: getattr(s, name)(t) for name in (
        "union", "intersection", "difference", "symmetric_difference", "update", "intersection_update", "difference_update",
        "symmetric_difference_update",
    )},
    "twice": lambda s, t: s.union(t, [72, 0]).difference(t, [8]).intersection(s, [3, 9, 0, 64]),
    "itself": lambda s, t: (s ^ s, s - s, s & s, s | s),
    "|": lambda s, t: s | set(t), "&": lambda s, t: s & set(t), "-": lambda s, t: s - set(t), "^": lambda s, t: s ^ frozenset(t),
    "|=": lambda s, t: s.__ior__(set(t)), "&=": lambda s, t: s.__iand__(set(t)), "-=": lambda s, t: s.__isub__(set(t)),
    "^=": lambda s, t: s.__ixor__(set(t)),
    "add": lambda s, t: [s.add(item) for item in (80, 8, 88)],
    "discard": lambda s, t: [s.discard(item) for item in (8, 16, 80)],
    "pop": lambda s, t: (s.pop(), s.pop()),
    "copy": lambda s, t: (s.copy(), set(s), frozenset(s), set(t), frozenset(t)),
}  # fmt: skip


def in_order(value: Any) -> Any:
    """Sets as lists."""
    return [in_order(item) for item in value] if isinstance(value, set | frozenset | tuple | list) else value


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("name", OF_SETS)
def test_the_order_of_members_with_colliding_hashes_is_that_of_the_table(name: str, kind: str) -> None:
    """While the frame runs, of what it returns, of a set that it changes, and after one more member."""
    operation, operand = OF_SETS[name], OPERANDS[kind]

    def program(x: torch.Tensor, left: Any, right: Any) -> Any:
        result = operation(left, right)
        return x + 1, result, list(left), [list(part) for part in result] if name == "copy" else None

    def all_orders(function: Any, left: Any, right: Any) -> Any:
        _, *results = function(torch.ones(2), left, right)
        now = in_order([*results, left])
        left.add(500)
        return now, list(left)

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(program)
    for first, second in itertools.permutations(MADE, 2):
        expected = all_orders(program, MADE[first](), operand(list(MADE[second]())))
        for _ in range(2):
            assert all_orders(compiled, MADE[first](), operand(list(MADE[second]()))) == expected
        dynexplore.reset()
    assert not dynexplore.counters["engine_error"]
    compiled(torch.ones(2), {1, 2}, operand([1]))
    assert dynexplore.counters["stats"]["graphs"]


def test_a_set_of_another_order_is_another_capture() -> None:
    """The content is the same, and what the frame leaves is in the order of the set that was given."""

    def program(x: torch.Tensor, members: set[int]) -> torch.Tensor:
        members |= {1}
        return x + 1

    compiled = dynexplore.optimize("eager")(program)
    for order in ([80, 144], [144, 80], [80, 144]):
        members, expected = set(order), set(order)
        compiled(torch.ones(2), members)
        program(torch.ones(2), expected)
        assert list(members) == list(expected)
    assert dynexplore.counters["stats"]["graphs"] == 2


PLACES = {
    "a": {8: 1, 0: 2, 16: 3, "a": 4}, "b": {16: 3, 0: 1, 8: 2, 24: 1}, "c": {24: 1}, "none": {}, "pairs": {0: 2, 64: 9, 32: 2},
}  # fmt: skip
SIDES: dict[str, Any] = {
    "keys": lambda d: d.keys(), "items": lambda d: d.items(), "set": set, "frozenset": frozenset, "list": list, "tuple": tuple,
    "items of an OrderedDict": lambda d: OrderedDict(d).items(), "dict": dict, "pairs": lambda d: set(d.items()),
    "doubled": lambda d: [*d, *d],
}  # fmt: skip


VIEWS = [side for side in SIDES if side.startswith(("keys", "items"))]
WITH_VIEW = [*itertools.product(VIEWS, SIDES), *itertools.product(("set", "frozenset", "pairs"), VIEWS)]


@pytest.mark.parametrize(("left", "right"), WITH_VIEW)
@pytest.mark.parametrize("live", [False, True])
def test_the_algebra_of_views_has_the_order_of_cpython(left: str, right: str, live: bool) -> None:
    """`&`, `|`, `-` and `^` where at least one side is a view of keys or items, over colliding numbers."""
    made, other = SIDES[left], SIDES[right]
    contents = list(itertools.product(PLACES.values(), repeat=2))
    operators = (operator.and_, operator.or_, operator.sub, operator.xor)
    if "frozenset" in (left, right):
        operators = operators[1:]  # `&` gives a set or a frozenset, and breaks

    def fn(x: torch.Tensor, given: Any) -> Any:
        results = []
        for one, another in given if live else [(dict(one), dict(another)) for one, another in given]:
            for operate in operators:
                results.append(in_order(operate(made(one), other(another))))
        return x + 1, results

    expected = fn(torch.ones(1), contents)[1]
    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(fn)
    for _ in range(2):
        assert optimized(torch.ones(1), contents)[1] == expected
    assert graphs_compiled()
