"""Generators that are left in the middle of `try` or `with`: closed when they are thrown away, not when the frame returns."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

LOG: list[Any] = []
X = torch.ones(1)


class Logged:
    """Says when it is left, and with what."""

    def __enter__(self) -> None:
        LOG.append("enter")

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        LOG.append(("exit", kind and kind.__name__))


def inside_with(x):
    with Logged():
        yield x
        yield x + 1


def inside_try(x):
    try:
        yield x
        yield x + 1
    finally:
        LOG.append("closed")


def delegates(x):
    yield from inside_with(x)


def never_kept(x):
    x = next(inside_with(x))
    LOG.append("after")
    return x + 1


def deleted(x):
    made = inside_try(x)
    x = next(made)
    del made
    LOG.append("after")
    return x + 1


def replaced(x):
    made = inside_try(x)
    a = next(made)
    LOG.append("mid")
    made = inside_try(x + 2)
    LOG.append("after")
    return a + next(made)


def left_by_break(x):
    for v in inside_try(x):
        LOG.append("body")
        break
    LOG.append("after")
    return x + v


def left_by_an_exception(x):
    try:
        for _ in inside_try(x):
            raise ValueError
    except ValueError:
        LOG.append("handler")
    return x + 1


def delegated_and_left_by_an_exception(x):
    try:
        for _ in delegates(x):
            raise ValueError
    except ValueError:
        LOG.append("handler")
    return x + 1


def zipped(x):
    for _, b in zip(inside_try(x), [1], strict=False):
        LOG.append("body")
    LOG.append("after")
    return x + b


def zipped_and_deleted(x):
    both = zip(inside_try(x), inside_with(x), strict=True)
    a, b = next(both)
    del both
    LOG.append("after")
    return a + b


def asked_for_the_first(x):
    found = any(v.dim() > 0 for v in inside_try(x))
    LOG.append("after")
    return x, found


def searched(x):
    found = x in inside_try(x)
    LOG.append("after")
    return x + 1, found


def in_a_list(x):
    kept = [inside_try(x)]
    next(kept[0])
    kept.clear()
    LOG.append("after")
    return x + 1


def in_a_callee(x):
    def first(y):
        for v in inside_try(y):
            return v

    z = first(x)
    LOG.append("after")
    return z + first(x)


def after_a_break(x):
    print("p")
    made = inside_try(x)
    next(made)
    print("q")
    made = 3
    LOG.append("after")
    return x + made


@pytest.mark.parametrize("run", [
    never_kept, deleted, replaced, left_by_break, left_by_an_exception, delegated_and_left_by_an_exception, zipped,
    zipped_and_deleted, asked_for_the_first, searched, in_a_list, in_a_callee, after_a_break,
])  # fmt: skip
def test_a_generator_that_is_thrown_away_is_closed_at_once(run: Any) -> None:
    """Its `finally` and the exit of its `with` run where eager runs them: before what the function does next.

    A frame that makes such a generator itself runs plain; in a callee the graph breaks around it.
    """
    graphs = 1 if run is in_a_callee else 0
    assert_same_as_eager(run, X, then=[(X + 1,)], graphs=graphs, setup=LOG.clear, observe=lambda: list(LOG))
