"""Iterators of itertools: what they take from their input, and when; what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.ones(3)


def tee_takes_items_as_they_are_asked_for(x):
    taken = []

    def items():
        for item in range(3):
            taken.append(item)
            yield item

    first, second = itertools.tee(items())
    before = len(taken)
    item = next(first)
    return x + 1, before, item, len(taken), list(second), list(first)


def tee_of_a_list_that_grows(x):
    items = [1, 2]
    first, second = itertools.tee(items)
    items.append(3)
    of_first = list(first)
    items.append(4)
    return x + 1, of_first, list(second), list(first)


def tee_of_an_iterator_that_others_advance(x):
    walked = iter([1, 2, 3])
    first, second = itertools.tee(walked)
    return x + 1, next(walked), list(first), list(second)


def tee_of_tee(x):
    first, second = itertools.tee([1, 2, 3, 4])
    next(first)
    third, fourth = itertools.tee(first)
    return x + 1, next(third), next(first), third is first, list(fourth), list(second), list(third), type(first).__name__


def tee_of_what_raises(x):
    def items():
        yield 1
        raise ValueError("raised")

    first, second = itertools.tee(items())
    seen = [next(first)]
    for walked in (first, first, second, second, second):
        try:
            seen.append(next(walked))
        except (ValueError, StopIteration) as error:
            seen.append(repr(error))
    return x + 1, seen


def tee_of_tensors(x):
    first, second = itertools.tee([x, x + 1, x + 2])
    next(second)
    return sum(a * b for a, b in zip(first, second, strict=False))


@pytest.mark.parametrize(
    "program",
    [
        tee_takes_items_as_they_are_asked_for, tee_of_a_list_that_grows, tee_of_an_iterator_that_others_advance, tee_of_tee,
        tee_of_what_raises, tee_of_tensors,
    ],
)  # fmt: skip
def test_the_iterators_of_tee_share_what_they_take(program: Callable[..., Any]) -> None:
    """An item is taken when the first of them asks for it, and once."""
    assert_same_as_eager(program, X, graphs=1, breaks=0, calls=2)


def test_tee_over_a_graph_break() -> None:
    """The iterators share their input behind the break, too."""

    def program(x, items):
        first, second, third = itertools.tee(items, 3)
        before = next(first), next(first), next(second)
        x = x + 1
        dynexplore.graph_break()
        x = x * 2
        behind = next(third), next(items), next(second)
        dynexplore.graph_break()
        return x + 1, before, behind, list(first), list(second), list(third), list(items)

    assert_same_as_eager(program, X, iter([1, 2, 3, 4, 5]), then=[(X, iter([5, 6, 7, 8]))])


@pytest.mark.parametrize("size", [-1, 0, 1, 5, 10**6, 10**20, 1.5, "x", None])
@pytest.mark.parametrize(
    "make",
    [
        lambda size: itertools.product("ab", repeat=size) if type(size) is not int or size < 10**6 else None,
        lambda size: itertools.permutations("abc", size),
        lambda size: itertools.combinations("abc", size),
        lambda size: itertools.combinations_with_replacement("a", size) if type(size) is not int or size < 10**6 else None,
        lambda size: itertools.tee("ab", size) if type(size) is not int or size < 10**6 else None,
        lambda size: itertools.islice("abc", size),
        lambda size: itertools.islice("abc", 0, 2, size),
        lambda size: itertools.repeat(1, size) if size != 10**6 else None,
        *([lambda size: itertools.batched("abc", size)] if hasattr(itertools, "batched") else []),  # Python 3.12
    ],
)  # fmt: skip
def test_sizes_that_are_refused(make: Callable[[Any], Any], size: object) -> None:
    """What the real function says of a size: an error of the program, never of the engine."""

    def program(x):
        try:
            iterator = make(size)
            seen = None if iterator is None else [item if isinstance(item, str | int | tuple) else list(item) for item in iterator]
        except (TypeError, ValueError, OverflowError) as error:
            seen = type(error).__name__, str(error)
        return x + 1, seen

    assert_same_as_eager(program, X, graphs=1, calls=2)


MADE_OF_THE_ITEM = {
    "count": "itertools.count(i)",
    "count_step": "itertools.count(1, i)",
    "repeat": "itertools.repeat(i)",
    "cycle": "itertools.cycle([i, -i])",
    "chain": "itertools.chain([i], [2])",
    "accumulate": "itertools.accumulate([1, 2], initial=i)",
    "islice": "itertools.islice(itertools.count(i), 1, 5)",
    "enumerate": "enumerate('ab', i)",
    "zip": "zip(itertools.count(i), itertools.repeat(i))",
    "map": "map(lambda a: a + i, [1, 2])",
    "filterfalse": "itertools.filterfalse(None, [0, i - i, i])",
    "zip_longest": "itertools.zip_longest('a', 'bc', fillvalue=i)",
}


@pytest.mark.parametrize("items", [(-3, 7, 2), [5, -8, 4, 1]], ids=["tuple", "list"])
@pytest.mark.parametrize("name", MADE_OF_THE_ITEM)
def test_an_iterator_made_of_the_item_of_a_loop_outlives_a_break(name: str, items: Any) -> None:
    """It is made after the loop's iterator was moved, of the item that was current before."""
    namespace: dict[str, Any] = {"itertools": itertools}
    source = (
        "def f(x, items):\n    seen = []\n    for i in items:\n"
        f"        iterator = {MADE_OF_THE_ITEM[name]}\n        print('between')\n        seen.append(next(iterator))\n"
        "        x = x + 1\n"
        "    return x, seen\n"
    )
    exec(source, namespace)
    assert_same_as_eager(namespace["f"], X, items, calls=2)


def group_advanced_by_its_comparison(x):
    class Key:
        def __init__(self, item):
            self.item = item

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            if compared == 1:
                next(group, None)
            return True

    compared = 0
    group = next(itertools.groupby(range(10), Key))[1]
    return x + 1, [next(group, None) for _ in range(3)], compared


def test_a_group_whose_comparison_advances_it_ends() -> None:
    """The item that `__eq__` has taken does not come again."""
    assert_same_as_eager(group_advanced_by_its_comparison, X, calls=2)
