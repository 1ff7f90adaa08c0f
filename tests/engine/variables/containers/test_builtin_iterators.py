"""Iterators in traced code: builtins and itertools against eager, also when they outlive a graph half-way."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.program_table import Programs, caught

import dynexplore
from engine_checks import assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)


@program(X, graphs=1, ops=4)
def enumerates_and_zips(x):
    out = []
    for i, (a, b) in enumerate(zip([x, x + 1, x + 2], "ab"), start=5):
        out.append((i, a * i, b))
    return out, list(enumerate("ab")), list(zip()), list(zip((1, 2), (3,))), dict(zip("ab", itertools.count()))


@program(X, graphs=1, ops=1)
def strict_zip(x):
    x = x + 1
    return (
        x,
        caught(lambda: list(zip([1, 2], [3], strict=True))),
        caught(lambda: list(zip([1], [3, 4], strict=True))),
        caught(lambda: list(zip([1], [2], [3, 4], strict=True))),
        list(zip([1], [2], strict=True)),
    )


@program(X, graphs=1, ops=9)
def maps_and_filters(x):
    return (
        list(map(lambda a, b: a * b, [x, x], [1, 2, 3])),
        list(filter(None, [0, 1, "", "a", None])),
        list(filter(lambda v: v > 1, range(4))),
        sum(map(torch.sum, x)),
        list(map(str, (1, 2))),
        max(map(len, ["a", "bb"])),
        tuple(map(operator.neg, [x])),
        [*map(int, "12")],
    )


@program(X, graphs=1, ops=1)
def next_and_defaults(x):
    x = x + 1
    it = iter([1, x])
    a = next(it)
    b = next(it)
    return a, b, next(it, "end"), caught(lambda: next(it)), caught(lambda: next([1])), caught(lambda: iter(3)), list(it)


@program(X, graphs=1, ops=1)
def shares_an_iterator(x):
    x = x + 1
    it = iter(range(6))
    pairs = list(zip(it, it))
    again = enumerate("abc")
    first = next(again)
    rest = [*again]
    return x, pairs, first, rest, iter(it) is it


@program(X, graphs=1, ops=1)
def reverses(x):
    x = x + 1
    return (
        list(reversed([1, x])),
        list(reversed((1, 2))),
        list(reversed("abc")),
        list(reversed({"a": 1})),
        list(reversed(range(3))),
        caught(lambda: reversed({1})),
        [i for i in reversed(list(enumerate("ab")))],
    )


@program(X, graphs=1, ops=1)
def chains_and_slices(x):
    x = x + 1
    return (
        list(itertools.chain([1], (x,), "ab")),
        list(itertools.chain.from_iterable([[1], [2, 3]])),
        list(itertools.islice(range(10), 2, 8, 3)),
        list(itertools.islice("abcdef", 3)),
        list(itertools.islice("ab", 1, None)),
        list(itertools.repeat(1, 2)),
        list(itertools.islice(itertools.count(3, 2), 3)),
        list(itertools.islice(itertools.cycle([1, 2]), 5)),
        list(itertools.islice(itertools.repeat(x), 2)),
        caught(lambda: itertools.islice([1], -1)),
    )


@program(X, graphs=1, ops=1)
def accumulates(x):
    return (
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([x, x], operator.mul)),
        list(itertools.accumulate([1, 2], initial=10)),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(lambda v: v % 2, range(5))),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.zip_longest([1], [x, 2], fillvalue="-")),
    )


@program(X, graphs=1, ops=8)
def combines(x):
    return (
        list(itertools.product([1, 2], "ab")),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.permutations([1, x, 3], 2)),
        list(itertools.combinations("abc", 2)),
        list(itertools.combinations_with_replacement("ab", 2)),
        [x * i + j for i, j in itertools.product(range(2), range(2))],
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1])],
        [list(i) for i in itertools.tee("ab")],
    )


@program(X, graphs=1, ops=1)
def stops_early(x):
    seen = []

    def note(v):
        seen.append(v)
        return v > 1

    found = any(note(v) for v in range(10))
    first = next(v for v in range(5) if v > 2)
    none = all(note(v) for v in [5, 0, 9])
    return x + first, seen, found, none


@program(X, graphs=1, ops=20)
def walks_a_tensor(x):
    total = 0
    for row in x:
        for value in row:
            total = total + value
    a, b = x
    return total, a, b, [r.sum() for r in x], list(zip(x, range(2))), len(x)


@program(X, graphs=1, ops=9)
def folds(x):
    return (
        functools.reduce(operator.add, [x, x, x]),
        functools.reduce(lambda a, b: a + b, "abc", ""),
        sum([[1], [2]], []),
        caught(lambda: functools.reduce(operator.add, [])),
        caught(lambda: sum(["a"])),
        caught(lambda: sum(["a"], "")),
        sum(i * x for i in range(3)),
        sum([0.1] * 10),
        sum([1, 2.5, True]),
        sum(()),
        sum([x], start=1),
    )


@program(X, graphs=1, ops=3)
def for_else_and_break(x):
    out = []
    for i in range(5):
        if i == 2:
            continue
        if i == 4:
            break
        out.append(x + i)
    else:
        out.append("not reached")
    for i in []:
        pass
    else:
        out.append("else")
    while len(out) < 6:
        out.append(len(out))
    return out


@program(X, graphs=1, ops=1)
def star_calls(x):
    x = x + 1
    def join(*args, sep="-", **kwargs):
        return sep.join(map(str, args)), kwargs

    return (
        x,
        join(*range(3)),
        join(*"ab", *[1], sep="+"),
        join(**{"sep": "", "k": 1}),
        join(*enumerate("a")),
        [*{1: 2}],
        {**{}},
    )


# -- iterators that live across a graph break ---------------------------------------------------------------------


def _make_iterators(x: Any) -> list[Any]:
    d = {"a": 1, "b": x, "c": 3}
    items = [x, 2, 3]
    return [
        iter(items),
        iter((1, x)),
        iter(range(5)),
        iter("abc"),
        iter(d),
        iter(d.items()),
        iter(d.values()),
        reversed(items),
        enumerate(items, 3),
        zip(items, "abc"),
        zip(items, range(3), strict=True),
        map(str, range(4)),
        filter(None, [0, 1, 2]),
        itertools.chain([1, 2], items),
        itertools.islice(range(20), 1, 12, 3),
        itertools.repeat(x, 3),
        itertools.count(4),
        itertools.cycle([1, 2, 3]),
        itertools.accumulate([1, 2, 3, 4]),
        itertools.pairwise([1, 2, 3, 4]),
        itertools.zip_longest([1], [2, 3, 4]),
        itertools.product([1, 2], [3, 4]),
        itertools.permutations([1, 2, 3]),
        itertools.takewhile(lambda v: v < 4, range(9)),
        itertools.starmap(max, [(1, 2), (4, 3), (5, 5)]),
        reversed(d),
        iter({7}),
    ]


NAMES = [
    "list",
    "tuple",
    "range",
    "str",
    "dict",
    "items",
    "values",
    "reversed",
    "enumerate",
    "zip",
    "strict_zip",
    "map",
    "filter",
    "chain",
    "islice",
    "repeat",
    "count",
    "cycle",
    "accumulate",
    "pairwise",
    "zip_longest",
    "product",
    "permutations",
    "takewhile",
    "starmap",
    "reversed_dict",
    "set",
]


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_an_iterator_goes_on_after_a_break(place: int, taken: int) -> None:
    """An iterator that was walked part of the way in a graph goes on from there in plain Python.

    One over a new set goes on as one over a tuple, because the set is made again, maybe in another order.
    """

    def walk(x):
        it = _make_iterators(x + 1)[place]
        head = [next(it, None) for _ in range(taken)]
        print("break")
        return head, [next(it, None) for _ in range(4)], type(it).__name__.replace("set_", "tuple_")

    assert_same_as_eager(walk, X)


def test_a_list_walked_across_a_break_is_live() -> None:
    """A list that is walked while breaks happen may still grow, and both sides see the same list."""

    def walk(x):
        items = [x, x + 1]
        for item in items:
            print(len(items))
            if len(items) < 4:
                items.append(item * 2)
        return items

    assert_same_as_eager(walk, X)


@pytest.mark.parametrize("length", [2, 3, 8, 20])
@pytest.mark.parametrize("kind", ["list", "tuple", "zip", "enumerate"])
def test_a_loop_with_a_break_makes_three_graphs(kind: str, length: int) -> None:
    """Before the first break, from one break to the next, and after the last: three graphs, however long the loop is."""

    def loop(x, items):
        walked = {"list": items, "tuple": tuple(items), "zip": zip(items, items), "enumerate": enumerate(items, 7)}[kind]
        for item in walked:
            x = x + (item if kind in ("list", "tuple") else item[1])
            print("break")
            x = x * 2
        return x - 1

    items = [torch.full((3,), float(n)) for n in range(length)]
    assert_same_as_eager(loop, torch.ones(3), items, graphs=3, ops=[1, 2, 2])


def test_an_iterator_argument_moves_on() -> None:
    """An iterator that is an argument has moved on after the call by as many items as the program took."""

    def take(x, it, pairs):
        return x + next(it), next(pairs), [*it], next(it, "end"), next(pairs, None)

    one, two = torch.ones(3), torch.zeros(3)
    assert_same_as_eager(take, one, iter([one, two, 5]), zip("ab", [1, 2]), breaks=0, graphs=1)


@program(X, graphs=1, ops=1)
def calls_until_a_sentinel(x):
    items = [3, 2, 1, 0, 5]
    calls = iter(items.pop, 0)
    first = next(calls)
    return first, list(calls), next(calls, "over"), calls, items, [*iter(lambda: items.pop(), 2)], x + 1


@program(X, graphs=1, ops=1)
def questions_to_ranges(x):
    return x + range(3, 9, 2).index(5), range(3).count(1), range(4).count(7), range(2).count("a")


def test_enumerate_wants_a_whole_number() -> None:
    """A tensor of floats is no start."""
    assert_same_as_eager(lambda x: [*enumerate([x], start=x.sum())], X)
    assert_same_as_eager(lambda x: [*enumerate([x + 1], start=x.sum().long())], X)


# -- how iterators end -------------------------------------------------------------------------------------------------


class Counter:
    """Two numbers; its end says `("end", 3)`."""

    def __init__(self) -> None:
        self.number = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        if self.number > 2:
            raise StopIteration("end", 3)
        return self.number

    def send(self, value):
        if value == "enough":
            raise StopIteration(value)
        return value * 2


def two_numbers():
    yield 1
    yield 2
    return "returned"


def at_most_two(number):
    if number > 2:
        raise StopIteration("too large")
    return number


OVER_AN_ITERATOR = {
    "map": lambda it: map(at_most_two, it),
    "map of two": lambda it: map(operator.add, itertools.count(), it),
    "filter": lambda it: filter(at_most_two, it),
    "zip": lambda it: zip(it, "abc"),
    "zip, second": lambda it: zip("abc", it),
    "strict zip": lambda it: zip(it, strict=True),
    "enumerate": enumerate,
    "islice": lambda it: itertools.islice(it, 9),
    "islice, skipping": lambda it: itertools.islice(it, 5, 9),
    "takewhile": lambda it: itertools.takewhile(at_most_two, it),
    "dropwhile": lambda it: itertools.dropwhile(lambda number: number < 2, it),
    "filterfalse": lambda it: itertools.filterfalse(lambda number: False, it),
    "accumulate": itertools.accumulate,
    "starmap": lambda it: itertools.starmap(at_most_two, ((number,) for number in it)),
    "compress": lambda it: itertools.compress(it, itertools.repeat(1)),
    "selectors": lambda it: itertools.compress(itertools.count(), it),
    "pairwise": itertools.pairwise,
    "chain": itertools.chain,
    "zip_longest": itertools.zip_longest,
    "map of map": lambda it: map(at_most_two, map(at_most_two, it)),
}


@pytest.mark.parametrize("inner", [two_numbers, Counter, lambda: map(at_most_two, itertools.count())],
                         ids=["generator", "program's own", "function that ends it"])  # fmt: skip
@pytest.mark.parametrize("way", OVER_AN_ITERATOR.values(), ids=OVER_AN_ITERATOR)
def test_an_iterator_over_another_ends_with_what_that_says(way: Any, inner: Any) -> None:
    """The StopIteration of what an iterator asks is its own, unless CPython's drops it; a loop ends at either."""

    def asks_until_the_end(x):
        iterator = way(inner())
        given = []
        try:
            while len(given) < 9:
                given.append(next(iterator))
        except StopIteration as end:
            given.append(end.args)
        return x + len(given), given, next(iterator, "over"), list(way(inner())), next(way(inner()), None)

    assert_same_as_eager(asks_until_the_end, X, graphs=1, breaks=0)


