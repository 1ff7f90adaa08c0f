"""Rules for builtins: each gives what the real function gives, of constants and containers of them."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, NamedTuple

import pytest
import torch
from engine.variables.fake_context import Call, FakeContext, plain, raised

from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.rules import rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from sameness import without_addresses

pytestmark = pytest.mark.plain("asks rules in a context without translator")

Point = namedtuple("Point", "x y")


class Pair(NamedTuple):
    """A named tuple with a default."""

    first: Any
    second: Any = 2


CALLS: list[tuple[Any, ...]] = [
    (len, [1, 2]), (len, "abc"), (len, {"a": 1}), (len, 3), (list, "ab"), (list, (1, 2)), (list,), (list, 3), (tuple,
    [1]), (tuple,), (set, [1, 1]), (frozenset, "aa"), (dict, [("a", 1)]), (dict,), (dict, [1]), (range, 3), (range, 1,
    7, 2), (range, "a"), (range, 1, 2, 0), (slice, 1), (slice, 1, 2, 3), (sum, [1, 2.5]), (sum, [[1], [2]], []), (sum,
    ["a"], ""), (sum, [0.1] * 10), (max, 3, 1), (max, [1, 5]), (max, []), (max, 1, "a"), (min, "hello"), (min, {2: 0,
    1: 0}), (all, [1, 0]), (any, [0, 1]), (any, []), (bool, []), (bool, "a"), (bool,), (sorted, [3, 1, 2]), (sorted,
    [1, "a"]), (abs, -3), (abs, "a"), (abs, []), (round, 2.567, 1), (round, 2.5), (round, "a"), (pow, 2, 5), (pow, 2,
    5, 3), (divmod, 7, 2), (divmod, 1, 0), (int, "12"), (int, 3.9), (int, "ff", 16), (int, []), (int,), (float,
    "1.5"), (float, None), (complex, 1, 2), (bin, 5), (hex, 255), (oct, 8), (ord, "a"), (ord, "ab"), (chr, 97), (str,
    1), (str,), (str, [1, "a", (2,)]), (repr, {"a": {1}}), (ascii, "é"), (format, 3.14159, ".2f"), (format, 1, "zz"),
    (isinstance, 1, int), (isinstance, [], (str, list)), (isinstance, {}, Mapping), (isinstance, 1, 2), (isinstance,
    1, int | str), (isinstance, True, int), (issubclass, bool, int), (issubclass, 1, int), (callable, len), (callable,
    1), (hasattr, [], "append"), (hasattr, 1, "foo"), (hasattr, 1, 2), (getattr, "ab", "foo", 5), (getattr, [],
    "foo"), (hash, "a"), (hash, (1, 2)), (hash, []), (next, iter([])), (next, [1]), (iter, 3), (type, 1), (type, []),
    (math.sqrt, 2.0), (math.sqrt, -1.0), (math.floor, 2.7), (math.ceil, -1.5), (math.trunc, 1.9), (math.prod, [1, 2,
    3]), (math.gcd, 12, 8), (math.log, 8, 2), (math.isclose, 1.0, 1.0), (math.floor, []), (operator.add, 1, 2),
    (operator.add, [1], [2]), (operator.mul, "a", 3), (operator.lt, 1, 2), (operator.eq, [1], [1]), (operator.not_,
    []), (operator.truth, [1]), (operator.neg, 3), (operator.neg, "a"), (operator.contains, [1], 1),
    (operator.getitem, [1, 2], 1), (operator.index, 3), (operator.index, 1.5), (operator.concat, "a", "b"),
    (operator.iadd, [1], (2,)),    (operator.countOf, [1, 1], 1), (OrderedDict, [("a", 1)]), (deque, [1, 2], 1),
    (deque, [], -1), (bytes, [1, 2]), (divmod, "a", 1),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0].__name__}-{without_addresses(str(call[1:]))}")
def test_same_as_python(call: tuple[Any, ...]) -> None:
    """The rule gives the value, or raises the exception, that the real call gives or raises."""
    function, *args = call
    ctx = FakeContext()
    trackers = [ctx.made(arg) for arg in args]
    try:
        expected = function(*args)
    except Exception as error:
        with pytest.raises(ObservedException) as found:
            ctx.call(function, *trackers)
        assert raised(found.value) == f"{type(error).__name__}: {error}".removesuffix(": ")
        return
    answer = ctx.call(function, *trackers)
    if isinstance(expected, type):
        assert answer.live_value() is expected
        return
    assert answer.python_type() is type(expected)
    assert repr(plain(ctx, answer)) == repr(plain(ctx, ctx.made(expected)))


@pytest.mark.parametrize("function", [print, input, open, eval, exec, breakpoint, globals, locals], ids=lambda f: f.__name__)
def test_what_acts_on_the_world_breaks(function: Any) -> None:
    """Printing, files and running text as code break the graph."""
    with pytest.raises(GraphBreak):
        FakeContext().call(function)


def test_a_call_that_does_not_fit_raises_what_python_says() -> None:
    """The wrong number of arguments, or a keyword that is not there, is the TypeError of the real call."""
    ctx = FakeContext()
    for function, args, kwargs in ((len, [1, 2], {}), (len, [], {"obj": 1}), (sorted, [[1]], {"wrong": 1})):
        with pytest.raises(TypeError) as expected:
            function(*args, **kwargs)
        with pytest.raises(ObservedException, match=re.escape(str(expected.value))):
            ctx.call(function, *map(ctx.made, args), **{key: ctx.made(value) for key, value in kwargs.items()})


def test_a_rule_knows_where_it_stands() -> None:
    """A row that is written as a plain function is found in its own file and line."""
    row = rule_for(len)
    assert row is not None
    assert row.file.endswith("builtin_rules.py")
    assert row.line > 1


def test_keys_and_reverse() -> None:
    """sorted, max and min with a key function; sorting is stable."""
    ctx = FakeContext()
    first = Call(ctx, lambda pair: pair[0])
    pairs = ctx.made([(2, "a"), (1, "b"), (2, "c")])
    assert plain(ctx, ctx.call(sorted, pairs, key=first)) == [(1, "b"), (2, "a"), (2, "c")]
    assert plain(ctx, ctx.call(sorted, pairs, key=first, reverse=ctx.made(True))) == [(2, "a"), (2, "c"), (1, "b")]
    assert plain(ctx, ctx.call(max, pairs, key=first)) == (2, "a")
    assert plain(ctx, ctx.call(min, ctx.made([]), default=ctx.made("none"))) == "none"


def test_named_tuples() -> None:
    """Fields by name and place, `_replace`, `_asdict`, defaults, equality with tuples, text."""
    ctx = FakeContext()
    point = ctx.argument(Point(1, [2]))
    assert ctx.guards == [("arg", "TYPE_MATCH"), ("arg", "LIST_LENGTH")]
    assert plain(ctx, point.get_attribute(ctx, "y")) == [2]
    assert ctx.method(point, "_replace", x=5) == [5, [2]]
    assert ctx.method(point, "_asdict") == {"x": 1, "y": [2]}
    assert plain(ctx, ctx.call(repr, ctx.made(Point(1, 2)))) == "Point(x=1, y=2)"
    made = ctx.call(Pair, ctx.made(1))
    assert made.as_constant() == Pair(1, 2)
    assert made.hash_key(ctx) == (1, 2)


def test_structures_of_torch() -> None:
    """What torch.max returns has named items too."""
    ctx = FakeContext()
    made = ctx.made(torch.return_types.max((1, 2)))
    assert plain(ctx, made.get_attribute(ctx, "indices")) == 2
    assert made.python_type() is torch.return_types.max


def test_deques() -> None:
    """A full deque lets the other end fall out; changes while it is walked raise."""
    ctx = FakeContext()
    d = ctx.argument(deque([1, 2, 3], maxlen=3))
    assert ("arg.maxlen", "EQUALS") in ctx.guards
    ctx.method(d, "append", 4)
    assert plain(ctx, d) == [2, 3, 4]
    ctx.method(d, "appendleft", 0)
    assert plain(ctx, d) == [0, 2, 3]
    ctx.method(d, "rotate", 1)
    assert plain(ctx, d) == [3, 0, 2]
    assert ctx.method(d, "popleft") == 3
    iterator = d.iterate(ctx)
    iterator.next_item(ctx)
    ctx.method(d, "append", 9)
    with pytest.raises(ObservedException) as error:
        iterator.next_item(ctx)
    assert raised(error.value) == "RuntimeError: deque mutated during iteration"


def test_ranges_and_slices() -> None:
    """Their numbers are guarded one by one, and what Python does with them is done by a real range or slice."""
    ctx = FakeContext()
    r = ctx.argument(range(1, 9, 3))
    assert [kind for _, kind in ctx.guards] == ["TYPE_MATCH", "EQUALS", "EQUALS", "EQUALS"]
    assert plain(ctx, r.get_item(ctx, ConstantVariable(-1))) == 7
    assert plain(ctx, r.get_item(ctx, ctx.made(slice(1, None)))) == range(4, 10, 3)
    assert r.contains(ctx, ConstantVariable(4)).as_constant() is True
    assert ctx.method(ctx.made(slice(-3, None)), "indices", 5) == (2, 5, 1)
    assert ctx.made(slice(None, 2)).as_proxy() == slice(None, 2, None)


def test_partials() -> None:
    """A partial calls its function with more arguments; a partial of a partial is one."""
    ctx = FakeContext()
    given = ctx.argument(functools.partial(pow, 2))
    assert plain(ctx, given.call(ctx, [ctx.made(5)], {})) == 32
    made = ctx.call(functools.partial, ctx.call(functools.partial, ctx.made(max), ctx.made(1)), ctx.made(7))
    assert plain(ctx, made.call(ctx, [], {})) == 7
    assert plain(ctx, made.get_attribute(ctx, "args")) == (1, 7)
    assert plain(ctx, ctx.call(functools.reduce, ctx.made(operator.add), ctx.made([1, 2, 3]))) == 6


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("%d|%5.2f|%s", (1, 2.5, [1])), ("%s", (None,)), ("%(a)s", {"a": 1}), ("%d", ("a",)), ("%s %s", (1,)), ("%%", ()),
    ],
    ids=str,
)  # fmt: skip
def test_percent(text: str, args: Any) -> None:
    """`%` formats as Python does, and raises what Python raises."""
    from dynexplore.engine.variables.operators import binary

    ctx = FakeContext()
    try:
        expected = text % args
    except TypeError as error:
        with pytest.raises(ObservedException) as found:
            binary(ctx, "%", ctx.made(text), ctx.made(args))
        assert raised(found.value) == f"TypeError: {error}"
    else:
        assert binary(ctx, "%", ctx.made(text), ctx.made(args)).as_constant() == expected


def test_text_of_containers_asks_each_item_once_it_is_needed() -> None:
    """An item without a text of its own breaks the graph only when its text is asked for."""
    ctx = FakeContext()
    nest = ctx.argument(["a", object()])
    text = ctx.made("{0[0]}")
    assert plain(ctx, text.call_method(ctx, "format", [nest], {})) == "a"
    with pytest.raises(GraphBreak):
        ctx.call(str, nest)


def test_protocols_of_the_standard_library() -> None:
    """isinstance with abstract classes asks the type."""
    ctx = FakeContext()
    for value, wanted in (([], Sized), ({}, Iterable), (len, Callable), (3, Iterable)):
        assert plain(ctx, ctx.call(isinstance, ctx.made(value), ctx.made(wanted))) == isinstance(value, wanted)
