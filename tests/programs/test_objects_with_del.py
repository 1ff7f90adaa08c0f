"""Objects with a `__del__` are made for real, and go when the program lets them go."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(2)
LOG: list[Any] = []


class Resource:
    def __init__(self, k: int = 1) -> None:
        self.k = k

    def __del__(self) -> None:
        LOG.append(("gone", self.k))


class Derived(Resource):
    pass


class Layer(torch.nn.Module):
    def __del__(self) -> None:
        LOG.append("layer")


class Mapping(dict):
    def __del__(self) -> None:
        LOG.append("mapping")


def dropped_at_once(x):
    Resource()
    LOG.append("after")
    return x * 2


def deleted(x):
    made = Derived(3)
    x = x * made.k
    del made
    LOG.append("after")
    return x + 1


def rebound(x):
    made = Resource(1)
    made = Resource(2)
    LOG.append("between")
    x = x * made.k
    made = None
    LOG.append(made)
    return x


def of_a_module(x):
    Layer()
    LOG.append("after")
    return x + 1


def of_a_dict(x):
    Mapping()
    LOG.append("after")
    return x + 1


def by_its_new(x):
    Resource.__new__(Resource).k = 5
    LOG.append("after")
    return x + 1


def uses(x):
    with_one = Resource(4)
    return x * with_one.k


def in_a_callee(x):
    x = uses(x + 1)
    LOG.append("after")
    return x * 2


def in_a_callee_twice(x):
    for _ in range(2):
        x = uses(x) + 1
        LOG.append("after")
    return x


def raises_with_one(x):
    try:
        made = Resource(6)
        raise ValueError(made.k)
    except ValueError as error:
        x = x * error.args[0]
        del made
    LOG.append("after")
    return x


WITHIN = [dropped_at_once, deleted, rebound, of_a_module, of_a_dict, by_its_new, raises_with_one]


@pytest.mark.parametrize("fn", WITHIN, ids=lambda fn: fn.__name__)
def test_it_goes_when_the_frame_lets_it_go(fn: Any) -> None:
    """A frame that makes one runs plain: a resume function's arguments would live as long as its call."""
    assert_same_as_eager(fn, X, calls=2, setup=LOG.clear, observe=lambda: list(LOG), graphs=0)


@pytest.mark.parametrize("fn", [in_a_callee, in_a_callee_twice], ids=lambda fn: fn.__name__)
def test_the_caller_of_such_a_frame_is_captured(fn: Any) -> None:
    """The frame that makes it runs plain, the one that calls it breaks there and goes on."""
    assert_same_as_eager(fn, X, calls=2, setup=LOG.clear, observe=lambda: list(LOG), graphs=2)


def holds_given(x, given):
    return x * given.k


def test_one_that_is_given_is_read_like_any_object() -> None:
    """Only making one breaks the graph."""
    given = Resource(3)
    assert_same_as_eager(lambda x: holds_given(x, given), X, graphs=1, breaks=0)


class Plain:
    k = 3


def with_a_callback(x):
    made = Plain()
    kept = weakref.ref(made, lambda _: LOG.append("gone"))
    x = x * made.k
    del made
    return x + len(LOG), kept() is None


def with_a_finalizer(x):
    made = Plain()
    weakref.finalize(made, LOG.append, "gone")
    x = x * made.k
    del made
    return x + len(LOG)


def behind_a_proxy(x):
    made = Plain()
    proxy = weakref.proxy(made, lambda _: LOG.append("gone"))
    x = x * proxy.k
    made = None
    return x + len(LOG)


def as_a_weak_key(x):
    keys, made = weakref.WeakKeyDictionary(), Plain()
    keys[made] = 1
    x = x * len(keys)
    made = None
    return x + len(keys)


def as_a_weak_value(x):
    values, made = weakref.WeakValueDictionary(), Plain()
    values["k"] = made
    x = x * len(values)
    del made
    return x + len(values)


WEAKLY = [with_a_callback, with_a_finalizer, behind_a_proxy, as_a_weak_key, as_a_weak_value]


@pytest.mark.parametrize("fn", WEAKLY, ids=lambda fn: fn.__name__)
def test_one_that_is_referred_to_weakly_goes_when_the_frame_lets_it_go(fn: Any) -> None:
    """Also where the weak reference is made in a function that the frame calls."""
    assert_same_as_eager(fn, X, calls=2, setup=LOG.clear, observe=lambda: list(LOG), graphs=0)
