"""A dict or a set that has as many keys as before, but others, while it is walked: what comes next is CPython's to say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)


def walked(x: Any, things: Any, change: Any) -> Any:
    seen: list[Any] = []
    try:
        for thing in things:
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


CHANGES = [
    *[(change, lambda: {1: 1, 2: 2, 3: 3}) for change in (first_replaced, later_one_to_the_end, last_one_replaced)],
    (member_replaced, lambda: {1, 2, 3}),
]  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize(("change", "make"), CHANGES, ids=lambda value: value.__name__ if value.__name__ != "<lambda>" else "")
def test_a_walk_goes_on_as_in_cpython(change: Any, make: Any, inside: bool) -> None:
    """CPython finds a key that was put behind the others, and says that keys have changed; of a set it may give new members."""

    def program(x: Any, things: Any) -> Any:
        return walked(x, make() if inside else things, change)

    assert_same_as_eager(program, X, make())
