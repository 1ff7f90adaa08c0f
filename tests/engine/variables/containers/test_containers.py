"""Containers in traced code: lists, tuples, dicts, sets, deques, named tuples, ranges and slices against eager."""

from __future__ import annotations

import collections
import math
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
import torch
from programs.program_table import Programs, caught

from engine_checks import assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)
Point = collections.namedtuple("Point", "x y")


class Pair(NamedTuple):
    """A named tuple with a default and methods."""

    first: Any
    second: Any = 2

    def total(self) -> Any:
        return self.first + self.second

    @property
    def swapped(self) -> Pair:
        return Pair(self.second, self.first)


# -- lists ------------------------------------------------------------------------------------------------------------


@program(X, graphs=1, ops=4)
def builds_and_unpacks(x):
    items = [x, x + 1]
    items.append(x * 2)
    first, *rest = items
    (a, b), c = rest, 3
    return first + a * b, rest, [*items, c], (*rest,), len(items)


@program(X, [1, 2, 3], graphs=1, ops=1)
def changes_an_argument(x, items):
    items.append(x + 1)
    items[0] = "zero"
    items.insert(1, x)
    items.extend((4, 5))
    del items[2]
    return items.pop(), items.pop(0), items


@program(X, [3, 1, 2], graphs=1, ops=1)
def sorts_and_reverses(x, items):
    items.sort()
    copy = items.copy()
    items.sort(key=lambda v: -v)
    copy.reverse()
    return x * items[0], sorted([x.shape[1], 1, 2], reverse=True), copy, items


@program(X, graphs=1, ops=1)
def slices(x):
    x = x + 1
    items = list(range(8))
    items[2:4] = [x, x, x]
    items[::3] = ["a", "b", "c"]
    del items[-2:]
    return items[1:-1], items[::-1], items[5:2], items[None:None:2], (1, 2, 3)[1:], "abcdef"[::2]


@program(X, graphs=1, ops=1)
def repeats_and_concatenates(x):
    x = x + 1
    a = [x] * 2 + [1]
    a += (2, 3)
    a *= 2
    t = (1,) + (2,) * 2
    t += (x,)
    return a, t, 2 * [0], 3 * (None,)


@program(X, graphs=1, ops=1)
def finds(x):
    items = [1, 2.0, "three", None, (1, 2), 2]
    return (
        x + items.index(2),
        items.count(2),
        "three" in items,
        None in items,
        (1, 2) in items,
        5 not in items,
        items.index(2, 2),
        (1, 2).index(2),
        (1, 1).count(1),
        2 in (1, 2),
    )


@program(X, graphs=1, ops=1)
def compares(x):
    x = x + 1
    return (
        x,
        [1, 2] == [1, 2.0],
        [1, 2] != [1],
        [1, 2] < [1, 3],
        (1, 2) <= (1, 2),
        (1,) > (1, 0),
        [1] == (1,),
        [] == 0,
        [x] == [x],
        (1, "a") >= (0, 5),
        [1, [2, (3,)]] == [1, [2, (3,)]],
        None == [],
        {} != [],
    )


@program(X, graphs=1, ops=1)
def list_errors(x):
    items = [1, 2]
    return (
        x + 1,
        caught(lambda: items[5]),
        caught(lambda: items.pop(7)),
        caught(lambda: [].pop()),
        caught(lambda: items["a"]),
        caught(lambda: items.index(9)),
        caught(lambda: items.remove(9)),
        caught(lambda: (1,)[3]),
        caught(lambda: items + (1,)),
        caught(lambda: items < 3),
        caught(lambda: items * "a"),
        caught(lambda: -items),
        caught(lambda: items.foo),
        caught(lambda: hash(items)),
        caught(lambda: items.extend(3)),
        caught(lambda: (1,).index(4)),
        caught(lambda: items.__setitem__(slice(0, 2, 2), [1, 2])),
    )


@program(X, graphs=1, ops=1)
def unpacking_errors(x):
    x = x + 1
    def two(items):
        a, b = items
        return a + b

    def many(items):
        a, *b, c, d = items
        return a

    return x, caught(lambda: two([1])), caught(lambda: two((1, 2, 3))), caught(lambda: many([1, 2])), two(range(2))


@program(X, graphs=1, ops=3)
def grows_while_walked(x):
    items = [x]
    for item in items:
        if len(items) < 4:
            items.append(item + 1)
    return items


@program(X, graphs=1, ops=1)
def shrinks_while_walked(x):
    x = x + 1
    items = [1, 2, 3, 4]
    seen = []
    for item in items:
        seen.append(item)
        items.remove(item)
    return x, seen, items


