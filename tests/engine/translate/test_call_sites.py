"""translate/call_sites.py: which calls of a code object have the same callable."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.bytecode import read
from dynexplore.engine.config import config
from dynexplore.engine.translate.call_sites import callables_of
from engine_checks import assert_same_as_eager

X = torch.ones(3)


def calls_many(self: Any, x: Any, functions: Any) -> Any:
    x = self.part(self.part(x), other=[len(function(x)) for function in functions])
    x = self.inner.part(*x) + helper(x, key=helper(x)) + functions[0](x)
    return helper(x)


def helper(x: Any, key: Any = None) -> Any:
    print(end="")
    return x * 2


@pytest.mark.plain("reads a code object and runs nothing")
def test_calls_of_one_callable_load_it_through_the_same_names() -> None:
    """As a function, a method, with arguments that call, unpacked ones; an item of a list is no name."""
    names = [".".join(str(name) for _, name in path) for path in callables_of(read(calls_many.__code__)).values()]
    counts = {name: names.count(name) for name in ("self.part", "self.inner.part", "helper")}
    assert counts == {"self.part": 2, "self.inner.part": 1, "helper": 3}


def thrice(x: Any) -> Any:
    x = helper(x + 1)
    x = helper(x - 1)
    return helper(x + 2)


def in_a_branch(x: Any) -> Any:
    if x.shape[0] == 3:
        return helper(x + 1) + 1
    if x.shape[0] == 4:
        return helper(x + 2) + 1
    return helper(x) + 1


def twice(x: Any) -> Any:
    x = helper(x + 1)
    return helper(x - 1) + 1


def twice_twice(x: Any) -> Any:
    x = twice(x) - 1
    return twice(x) + 2


def only_repeats(x: Any) -> Any:
    for _ in range(5):
        x = helper(x)
    return helper(x)


def test_a_callee_that_many_places_call_keeps_its_graphs() -> None:
    """Two copies of its graphs nest, and branches make no copies: three calls, or two of a function that calls it twice, or calls
    alone, do not.
    """
    expected = {in_a_branch: 2, twice: 3, thrice: 4, twice_twice: 5, only_repeats: 1}
    for program, graphs in expected.items():
        dynexplore.reset()
        with config.patch(nested_graph_breaks=True):
            assert_same_as_eager(program, X, calls=2, graphs=graphs)
