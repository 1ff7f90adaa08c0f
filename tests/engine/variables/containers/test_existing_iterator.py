"""What is used up by its use is made by the program in each call, and never kept from the capture."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

P = re.compile(":+")
TEXT = "a:b::c:::d"


def loops(x: Any) -> Any:
    for m in P.finditer(TEXT, 1):
        x = x + len(m.group(0))
    return x


def lists(x: Any) -> Any:
    return x + 1, [m.span() for m in P.finditer(TEXT)], [m.group() for m in re.compile(":+").finditer(TEXT, 1, 7)]


def names_arguments(x: Any) -> Any:
    return x + 1, [m.span() for m in P.finditer(string=TEXT, endpos=8)], [m.span() for m in P.finditer(TEXT, pos=3)]


def hands_it_out(x: Any) -> Any:
    it = P.finditer(TEXT)
    return x + 1, next(it).span(), [m.span() for m in it], type(it).__name__


def takes_one_by_one(x: Any) -> Any:
    it = P.finditer(TEXT)
    return x + 1, next(it).span(), next(it).span(), next(it).span(), next(it, None)


@pytest.mark.parametrize("fn", [loops, lists, names_arguments, hands_it_out, takes_one_by_one], ids=lambda fn: fn.__name__)
def test_matches_are_walked_anew_in_each_call(fn: Any) -> None:
    """`finditer` is one graph, and each call has its own."""
    assert_same_as_eager(fn, torch.ones(2), calls=3, graphs=1, breaks=0)


def test_an_iterator_of_matches_goes_on_behind_a_break() -> None:
    """It stands where the graph left it."""

    def breaks(x: Any) -> Any:
        it = P.finditer(TEXT)
        first = next(it).span()
        dynexplore.graph_break()
        return x + 1, first, [m.span() for m in it]

    assert_same_as_eager(breaks, torch.ones(2), calls=3)


def test_an_iterator_of_matches_that_is_returned_is_the_callers() -> None:
    """What is left of it, in each call."""

    def gives(x: Any) -> Any:
        it = P.finditer(TEXT)
        next(it)
        return x + 1, it

    optimized = dynexplore.optimize("eager")(gives)
    for _ in range(3):
        assert [m.span() for m in optimized(torch.ones(2))[1]] == [(3, 5), (6, 9)]
    assert dynexplore.counters["stats"]["graphs"] > 0


STATEFUL = {
    "a scanner": "s = P.scanner(TEXT); r = s.search().span(), s.search().span()",
    "a scanner of re": "s = re.Scanner([('a', 1)]).scan('aab'); r = s",
    "an iterator of bytes": "i = iter(b'ab'); r = next(i), list(i)",
    "an iterator of text": "i = 'ab'.__iter__(); r = next(i), list(i)",
    "a range's": "i = iter(range(3)); r = next(i), list(i)",
    "a range's, backwards": "i = reversed(range(3)); r = next(i), list(i)",
    "lines": "i = iter('a\\nb'.splitlines()); r = next(i), list(i)",
    "counted": "i = itertools.count(2); r = next(i), next(i)",
    "a cycle": "i = itertools.cycle('ab'); r = next(i), next(i), next(i)",
    "a memoryview": "m = memoryview(bytearray(b'ab')); m[0] = 1; r = bytes(m)",
    "a translation table": "t = str.maketrans('a', 'b'); t[1] = 2; r = t",
    "groups": "g = re.match('(?P<a>a)', 'a').groupdict(); g['b'] = 1; r = g",
    "parts": "p = P.split(TEXT); p.append(1); r = p",
    "all matches": "p = P.findall(TEXT); p.append(1); r = p",
    "bits": "r = (5).to_bytes(2, 'big'), float.hex(1.5)",
}


@pytest.mark.parametrize("name", STATEFUL)
def test_what_a_method_of_a_constant_gives_is_new_in_each_call(name: str) -> None:
    """Changed or used up in one call, it is whole in the next."""
    namespace: dict[str, Any] = {"re": re, "P": P, "TEXT": TEXT, "itertools": itertools}
    exec(f"def f(x):\n    y = x + 1\n    {STATEFUL[name]}\n    return y * 2, r\n", namespace)
    assert_same_as_eager(namespace["f"], torch.ones(2), calls=3, graphs=range(1, 7))


def test_a_pattern_that_prints_how_it_is_read_prints_in_each_call() -> None:
    """`re.DEBUG`: it is compiled by the program."""

    def prints(x: Any) -> Any:
        return x + 1, re.compile("a|b", re.DEBUG).pattern, re.findall("a", "aba", flags=re.DEBUG)

    assert_same_as_eager(prints, torch.ones(2), calls=2)