def test_a_function_asked_until_a_sentinel_may_end_it() -> None:
    """`iter(function, sentinel)` is over when the function raises StopIteration, and says nothing of it."""

    def calls_until_the_end(x):
        counter = Counter()
        iterator = iter(counter.__next__, 100)
        given = list(iterator)
        try:
            next(iterator)
        except StopIteration as end:
            given.append(end.args)
        return x + len(given), given

    assert_same_as_eager(calls_until_the_end, X, graphs=1, breaks=0)


@pytest.mark.parametrize("inner", [Counter, lambda: map(at_most_two, two_numbers()), lambda: iter([1, 2])],
                         ids=["program's own", "map", "list"])  # fmt: skip
@pytest.mark.parametrize("sent", [None, 5, "enough"])
def test_yield_from_hands_on_what_is_sent_and_what_the_end_says(inner: Any, sent: Any) -> None:
    """`yield from` gives the value of the StopIteration; what is sent goes to the inner `send`, or there is none."""

    def delegates():
        yield "result", (yield from inner())

    def drives(x):
        generator = delegates()
        given = [next(generator)]
        try:
            given.append(generator.send(sent))
        except AttributeError as error:
            given.append(str(error))
        given.extend(generator)
        return x + len(given), given

    assert_same_as_eager(drives, X, graphs=1, breaks=0)


