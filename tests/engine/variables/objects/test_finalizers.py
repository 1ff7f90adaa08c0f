"""Objects with a `__del__` are made for real, and go when the program lets them go."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import dynexplore
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
    resource = Derived(3)
    x = x * resource.k
    del resource
    LOG.append("after")
    return x + 1


def rebound(x):
    resource = Resource(1)
    resource = Resource(2)
    LOG.append("between")
    x = x * resource.k
    resource = None
    LOG.append(resource)
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
        resource = Resource(6)
        raise ValueError(resource.k)
    except ValueError as error:
        x = x * error.args[0]
        del resource
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
    resource = Plain()
    kept = weakref.ref(resource, lambda _: LOG.append("gone"))
    x = x * resource.k
    del resource
    return x + len(LOG), kept() is None


def with_a_finalizer(x):
    resource = Plain()
    weakref.finalize(resource, LOG.append, "gone")
    x = x * resource.k
    del resource
    return x + len(LOG)


def behind_a_proxy(x):
    resource = Plain()
    proxy = weakref.proxy(resource, lambda _: LOG.append("gone"))
    x = x * proxy.k
    resource = None
    return x + len(LOG)


def as_a_weak_key(x):
    keys, referent = weakref.WeakKeyDictionary(), Plain()
    keys[referent] = 1
    x = x * len(keys)
    referent = None
    return x + len(keys)


def as_a_weak_value(x):
    values, referent = weakref.WeakValueDictionary(), Plain()
    values["k"] = referent
    x = x * len(values)
    del referent
    return x + len(values)


def union_of_weak_values(x):
    y = x + 1
    survivor, dropped = Plain(), Plain()
    values = weakref.WeakValueDictionary({1: survivor})
    union = values | {2: dropped}
    del dropped
    return y, sorted(union.keys()), 2 in union


def union_of_weak_keys(x):
    y = x + 1
    survivor, dropped = Plain(), Plain()
    keys = weakref.WeakKeyDictionary({survivor: 1})
    union = keys | {dropped: 2}
    del dropped
    return y, sorted(union.values()), len(keys)


def passed_in_a_container(x):
    y = x + 1
    first, second = Plain(), Plain()
    members = weakref.WeakSet([first, second])
    before = len(members)
    second = 3
    return y * before, len(members), second


def set_after_a_break(x):
    y = x + 1
    referent = Plain()
    values = weakref.WeakValueDictionary()
    values[1] = referent
    before = len(values)
    del referent
    return y, before, len(values), 1 in values


def given_to_plain_python(x):
    y = x + 1
    referent = Plain()
    dynexplore.graph_break()
    reference = refer(referent)
    y = y * referent.k
    alive = reference() is not None
    referent = None
    return y, alive, reference() is None


@dynexplore.disable
def refer(referent):
    return weakref.ref(referent)


def of_a_set(x):
    y = x + 1
    referent = {1, 2}
    keep = weakref.ref(referent)
    alive = keep() is not None
    referent = None
    return y, alive, keep() is None


def of_a_function(x):
    y = x + 1
    referent = lambda: 3
    references = weakref.WeakValueDictionary(k=referent)
    before = len(references)
    del referent
    return y, before, len(references)


LATER = [union_of_weak_values, union_of_weak_keys, passed_in_a_container, set_after_a_break, given_to_plain_python, of_a_function]


@pytest.mark.parametrize("fn", LATER, ids=lambda fn: fn.__name__)
def test_what_weak_containers_refer_to_lives_as_long_as_its_local(fn: Any) -> None:
    """No longer than a `del` or another value, and no shorter where nobody reads the local after a break."""
    assert_same_as_eager(fn, X, calls=2)


WEAKLY = [of_a_set, with_a_callback, with_a_finalizer, behind_a_proxy, as_a_weak_key, as_a_weak_value]


@pytest.mark.parametrize("fn", WEAKLY, ids=lambda fn: fn.__name__)
def test_one_that_is_referred_to_weakly_goes_when_the_frame_lets_it_go(fn: Any) -> None:
    """Also where the weak reference is made in a function that the frame calls."""
    assert_same_as_eager(fn, X, calls=2, setup=LOG.clear, observe=lambda: list(LOG), graphs=0)


@dynexplore.disable
def make(k: int) -> Resource:
    return Resource(k)


class Opens:
    @dynexplore.disable
    def __enter__(self) -> Resource:
        return Resource(7)

    def __exit__(self, *error: object) -> None:
        pass


def returned_and_dropped(x, between):
    make(1)
    LOG.append("after")
    between()
    return x * 2


def returned_and_read(x, between):
    x = x * make(2).k
    LOG.append("after")
    between()
    return x + 1


def returned_and_tested(x, between):
    if make(1).k:
        LOG.append("inside")
        between()
    return x * 2


def returned_and_deleted(x, between):
    resource = make(5)
    LOG.append("before")
    between()
    x = x * resource.k
    del resource
    LOG.append("after")
    between()
    return x * 2


def returned_and_rebound(x, between):
    resource = make(1)
    resource = make(2)
    LOG.append("between")
    x = x * resource.k
    resource = None
    LOG.append(resource)
    between()
    return x * 2


def rebound_in_a_loop(x, between):
    for k in range(3):
        resource = make(k)
        x = x + resource.k
        between()
        LOG.append(k)
    return x * 2


def deleted_in_a_loop(x, between):
    for k in range(3):
        resource = make(k)
        x = x + resource.k
        del resource
        LOG.append(k)
        between()
    return x * 2


def deleted_and_read_again(x, between):
    resource = make(1)
    LOG.append("before")
    try:
        del resource
        between()
        return x * resource.k  # noqa: F821
    except UnboundLocalError as error:
        return x * 2, str(error)


def in_a_with_block(x, between):
    with Opens() as resource:
        x = x * resource.k
        between()
        resource = None
        LOG.append("inside")
    LOG.append("after")
    return x * 2


def held_twice(x, between):
    resource = also = make(6)
    del resource
    LOG.append("one")
    x = x * also.k
    between()
    del also
    LOG.append("none")
    return x * 2


def seen_through_a_weak_reference(x, between):
    reference = weakref.ref(make(1))
    between()
    LOG.append(reference() is None)
    return x * 2


PROXIES: list[Any] = []


@dynexplore.disable
def seen_by_a_proxy() -> Plain:
    resource = Plain()
    PROXIES[:] = [weakref.proxy(resource, lambda _: LOG.append("gone"))]
    return resource


def seen_through_a_proxy(x, between):
    resource = seen_by_a_proxy()
    x = x * resource.k
    between()
    del resource
    LOG.append("after")
    return x * 2


RELEASED = [
    returned_and_dropped, returned_and_read, returned_and_tested, returned_and_deleted, returned_and_rebound,
    rebound_in_a_loop, deleted_in_a_loop, deleted_and_read_again, in_a_with_block, held_twice, seen_through_a_weak_reference,
    seen_through_a_proxy,
]  # fmt: skip


@pytest.mark.parametrize("nests", [False, True], ids=["frames of their own", "nested"])
@pytest.mark.parametrize("between", [lambda: None, dynexplore.graph_break], ids=["no other break", "another break"])
@pytest.mark.parametrize("fn", RELEASED, ids=lambda fn: fn.__name__)
def test_what_a_break_returned_goes_where_eager_lets_it_go(fn: Any, between: Any, nests: bool) -> None:
    """Its `__del__` runs in the same order as everything else that the program observes, in each call."""
    with dynexplore.config.patch(nested_graph_breaks=nests):
        assert_same_as_eager(lambda x: fn(x + 1, between), X, calls=3, setup=LOG.clear, observe=lambda: list(LOG))


def test_a_class_that_weak_containers_refer_to_is_a_local_like_others() -> None:
    """Only the garbage collector ends a class: a resume function that binds its name again is captured."""
    registered = weakref.WeakKeyDictionary[type, int]({int: 1, str: 2})

    def program(x: Any) -> Any:
        sizes = []
        for cls in (int, str):
            x = x + 1
            dynexplore.graph_break()
            sizes.append(registered[cls])
        return x * 2, sizes

    assert_same_as_eager(program, torch.ones(2), graphs=range(3, 9))
