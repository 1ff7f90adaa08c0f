"""The order in which the members of a set come: CPython's own, whatever the set went through."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch

import dynexplore
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