@program(X, [[1], [2]], graphs=1, ops=1)
def keeps_identity(x, nested):
    x = x + 1
    alias = nested[0]
    alias.append(x)
    both = [alias, alias]
    both[0].append(3)
    return nested, both, both[0] is both[1], alias is nested[0], nested.copy() is nested


@program([[1, 2], [3]], [4], graphs=1, ops=2)
def moves_items_between_lists(nested, other):
    first = nested[0]
    nested[0] = other
    other.append(first)
    first.append(nested.pop())
    return torch.ones(2) * first[0]


@program(X, graphs=1, ops=3)
def methods_as_values(x):
    out = []
    put = out.append
    for i in range(3):
        put(x * i)
    get = out.__getitem__
    list.append(out, 1)
    return get(0), out, list.__len__(out), str.upper("a"), "".join(map(str.lower, "ABC"))


@program(X, graphs=1, ops=8)
def comprehensions(x):
    rows = [[x[i, j] for j in range(3)] for i in range(2)]
    return rows, {i: x[i] for i in range(2)}, {i % 2 for i in range(5)}, [i for i in range(6) if i % 2 if i > 1]


@program(X, graphs=1, ops=3)
def lists_into_torch(x):
    return torch.stack([x, x + 1]), torch.cat((x, x), dim=-1), x.permute(*[1, 0]), x.reshape([3, 2]), x.sum((0, 1))


# -- tuples and sizes -------------------------------------------------------------------------------------------------


@program(X, graphs=1, ops=1)
def sizes(x):
    shape = x.shape
    return (
        shape,
        shape[0],
        shape[-1:],
        len(shape),
        shape.numel(),
        shape == (2, 3),
        shape + (1,),
        (*shape, 4),
        list(shape),
        x.new_zeros(shape),
        torch.zeros(shape[:1] + (2,)),
        isinstance(shape, tuple),
        shape == torch.Size([2, 3]),
        x.view(*shape[::-1]),
        x.size() == shape,
        hash(shape) == hash((2, 3)),
        str(shape),
        shape * 2,
    )


@program(X, (1, 2), graphs=1, ops=2)
def tuple_argument(x, pair):
    a, b = pair
    return x * a + b, pair, pair + (3,), pair is pair, pair[::-1]


@program(X, Point(1, 2), Pair(3), graphs=1, ops=1)
def named_tuples(x, point, pair):
    made = Point(x, y=2)
    return (
        point.x + x,
        made,
        made._replace(x=1),
        pair.total(),
        pair.swapped,
        pair,
        Pair(x).second,
        made[0] is made.x,
        point == (1, 2),
        made._fields,
        tuple(point),
        Point._make([1, x]),
        made._asdict(),
        len(made),
        isinstance(made, Point),
        Point(1, 2) == Point(1, 2),
        point + (3,),
        point[1:],
        str(point),
        repr(Pair(1)),
    )


@program(X, graphs=1, ops=6)
def torch_named_results(x):
    result = torch.max(x, 1)
    values, indices = x.sort(-1)
    return result, result.values, result.indices, result[0], values, indices, x.topk(2).values, len(result)


# -- dicts ------------------------------------------------------------------------------------------------------------


@program(X, {"a": 1, "b": torch.ones(3)}, graphs=1, ops=2)
def changes_a_dict(x, d):
    d["c"] = x
    d["a"] += 1
    d.update(b=2, e=x + d["b"])
    del d["b"]
    return d.pop("c") * 2, d.pop("zzz", None), d.setdefault("a", 5), d.setdefault("f", []), d.get("q"), d.get("a", 0), d


@program(X, graphs=1, ops=1)
def dict_views(x):
    x = x + 1
    d = {"b": 2, 3: None, "a": x}
    keys, values, items = d.keys(), d.values(), d.items()
    d["late"] = 4
    return (
        list(keys),
        list(values),
        list(items),
        len(keys),
        "late" in keys,
        2 in values,
        ("b", 2) in items,
        ("b", 3) in items,
        keys & {"a", "zz"},
        keys - {"a"},
        {"a": 1}.items() == {"a": 1}.items(),
        {"a"} == {"a": 1}.keys(),
        [k for k in d],
        [f"{k}:{type(v).__name__}" for k, v in d.items()],
        list(reversed(d)),
        sorted(map(str, keys)),
    )


