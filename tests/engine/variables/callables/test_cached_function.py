"""Calls of functions under `functools.lru_cache`: the program gets what the cache holds, and its counts are right."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

FACTOR = [3]


def plain(n: Any, *, k: int = 1) -> Any:
    """What it gives depends on when it is called: a cache goes stale."""
    return [n, k, FACTOR[0]]


CACHES: dict[str, Any] = {
    "lru_cache": functools.lru_cache(plain),
    "of two": functools.lru_cache(maxsize=2)(plain),
    "without a bound": functools.cache(plain),
    "typed": functools.lru_cache(maxsize=None, typed=True)(plain),
    "of none": functools.lru_cache(maxsize=0)(plain),
}


def refill(cached: Any) -> None:
    """As new, with one entry from before any captured call."""
    FACTOR[0] = 3
    cached.cache_clear()
    cached(7)


CALLS: dict[str, Callable[..., Any]] = {
    "one argument": lambda cached, x, n: (x * 2, cached(n)),
    "two calls": lambda cached, x, n: (x * cached(n)[2] + cached(2)[2], cached(n) is cached(n)),
    "by name": lambda cached, x, n: (x * 2, cached(n, k=2), cached(n, k=3)),
    "a float that is equal": lambda cached, x, n: (x * 2, cached(n), cached(float(n))),
    "a tuple": lambda cached, x, n: (x * 2, cached((n, None, "a")), cached(n)),
    "asked how often": lambda cached, x, n: (x * cached(n)[2], cached.cache_info()[1:], cached(n)),
    "the result is changed": lambda cached, x, n: (x + 1, cached(n).append(n), len(cached(n))),
}


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_what_the_cache_holds(call: str, name: str) -> None:
    """The same objects, stale where they are in eager, and the same counts, whatever is filled, emptied and thrown out between."""
    cached = CACHES[name]
    body = CALLS[call]

    def run(x, n, factor, empty):
        FACTOR[0] = factor
        if empty:
            cached.cache_clear()
        return body(cached, x, n), cached.cache_info()

    x = torch.ones(3)
    changes = [(7, 3, False), (7, 5, False), (2, 5, False), (2, 6, False), (4, 6, False), (7, 7, True), (7, 8, False)]
    assert_same_as_eager(
        run, x, 7, 3, False, then=[(x, *change) for change in changes],
        setup=lambda: refill(cached), observe=lambda: tuple(cached.cache_info()),
    )  # fmt: skip


HELD = functools.lru_cache(plain)
OF_TENSORS = functools.lru_cache(lambda tensor: tensor * FACTOR[0])


def uses_what_is_held(x: Any) -> Any:
    return x * HELD(7)[2] + 1


def uses_a_tensor(x: Any) -> Any:
    return OF_TENSORS(x) + 1


def test_what_the_cache_holds_is_one_graph() -> None:
    """A result that is there already is a value like any other."""
    assert_same_as_eager(
        uses_what_is_held,
        torch.ones(3),
        calls=3,
        setup=lambda: refill(HELD),
        observe=HELD.cache_info,
        graphs=1,
        breaks=0,
        recompiles=0,
    )


def test_a_cache_that_holds_nothing_is_filled_while_tracing() -> None:
    """The function does nothing but compute: one graph, one miss, and the same object from then on."""
    assert_same_as_eager(
        uses_what_is_held, torch.ones(3), calls=3, setup=HELD.cache_clear, observe=HELD.cache_info, graphs=1, breaks=0, recompiles=0
    )


CALLED: list[int] = []


@functools.lru_cache(None)
def with_effect(n: int) -> int:
    CALLED.append(n)
    return n * 2


def test_a_break_before_a_cache_that_holds_nothing_lasts_no_longer() -> None:
    """A function that does more than compute is called by Python; the next call, which finds a result, is compiled as one graph."""

    def run(x):
        return x * with_effect(3) + 1

    def setup() -> None:
        with_effect.cache_clear()
        CALLED.clear()

    assert_same_as_eager(
        run,
        torch.ones(3),
        calls=3,
        setup=setup,
        observe=lambda: (with_effect.cache_info(), list(CALLED)),
        graphs=2,
        breaks=["DX201"],
        recompiles=1,
    )


class Plan:
    """An object that a cache knows by its identity."""

    def __init__(self, parts: int) -> None:
        self.parts = parts


@functools.lru_cache(8)
def plan_of(parts: int) -> Plan:
    return Plan(parts)


@functools.lru_cache(8)
def lengths(plan: Plan, shape: tuple[int, ...]) -> tuple[list[int], dict[int, int]]:
    return [size // plan.parts for size in shape], dict(enumerate(shape))


VARYING: dict[str, tuple[Callable[..., Any], int]] = {
    "numbers": (lambda x: x.view(x.shape[0], 2, lengths(plan_of(2), x.shape)[0][1]).sum(1), 0),
    "a tuple of sizes by name": (lambda x: x.sum() * lengths(plan_of(2), shape=(x.shape[0], x.shape[1]))[1][1], 0),
    "twice the same": (lambda x: (x + 1, lengths(plan_of(1), x.shape) is lengths(plan_of(1), x.shape)), 0),
    "the result leaves": (lambda x: (x + 1, lengths(plan_of(2), x.shape)[0]), 1),
    "the result is changed": (lambda x: (x + 1, lengths(plan_of(2), x.shape)[0].append(3)), 1),
    "asked how often": (lambda x: (x * lengths(plan_of(2), x.shape)[0][1], lengths.cache_info()), 1),
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary_go_through_a_cache(name: str) -> None:
    """Two graphs for all sizes, with the content, counts and very objects of the cache as in eager."""
    body, breaks = VARYING[name]

    def setup() -> None:
        plan_of.cache_clear(), lengths.cache_clear()

    def run(x):
        return body(x)

    then = [(torch.ones(3, size),) for size in (4, 6, 8, 10, 6, 12)]
    expected = {} if breaks else {"graphs": 2, "breaks": 0, "recompiles": 1}
    assert_same_as_eager(
        run,
        torch.ones(3, 4),
        then=then,
        setup=setup,
        observe=lambda: (plan_of.cache_info(), lengths.cache_info(), len(lengths(plan_of(2), (3, 6))[0])),
        **expected,
    )


def test_a_stale_cache_is_believed_where_sizes_vary() -> None:
    """What the cache holds is no longer what the function gives: Python makes the call, and gets what is held."""
    scaled = functools.lru_cache(plain)

    def run(x):
        return x * scaled(x.shape[1])[2]

    def change(factor: int) -> Any:
        FACTOR[0] = factor

    def setup() -> None:
        FACTOR[0] = 3
        scaled.cache_clear()
        scaled(4), scaled(6), scaled(8)
        FACTOR[0] = 5

    then = [(torch.ones(3, size),) for size in (6, 8, 10, 6)]
    assert_same_as_eager(run, torch.ones(3, 4), then=then, setup=setup, observe=scaled.cache_info)


def test_a_tensor_under_a_cache_is_found_by_identity() -> None:
    """A cache gives for the same tensor what it gave before that was written to."""

    def change(x):
        y = uses_a_tensor(x)
        x.add_(1)
        return y, uses_a_tensor(x)

    assert_same_as_eager(change, torch.ones(3), calls=2, setup=OF_TENSORS.cache_clear, observe=OF_TENSORS.cache_info)


class Scaled(torch.nn.Module):
    """A method under a cache, which knows the module."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 2

    @functools.lru_cache(None)
    def table(self, size: int) -> torch.Tensor:
        return torch.arange(size) * self.factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table(3)


def test_a_method_under_a_cache_is_stale_as_in_eager() -> None:
    """What the method gave before the module changed is what it gives after."""
    scaled = Scaled()

    def run(x, factor):
        scaled.factor = factor
        return scaled(x), scaled.table(3) is scaled.table(3)

    x = torch.ones(3)
    assert_same_as_eager(run, x, 2, then=[(x, 3), (x, 4)], setup=Scaled.table.cache_clear)


def test_a_function_of_an_installed_package_is_traced() -> None:
    """It is believed to give the same again; no break comes of its cache."""
    space: dict[str, Any] = {"functools": functools}
    file = torch.__file__.replace("torch", "installed")  # beside torch
    exec(compile("@functools.lru_cache\ndef twice(n): return n * 2", file, "exec"), space)
    twice = space["twice"]
    assert_same_as_eager(lambda x: x * twice(3), torch.ones(3), graphs=1, breaks=0)