@PROGRAMS.parameters()
def test_iterators(run: Any) -> None:
    """Each program of this file does what eager does."""
    run()


def groups_walked_too_late(x, items):
    groups = list(itertools.groupby(items))
    return x + 1, [(key, list(group)) for key, group in groups]


def groups_walked_by_turns(x, items):
    groups = itertools.groupby(items, key=lambda item: item // 2)
    key, first = next(groups)
    item = next(first)
    then, second = next(groups, (None, iter(())))
    return x * item, key, list(first), then, list(second), list(groups)


def groups_of_what_is_left(x, items):
    walked = iter(items)
    key, group = next(itertools.groupby(walked))
    return x * key, list(group), list(walked)


@pytest.mark.parametrize("fn", [groups_walked_too_late, groups_walked_by_turns, groups_of_what_is_left])
def test_a_group_ends_where_the_next_begins(fn: Any) -> None:
    """Groups share one iterator: one that is walked when `groupby` has gone on is empty, and what ends it has been taken."""
    assert_same_as_eager(fn, X, [1, 1, 2, 3, 1], then=[(X, [1, 3, 3]), (X, [2])])


class Numbered:
    """Walked by `__getitem__` alone, and notes what was asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        if index >= self.count:
            raise IndexError(index)
        return index * 2


def by_turns(x, items):
    return x * 2, list(zip(items, items, strict=False))


def the_first_alone(x, items):
    return x * 2, next(iter(items))


def until_found(x, items):
    return x * 2, 2 in items, any(item for item in items)


def grown_meanwhile(x, items):
    walked = iter(items)
    first = next(walked)
    items.count = 3
    rest = list(walked)
    items.count = 9
    return x * first, rest, list(walked)


def handed_on_half_way(x, items):
    walked = iter(items)
    return x * next(walked), walked


@pytest.mark.parametrize("fn", [by_turns, the_first_alone, until_found, grown_meanwhile, handed_on_half_way])
def test_an_object_with_getitem_alone_is_walked_one_item_at_a_time(fn: Any) -> None:
    """What the object was asked for, and when, is as in Python: no item is taken ahead."""
    dynexplore.reset()
    compiled = dynexplore.optimize()(fn)
    for count in (2, 2, 4):
        results = []
        for function in (fn, compiled):
            items = Numbered(count)
            scaled, *told = function(X, items)
            results.append((scaled.tolist(), [list(one) if hasattr(one, "__next__") else one for one in told], items.asked))
        assert results[0] == results[1]
    assert dynexplore.counters["stats"]["graphs"] >= 1


def test_a_reversed_walk_by_index_may_end_early() -> None:
    """An IndexError ends `reversed`, too."""
    class Short:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            if index == 1:
                raise IndexError(index)
            return index

    assert_same_as_eager(lambda x: (x * 2, list(reversed(Short()))), X, calls=2, graphs=1)


class _AsksAgain:
    """Numbers; at some of its calls it asks the iterator that is asking it."""

    def __init__(self, at: set[int]) -> None:
        self.at, self.count, self.around = at, 0, None

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.count += 1
        return next(self.around) if self.count in self.at else [self.count]


@pytest.mark.parametrize("at", [{1}, {2}, {3}, {1, 2}, {2, 3}])
def test_a_pair_is_of_the_items_that_were_read_for_it(at: set[int]) -> None:
    """`pairwise` over an iterator that asks it again keeps the first item that it read."""

    def walk(x):
        numbers = _AsksAgain(at)
        numbers.around = pairs = itertools.pairwise(numbers)
        return x + 1, [next(pairs) for _ in range(3)]

    assert_same_as_eager(walk, X)


@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_a_total_of_none_is_a_total(taken: int) -> None:
    """`accumulate` whose total is None goes on from there after a break."""

    def walk(x):
        it = itertools.accumulate([None, None, None], operator.is_)
        head = [next(it) for _ in range(taken)]
        print("break")
        return x + 1, head, list(it)

    assert_same_as_eager(walk, X)


class _Items:
    """Iterated over by index."""

    def __getitem__(self, index: int) -> int:
        return (10, 20, 30)[index]


class _Text(str):
    """CPython walks over a subclass with the general iterator, even if the text is ASCII."""


_WALKED: dict[str, Callable[[], Any]] = {
    "text of a subclass": lambda: _Text("abc"), "no text of a subclass": lambda: _Text(""),
    "text of a subclass beyond ASCII": lambda: _Text("éab"),
    "text": lambda: "abc", "text beyond ASCII": lambda: "éab", "bytes": lambda: b"abc", "list": lambda: [1, 2, 3],
    "tuple": lambda: (1, 2, 3), "range": lambda: range(3), "deque": lambda: deque([1, 2, 3]), "set": lambda: {1, 2, 3},
    "frozenset": lambda: frozenset({1, 2, 3}), "by index": _Items, "dict": lambda: {1: 2, 3: 4},
    "keys": lambda: {1: 2, 3: 4}.keys(), "values": lambda: {1: 2, 3: 4}.values(), "items": lambda: {1: 2, 3: 4}.items(),
    "ordered dict": lambda: OrderedDict({1: 2, 3: 4}),
}  # fmt: skip


_NOT_BACKWARDS = ("set", "frozenset", "by index")


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize(
    ("kind", "backwards"), [(kind, way) for kind in _WALKED for way in (False, True) if not (way and kind in _NOT_BACKWARDS)]
)
def test_an_iterator_that_leaves_the_frame_has_cpythons_type(kind: str, backwards: bool, steps: int) -> None:
    """Those over bytes, and exhausted ones, were iterators over tuples."""
    walked = _WALKED[kind]()

    def returns(x: Any) -> Any:
        walk = reversed(walked) if backwards else iter(walked)
        for _ in range(steps):
            next(walk, None)
        return x + 1, walk

    def breaks(x: Any) -> Any:
        result, walk = returns(x)
        dynexplore.graph_break()
        return result * 2, type(walk), walk

    for fn in (returns, breaks):
        dynexplore.reset()
        optimized = dynexplore.optimize("eager")(fn)
        for _ in range(2):
            _, *given, walk = optimized(torch.ones(2))
            _, *expected, plain = fn(torch.ones(2))
            assert (type(walk), given, list(walk)) == (type(plain), expected, list(plain))
        assert dynexplore.counters["stats"]["graphs"] > 0