@program(X, graphs=1, ops=1)
def makes_dicts(x):
    x = x + 1
    pairs = [("a", x), ("b", 2)]
    merged = {**dict(pairs), "c": 3} | {"a": 0}
    merged |= {"d": 4}
    return (
        dict(pairs, z=1),
        dict(a=1),
        merged,
        dict.fromkeys("ab", 0),
        dict(zip("xy", (x, x))),
        {1: "int", 1.0: "float", True: "b"},
        {(1, 2): x}[1, 2],
        {None: 1, "n": {"m": [x]}}["n"]["m"][0],
        {**{}, "only": x},
        len({}),
        bool({}),
        dict({"q": 1}.items()),
    )


@program(X, {"a": 1}, graphs=1, ops=1)
def dict_errors(x, d):
    x = x + 1
    return (
        x,
        caught(lambda: d["q"]),
        caught(lambda: d.pop("q")),
        caught(lambda: {}.popitem()),
        caught(lambda: d[[]]),
        caught(lambda: {}.foo),
        caught(lambda: dict([1])),
        caught(lambda: dict([(1, 2, 3)])),
        caught(lambda: d + d),
        caught(lambda: d < d),
        caught(lambda: d.__delitem__("q")),
    )


@program(X, graphs=1, ops=1)
def dict_grows_while_walked(x):
    x = x + 1
    d = {"a": 1}

    def walk():
        for key in d:
            d[key + "b"] = 1

    return x, caught(walk), d


@program(X, OrderedDict(a=1, b=2, c=3), graphs=1, ops=1)
def ordered_dicts(x, d):
    x = x + 1
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    made = OrderedDict([("x", x), ("y", 1)])
    return (
        d,
        made,
        list(d),
        made.popitem(),
        made.popitem(last=False),
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        OrderedDict(a=1, b=2) == {"b": 2, "a": 1},
        list(reversed(d)),
        d.copy(),
        str(OrderedDict(a=1)),
    )


@program(X, defaultdict(list, k=[1]), graphs=1, ops=1)
def default_dicts(x, d):
    d["new"].append(x)
    d["k"].append(2)
    counts = defaultdict(int)
    for letter in "abca":
        counts[letter] += 1
    lazy = defaultdict(lambda: x + 1)
    return (
        d,
        counts,
        lazy["q"],
        dict(counts),
        d.get("absent"),
        "absent" in d,
        counts.default_factory,
        caught(lambda: defaultdict(None)["q"]),
    )


@program(X, {torch.float32: 1, 5: 2, (1, "a"): 3, None: 4}, graphs=1, ops=1)
def unusual_keys(x, d):
    d[x.dtype] += 1
    d[torch.device("cpu")] = 0
    return x * d[5], d[1, "a"], d[None], d


@program(X, torch.nn.Linear(3, 3), torch.ones(2), graphs=1, ops=1)
def objects_as_keys(x, module, key):
    x = x + 1
    d = {module: 1, key: 2, torch.relu: 3, torch.nn.Linear: 4}
    d[key] = x
    return d[module], d[key], d[torch.relu], d[torch.nn.Linear], key in d, x in d, len(d)


@program(X, graphs=1, ops=1)
def mapping_proxies(x):
    inner = {"a": x}
    proxy = types.MappingProxyType(inner)
    inner["b"] = 2
    return (
        proxy["a"] + 1,
        len(proxy),
        "b" in proxy,
        list(proxy.items()),
        proxy.get("q"),
        caught(lambda: proxy.__setitem__("a", 1)),
    )


@program(X, {"deep": {"er": [torch.zeros(2), {"x": 1}]}}, graphs=1, ops=2)
def nested_arguments(x, d):
    d["deep"]["er"][1]["x"] = x.sum(0)
    d["deep"]["er"].append(d["deep"]["er"][0] + 1)
    d["self"] = d["deep"]
    return d["deep"]["er"][1]["x"] * 2


@program({"a": torch.ones(2), "b": torch.ones(3)}, breaks=0, graphs=1, ops=2)
def dict_of_tensors(d):
    return {key: value * 2 for key, value in d.items()}


# -- sets -------------------------------------------------------------------------------------------------------------


@program(X, {1, 2, 3}, graphs=1, ops=1)
def sets(x, s):
    s.add(7)
    s.discard(1)
    s.remove(2)
    s |= {9}
    other = {3, 4}
    return (
        x * len(s),
        s,
        s | other,
        s & other,
        s - other,
        s ^ other,
        3 in s,
        other <= s,
        {3} < s,
        s == {3, 7, 9},
        s.union([1], (2,)),
        s.isdisjoint([5]),
        sorted(s),
        set("hello") == set("olleh"),
        frozenset([1, 1]),
        {*"ab"} >= {"a"},
        {(1, 2), (1, 2.0)},
        len({1, 1.0, True}),
    )


