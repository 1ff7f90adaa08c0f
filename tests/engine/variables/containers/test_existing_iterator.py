"""What is used up by its use is made by the program in each call, and never kept from the capture."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
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


# -- iterators of the call: the same objects in one call, others in the next ------------------------------------------------------


class Holder:
    """Attributes, in a dict."""


def two_items(x: Any, it: Any) -> Any:
    return x + 1, next(it), next(it, None)


def steps_both(x: Any, it: Any, other: Any) -> Any:
    return x + 1, next(it, None), next(other, None), next(it, None)


def appends(x: Any, it: Any, other: Any) -> Any:
    first = next(it, None)
    other.append(7)
    return x + 1, first, next(it, None), other


def stores(x: Any, it: Any, other: Any) -> Any:
    first = next(it, None)
    other["n"] = 7
    return x + 1, first, next(it, None), other


def stores_behind_the_step(x: Any, it: Any, other: Any) -> Any:
    first = next(it, None)
    other["n"] = 7
    return x + 1, first, other


def stores_before_the_step(x: Any, it: Any, other: Any) -> Any:
    other["n"] = 7
    return x + 1, next(it, None), other


def replaces(x: Any, it: Any, other: Any) -> Any:
    first = next(it, None)
    other["b"] = 7
    return x + 1, first, next(it, None), other


def sets_an_attribute(x: Any, it: Any, other: Any) -> Any:
    first = next(it, None)
    other.b = 7
    return x + 1, first, next(it, None), other.b


def _zip(same: bool) -> tuple[Any, ...]:
    first = iter([1, 2, 3, 4])
    return (zip(first, first if same else iter([1, 2, 3, 4]), strict=False),)


def _enumerates(same: bool) -> tuple[Any, ...]:
    first = iter([1, 2, 3, 4])
    return enumerate(first), enumerate(first if same else iter([1, 2, 3, 4]))


def _zips(same: bool) -> tuple[Any, ...]:
    a, b = iter([1, 2, 3]), iter([4, 5, 6])
    return zip(a, b, strict=False), zip(b, a, strict=False) if same else zip(iter([4, 5, 6]), iter([1, 2, 3]), strict=False)


def _inside(same: bool) -> tuple[Any, ...]:
    first = iter([1, 2, 3, 4])
    return enumerate(first), first if same else iter([1, 2, 3, 4])


def _list(same: bool, walk: Callable[[Any], Any] = iter) -> tuple[Any, ...]:
    walked = [1]
    return walk(walked), walked if same else []


def _dict(same: bool, part: str, size: int) -> tuple[Any, ...]:
    walked = dict(zip("abc"[:size], range(size), strict=True))
    return iter(getattr(walked, part)()), walked if same else dict(walked)


def _attributes(same: bool, part: str, size: int) -> tuple[Any, ...]:
    walked, other = Holder(), Holder()
    for holder in (walked, other):
        vars(holder).update(zip("abc"[:size], range(size), strict=True))
    return iter(getattr(vars(walked), part)()), walked if same else other


PARTS = ("keys", "values", "items")
SHARED: list[tuple[str, Any, Callable[[bool], tuple[Any, ...]]]] = [
    ("zip of one iterator", two_items, _zip),
    ("two enumerates of one iterator", steps_both, _enumerates),
    ("two zips of the same iterators", steps_both, _zips),
    ("an enumerate and what is inside it", steps_both, _inside),
    ("a list that is appended to", appends, _list),
    ("a list that is appended to, enumerated", appends, lambda same: _list(same, enumerate)),
    *((f"{fn.__name__}, {part} of {size}", fn, lambda same, part=part, size=size: _dict(same, part, size))
      for fn in (stores, stores_behind_the_step, stores_before_the_step, replaces) for part in PARTS for size in (0, 1, 3)),
    *((f"attributes, {part} of {size}", sets_an_attribute, lambda same, part=part, size=size: _attributes(same, part, size))
      for part in PARTS for size in (1, 3)),
]  # fmt: skip


def _result(fn: Any, args: tuple[Any, ...]) -> Any:
    try:
        return fn(torch.ones(2), *args)[1:]
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("same_first", [False, True])
@pytest.mark.parametrize(("fn", "make"), [case[1:] for case in SHARED], ids=[case[0] for case in SHARED])
def test_an_iterator_shares_with_another_argument_in_one_call_only(fn: Any, make: Any, same_first: bool) -> None:
    """Captured where both are one object, called where they are two, and the other way round: each call is as in eager."""
    optimized = dynexplore.optimize("eager")(fn)
    for same in (same_first, not same_first, same_first):
        compiled_args, eager_args = make(same), make(same)
        assert _result(optimized, compiled_args) == _result(fn, eager_args)
        for compiled_arg, eager_arg in zip(compiled_args, eager_args, strict=True):
            if isinstance(compiled_arg, Iterator):
                assert _rest(compiled_arg) == _rest(eager_arg)
    assert dynexplore.counters["stats"]["graphs"] > 0


def _rest(iterator: Any) -> Any:
    try:
        return list(iterator)
    except RuntimeError as error:
        return str(error)


# -- dicts ------------------------------------------------------------------------------------------------------------------------


def walks_items(x: Any, d: Any) -> Any:
    for key, value in d.items():
        x = x + value
        dynexplore.graph_break()
        x = x * value
        if key == "nowhere":
            break
    return x


def walks_values(x: Any, d: Any) -> Any:
    for value in d.values():
        x = x + value
        dynexplore.graph_break()
        x = x * value
    return x


def walks_keys(x: Any, d: Any) -> Any:
    for key in d:
        x = x + 1
        dynexplore.graph_break()
        x = x * d[key]
    return x


@pytest.mark.parametrize("nested", [True, False])
def test_one_graph_serves_the_rounds_of_a_loop_over_a_dict(nested: bool) -> None:
    """The first, the middle ones, the last: three graphs for six values, and a break for each round."""
    tensors = {name: torch.ones(2) * number for number, name in enumerate("abcdef")}
    with dynexplore.config.patch(nested_graph_breaks=nested):
        assert_same_as_eager(walks_values, torch.ones(2), tensors, graphs=3, recompiles=1)


@pytest.mark.parametrize("fn", [walks_items, walks_keys])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_loop_over_a_dict_resumes(fn: Any, size: int) -> None:
    """Names differ from round to round; the only kind of break is the one in the loop."""
    tensors = {name: torch.ones(2) * number for number, name in enumerate("abcdef"[:size])}
    report = assert_same_as_eager(fn, torch.ones(2), tensors, calls=2)
    assert set(report.breaks) == {"DX208"}


def test_a_dict_that_is_changed_at_the_break_raises_at_the_next_step() -> None:
    """The error of CPython, from the loop."""

    def grows(x: Any, d: Any) -> Any:
        for value in d.values():
            x = x + value
            exec("d['new'] = x")
        return x

    assert_same_as_eager(grows, torch.ones(2), {"a": torch.ones(2), "b": torch.ones(2)})


def test_an_iterator_over_a_long_dict_is_left_to_python() -> None:
    """A guard on an item of a dict lists all that are left."""
    values = dict.fromkeys(range(200), torch.ones(2))
    report = assert_same_as_eager(lambda x, d: two_items(x, iter(d.values())), torch.ones(2), values)
    assert not report.breaks
    iterator = iter(values.values())
    dynexplore.optimize("eager")(two_items)(torch.ones(2), iterator)
    assert dynexplore.counters["stats"]["unique_graph_breaks"] == 1
    assert iterator.__length_hint__() == 198


# -- iterators that are the items of a loop ---------------------------------------------------------------------------------------


def steps_each(x: Any, walks: Any) -> Any:
    out = []
    for walk in walks:
        out.append(next(walk))
        x = x + 1
        dynexplore.graph_break()
        x = x * 2
        out.append(next(walk))
    return x, out


def steps_each_behind_the_break(x: Any, walks: Any) -> Any:
    out = []
    for walk in walks:
        x = x + 1
        dynexplore.graph_break()
        out.append(next(walk))
    return x, out


def steps_in_a_comprehension(x: Any, walks: Any) -> Any:
    dynexplore.graph_break()
    return x + 1, [(next(walk), dynexplore.graph_break(), next(walk)) for walk in walks]


def _steps_all(walks: Any) -> Any:
    out = []
    for walk in walks:
        out.append(next(walk))
        dynexplore.graph_break()
        out.append(next(walk))
    return out


def steps_in_a_callee(x: Any, walks: Any) -> Any:
    dynexplore.graph_break()
    return x + 1, _steps_all(walks)


def steps_each_inside_another(x: Any, walks: Any) -> Any:
    out = []
    for walk in walks:
        pairs = zip(walk, "abc", strict=False)
        x = x + 1
        dynexplore.graph_break()
        out.append(next(pairs))
        dynexplore.graph_break()
        out.append(next(pairs))
    return x, out


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("kind", ["list", "dict", "strict zip"])
@pytest.mark.parametrize(
    "fn", [steps_each, steps_each_behind_the_break, steps_in_a_comprehension, steps_in_a_callee, steps_each_inside_another],
    ids=lambda fn: fn.__name__,
)  # fmt: skip
def test_an_iterator_that_is_an_item_of_a_loop_stays_that_item_at_a_break(fn: Any, kind: str, nested: bool) -> None:
    """It had the loop's next item, because the loop's own iterator was advanced first."""
    lists = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    iterators: dict[str, Callable[[list[int]], Any]] = {
        "list": iter,
        "dict": lambda numbers: iter(dict.fromkeys(numbers, 0).items()),
        "strict zip": lambda numbers: zip(numbers, numbers, strict=True),
    }
    with dynexplore.config.patch(nested_graph_breaks=nested):
        optimized = dynexplore.optimize("eager")(fn)
        x, values = optimized(torch.ones(2), [iterators[kind](numbers) for numbers in lists])
    expected, plain = fn(torch.ones(2), [iterators[kind](numbers) for numbers in lists])
    assert values == plain
    assert torch.equal(x, expected)
    assert dynexplore.counters["stats"]["graphs"] > 0


def takes_two_a_round(x: torch.Tensor, walk: Iterator[Any], out: list[Any]) -> tuple[torch.Tensor, list[Any]]:
    """A loop whose body takes a step, too; what it read is not looked at."""
    for _ in walk:
        x = x + 1
        next(walk, None)
        dynexplore.graph_break()
    return x, out


def takes_three_a_round(x: torch.Tensor, walk: Iterator[Any], out: list[Any]) -> tuple[torch.Tensor, list[Any]]:
    """The same with three steps, which are returned."""
    for item in walk:
        out += [item, next(walk, "no second"), next(walk, "no third")]
        dynexplore.graph_break()
        x = x + 1
    return x, out


def takes_steps_outside_a_loop(x: torch.Tensor, walk: Iterator[Any], out: list[Any]) -> tuple[torch.Tensor, list[Any]]:
    """Two steps before the break and two behind it."""
    out += [next(walk, "none"), next(walk, "none")]
    x = x + 1
    dynexplore.graph_break()
    next(walk, None)
    next(walk, None)
    return x * 2, out


_WALKS: dict[str, Callable[[list[Any]], Iterator[Any]]] = {
    "list": iter,
    "tuple": lambda items: iter(tuple(items)),
    "range": lambda items: iter(range(len(items))),
    "text": lambda items: iter("abcdefghij"[: len(items)]),
    "keys": lambda items: iter(dict.fromkeys(items)),
    "items": lambda items: iter(dict(zip(items, items, strict=True)).items()),
    "enumerate": enumerate,
    "zip": lambda items: zip(items, items, strict=False),
}


@pytest.mark.parametrize("walk", _WALKS)
@pytest.mark.parametrize("fn", [takes_two_a_round, takes_three_a_round, takes_steps_outside_a_loop], ids=lambda fn: fn.__name__)
def test_several_steps_of_a_round_are_guarded_each(fn: Any, walk: str) -> None:
    """Only the first step had a guard that there is another item: a StopIteration of the engine's own left the function."""
    optimized = dynexplore.optimize("eager")(fn)
    for size in (2, 4, 3, 5, 1, 6, 0, 7, 2, 3):
        for items in (list(range(size)), [f"item {number}" for number in range(size)]):
            walked, plain = _WALKS[walk](items), _WALKS[walk](items)
            x, out = optimized(torch.ones(2), walked, [])
            expected, plain_out = fn(torch.ones(2), plain, [])
            assert (out, list(walked)) == (plain_out, list(plain)), size
            assert torch.equal(x, expected)
    assert dynexplore.counters["stats"]["graphs"] > 0