@program(X, graphs=1, ops=1)
def set_order_of_numbers(x):
    x = x + 1
    return x, list({5, 1, 9, 33, 2}), [i for i in {10, 3, 7}], list(frozenset((4, 2, 8)))


@program(X, {"b", "a"}, graphs=1, ops=1)
def walks_a_set_of_strings(x, names):
    x = x + 1
    return x, sorted(names), {name: len(name) for name in sorted(names)}


@program(X, graphs=1, ops=1)
def set_errors(x):
    x = x + 1
    return (
        x,
        caught(lambda: {1}.remove(2)),
        caught(lambda: set().pop()),
        caught(lambda: {[]}),
        caught(lambda: {1} + {2}),
        caught(lambda: {1} < 2),
        caught(lambda: set(3)),
    )


@program(X, torch.ones(2), torch.zeros(2), graphs=1, ops=1)
def sets_of_tensors(x, a, b):
    seen = set()
    seen.add(a)
    seen.add(a)
    return x + len(seen), a in seen, b in seen, len({a, b, a})


# -- deques, ranges, slices -------------------------------------------------------------------------------------------


@program(X, deque([1, 2, 3], maxlen=4), graphs=1, ops=1)
def deques(x, d):
    x = x + 1
    d.append(4)
    d.append(x)
    d.appendleft(0)
    d.rotate(1)
    made = deque([x])
    made.extendleft([1, 2])
    return (
        d,
        d[0],
        d.popleft(),
        d.pop(),
        len(d),
        made,
        d.maxlen,
        list(reversed(made)),
        caught(lambda: deque().pop()),
        caught(lambda: d[0:1]),
        caught(lambda: d[9]),
        2 in made,
    )


@program(X, graphs=1, ops=1)
def ranges(x):
    r = range(1, 10, 3)
    return (
        x[range(2)[1]],
        len(r),
        r[1],
        r[-1],
        list(r[1:]),
        4 in r,
        r == range(1, 11, 3),
        r.start,
        r.stop,
        r.step,
        list(reversed(r)),
        bool(range(0)),
        sum(range(5)),
        str(r),
        list(range(3, 0, -1)),
        caught(lambda: range(1)[5]),
        caught(lambda: range("a")),
        caught(lambda: range(1, 2, 0)),
    )


@program(X, slice(0, 1), 1, graphs=1, ops=4)
def slice_objects(x, s, stop):
    made = slice(None, stop)
    return (
        x[s],
        x[made],
        [1, 2, 3][made],
        x[..., made],
        x[(made, None)],
        s.start,
        made.stop,
        slice(1, 2) == slice(1, 2),
        (slice(-3, None).indices(5)),
    )


@program(X, range(3), graphs=1, ops=3)
def range_argument(x, r):
    return [x * i for i in r]


@PROGRAMS.parameters()
def test_containers(run: Any) -> None:
    """Each program of this file does what eager does."""
    run()


def test_a_changed_key_is_a_new_entry() -> None:
    """A dict with other keys, or the same keys in another order, is translated again."""

    def total(d):
        return sum(d.values()), list(d)

    one, two = torch.ones(2), torch.ones(2) * 2
    assert_same_as_eager(total, {"a": one, "b": two}, then=[({"b": two, "a": one},), ({"a": one},)], recompiles=2)


def test_a_longer_list_is_a_new_entry() -> None:
    """A list of another length is translated again, one of the same length is not."""

    def total(items):
        return sum(items)

    one = torch.ones(2)
    assert_same_as_eager(total, [one, one + 1], then=[([one * 2, one * 3],), ([one] * 3,)], recompiles=1)


@pytest.mark.parametrize("other", [[1, 2], (1,), {}, None], ids=str)
def test_another_type_is_a_new_entry(other: Any) -> None:
    """A value of another type in place of a tuple is translated again."""

    def show(x, items):
        return x + 1, repr(items)

    assert_same_as_eager(show, X, (1, 2), then=[(X, other)], recompiles=1)


@pytest.mark.parametrize("place", range(3), ids=["range", "arithmetic", "views"])
def test_sizes_that_vary(place: int) -> None:
    """A size that varies is a symbol; where Python needs the number itself, it is guarded."""

    def walks(x):
        return [x * i for i in range(x.shape[0])], [0] * x.shape[0], list(range(9))[: x.shape[0]], f"{x.shape[0]}"

    def computes(x):
        n = x.shape[0]
        return x.sum() * n, max(n, 3), min(n, 1), n // 2, n in [2, 5], {n: 1}, round(n / 3), divmod(n, 2), abs(-n), math.sqrt(n)

    def reshapes(x):
        b, c = x.shape
        return (
            x.view(b * c),
            torch.zeros(b, 2),
            x[: b - 1],
            x.new_ones(*x.shape[:-1], 4),
            x.shape.numel(),
            tuple(x.shape),
            b == x.size(0),
        )

    sizes = [torch.arange(3.0 * n).reshape(n, 3) for n in (2, 4, 5, 7)]
    report = assert_same_as_eager([walks, computes, reshapes][place], sizes[0], then=[(size,) for size in sizes[1:]], breaks=0)
    if place == 2:
        assert len(report.graphs) == 2


def sorts_what_its_key_changes(x: Any, items: list[int]) -> Any:
    def key(item: int) -> int:
        seen.append(len(items))
        if item == 1:
            items.append(9)
        return item

    seen: list[int] = []
    try:
        items.sort(key=key)
    except ValueError as error:
        return x + 1, str(error), items, seen
    return x * 2, items, seen


def sorts_with_a_key_that_raises(x: Any, items: list[int]) -> Any:
    try:
        items.sort(key=lambda item: 1 // (item - 2))
    except ZeroDivisionError:
        return x + len(items), items


@pytest.mark.parametrize("program", [sorts_what_its_key_changes, sorts_with_a_key_that_raises])
def test_a_list_is_empty_while_it_is_sorted(program: Any) -> None:
    """To the key function the list is empty; what it puts there is lost, and is an error; after an error the items are back."""
    assert_same_as_eager(program, torch.ones(2), [3, 2, 1], then=[(torch.ones(2), [5, 4])])


class Doubling(dict):  # type: ignore[type-arg]
    """A dict whose class answers otherwise than the dict would."""

    def keys(self) -> Any:
        return [key for key in super().keys() if key != "hidden"]

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) * 2


class DoublingWalked(Doubling):
    """The same with a walk of its own, so that CPython asks the class."""

    def __iter__(self) -> Any:
        return iter(list(dict.keys(self)))


@pytest.mark.parametrize("cls", [Doubling, DoublingWalked])
def test_a_dict_of_a_class_of_its_own_is_merged(cls: type[Any]) -> None:
    """`dict(d)`, `{**d}`, `f(**d)` and `update` look into a dict whose class has no `__iter__`, and ask its class otherwise."""

    def taken(x: torch.Tensor, **named: int) -> Any:
        return x * named["a"], sorted(named)

    def fn(x: torch.Tensor, held: Any) -> Any:
        merged = {"z": 1}
        merged.update(held)
        return taken(x, **held), {**held}, dict(held), merged

    assert_same_as_eager(fn, torch.ones(2), cls(a=1, hidden=2), then=[(torch.ones(2), cls(a=3, b=4))], graphs=2)


def test_a_nan_is_a_key_by_identity() -> None:
    """Two NaNs are two keys: another one in a later call is not found, though a guard on its value holds."""
    nan = float("nan")
    seen = {nan: 1}

    def fn(x: torch.Tensor, key: float) -> Any:
        return x * seen.get(key, 5), key in seen

    X = torch.ones(2)
    assert_same_as_eager(lambda x, own: fn(x, nan if own else float("nan")), X, True, then=[(X, False), (X, True)])


def factory_that_sets_the_key(x):
    count = 0

    def factory():
        nonlocal count
        count += 1
        mine = count
        if mine == 1:
            items["key"]
        return mine

    items = defaultdict(factory)
    return x + 1, items["key"], count, dict(items)


def items_of_a_deque_set_under_an_iterator(x):
    items = deque([1, 2, 3])
    walk = iter(items)
    print("between")
    for index in range(3):
        items[index] = index * 10
    return x + 1, list(walk)


def deque_set_after_it_grew_under_an_iterator(x):
    items = deque([1, 2, 3])
    walk = iter(items)
    print("between")
    items[0] = 7
    items.append(4)
    try:
        return x + 1, list(walk)
    except RuntimeError as error:
        return x + 1, str(error), items


def deque_multiplied_behind_a_break(x):
    items = deque([1, 2], 3)
    print("between")
    items *= 2
    items[0] = 5
    return x + 1, items


@pytest.mark.parametrize(
    "function",
    [
        factory_that_sets_the_key,
        items_of_a_deque_set_under_an_iterator,
        deque_set_after_it_grew_under_an_iterator,
        deque_multiplied_behind_a_break,
    ],
)
def test_containers_that_change_while_they_are_read(function: Any) -> None:
    """A defaultdict whose factory stores the key itself, and a deque that an iterator walks."""
    assert_same_as_eager(function, X, calls=2)
