"""Builtins, operator, functools, math and text in traced code against eager."""

from __future__ import annotations

import copy
import functools
import math
import operator
import re
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from programs.program_table import Programs, caught

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)
Point = namedtuple("Point", "x y")


class Plain:
    """A class with attributes, methods and special methods."""

    scale = 3

    def __init__(self, value: Any) -> None:
        self.value = value

    def double(self) -> Any:
        return self.value * 2

    def __repr__(self) -> str:
        return f"Plain({self.value!r})"

    def __len__(self) -> int:
        return 7

    def __abs__(self) -> Any:
        return "absolute"

    def __index__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __call__(self, x: Any) -> Any:
        return x + self.value


@program(X, graphs=1, ops=3)
def numbers(x):
    return (
        x * abs(-2),
        round(2.567, 2),
        round(2.5),
        pow(2, 3),
        pow(2, 3, 5),
        divmod(7, 2),
        int("12"),
        int(3.9),
        int("ff", 16),
        float("2.5"),
        complex(1, 2),
        bin(5),
        hex(255),
        oct(8),
        ord("a"),
        chr(98),
        abs(x - 3),
        pow(x, 2),
        bool([]),
        bool("a"),
        int(),
        float(),
        -5 // 2,
        7 % -3,
        2**0.5,
        ~5,
        1 << 4,
        5 & 6,
        5 ^ 1,
        not 0,
        +3,
        1e3,
        float("inf"),
        int(True),
    )


@program(X, graphs=1, ops=1)
def number_errors(x):
    x = x + 1
    return (
        x,
        caught(lambda: int("a")),
        caught(lambda: float([])),
        caught(lambda: int(None)),
        caught(lambda: abs("a")),
        caught(lambda: 1 / 0),
        caught(lambda: round("a")),
        caught(lambda: ord("ab")),
        caught(lambda: 1 + "a"),
        caught(lambda: "a" + 1),
        caught(lambda: math.sqrt(-1)),
        caught(lambda: math.sqrt("a")),
        caught(lambda: len(3)),
        caught(lambda: max([])),
        caught(lambda: max(1, "a")),
        caught(lambda: sorted([1, "a"])),
        caught(lambda: None < 1),
        caught(lambda: [] < {}),
        caught(lambda: -"a"),
        caught(lambda: None + 1),
        caught(lambda: None.foo),
    )


@program(X, graphs=1, ops=1)
def mathematics(x):
    return (
        x * math.pi,
        math.sqrt(2.0),
        math.floor(2.7),
        math.ceil(-2.2),
        math.log(8, 2),
        math.exp(1),
        math.prod([1, 2, 3]),
        math.gcd(12, 8),
        math.isclose(0.1 + 0.2, 0.3),
        math.inf,
        math.trunc(-1.5),
        math.hypot(3, 4),
        math.comb(5, 2),
        math.sin(1),
        math.isnan(float("nan")),
        math.factorial(5),
        math.log2(x.shape[0]),
        math.prod(x.shape),
        math.fsum([0.1] * 10),
    )


@program(X, graphs=1, ops=1)
def smallest_and_largest(x):
    x = x + 1
    return (
        x,
        max(1, 5, 3),
        min([2, 1]),
        max([], default="none"),
        min("hello"),
        max([1, -5], key=abs),
        max({"a": 1, "b": 0}),
        min((3, 1), (2, 9)),
        max(range(4)),
        max([[1], [2]]),
        min(Plain(2), Plain(1)).value,
        sorted([Plain(2), Plain(1)]),
        max(1, 1.0),
        max(True, 1),
        sum([1, 2]),
        sum(range(4), 10),
        all([]),
        any([]),
        all([1, 0]),
        any([0, "a"]),
    )


@program(X, Plain(2), graphs=1, ops=1)
def asks_about_types(x, obj):
    x = x + 1
    return (
        isinstance(x, torch.Tensor),
        isinstance(x, (int, float)),
        isinstance(1, int | str),
        isinstance(True, int),
        isinstance(obj, Plain),
        isinstance([], Sequence),
        isinstance({}, Mapping),
        isinstance(x, Iterable),
        isinstance(obj, Callable),
        isinstance(None, type(None)),
        isinstance(x, torch.nn.Parameter),
        isinstance(len, type(len)),
        issubclass(bool, int),
        issubclass(Plain, (int, object)),
        type(x) is torch.Tensor,
        type(obj) is Plain,
        type(obj).__name__,
        type(1) is int,
        type([]) is list,
        callable(obj),
        callable(len),
        callable(1),
        callable(lambda: 0),
        isinstance(x, torch.FloatTensor),
        isinstance(x, torch.LongTensor),
        isinstance(obj.double, type(obj.double)),
        caught(lambda: isinstance(1, 2)),
        caught(lambda: isinstance(1, list[int])),
        caught(lambda: issubclass(1, int)),
        type(x.shape),
        type(obj)(3).value,
        isinstance(Point(1, 2), tuple),
        obj.__class__ is Plain,
        type(type(obj)) is type,
        isinstance(x.dtype, torch.dtype),
        isinstance(x.shape, torch.Size),
        type(None) is type(None),
        isinstance("a", (str, (int,))),
    )


@program(X, Plain(2), graphs=1, ops=3)
def attributes_by_name(x, obj):
    setattr(obj, "new", x + 1)
    before = hasattr(obj, "gone"), hasattr(obj, "value"), hasattr(obj, "double"), hasattr(x, "sum"), hasattr(1, "real")
    delattr(obj, "new")
    return (
        x,
        before,
        getattr(obj, "value"),
        getattr(obj, "gone", "default"),
        getattr(obj, "double")(),
        getattr(x, "shape"),
        getattr(torch, "relu")(x),
        getattr(obj, "scale"),
        hasattr(obj, "new"),
        getattr(x, "T"),
        hasattr(torch, "no_such_thing"),
        caught(lambda: getattr(obj, "gone")),
        caught(lambda: getattr([], "gone")),
        caught(lambda: getattr(1, 2)),
        getattr(obj, "value", None),
        hasattr([], "append"),
        getattr("a", "upper")(),
        hasattr(None, "foo"),
    )


@program(X, Plain(2), graphs=1, ops=1)
def special_methods(x, obj):
    return (
        x,
        len(obj),
        abs(obj),
        [5, 6, 7][obj],
        obj == Plain(2),
        obj != Plain(3),
        obj in [Plain(2)],
        Plain(1) < obj,
        bool(Plain(0)),
        obj(x),
        {obj: 1}[Plain(2)],
        [Plain(1), obj].index(Plain(2)),
        list(range(3))[: Plain(1)],
        str(obj),
        f"{obj}",
        f"{obj!r:>10}",
        "{0.value} {0}".format(obj),
        "%s" % obj,
        sorted([obj, Plain(1)])[0].value,
        operator.index(obj),
        hash(obj) == hash(2),
        range(5)[obj],
        (not Plain(0)),
        any([Plain(0), Plain(1)]),
    )


@program(X, graphs=1, ops=6)
def operators_as_functions(x):
    items = [1, 2]
    operator.setitem(items, 0, x)
    return (
        operator.add(x, 1),
        operator.mul([1], 2),
        operator.itemgetter(1)([5, 6]),
        operator.itemgetter(0, 2)("abc"),
        operator.attrgetter("shape")(x),
        operator.methodcaller("sum", dim=0)(x),
        operator.not_([]),
        operator.truth([1]),
        operator.contains([1], 1),
        operator.is_(x, x),
        operator.is_not(x, None),
        operator.neg(x),
        operator.lt(1, 2),
        operator.getitem(x, 0),
        operator.iadd([1], [2]),
        operator.concat("a", "b"),
        operator.index(3),
        items,
        operator.countOf([1, 1, 2], 1),
        operator.matmul(x, x.T),
        operator.attrgetter("T.shape")(x),
    )


def power(base, exponent=2, *, scale=1):
    return base**exponent * scale


SQUARE_TWICE = functools.partial(power, scale=2)


@program(X, functools.partial(power, exponent=3), graphs=1, ops=9)
def partials(x, given):
    add = functools.partial(operator.add, x)
    nested = functools.partial(functools.partial(power, x), 3, scale=2)
    return (
        add(1),
        SQUARE_TWICE(x),
        given(x),
        given(x, scale=5),
        nested(),
        nested.func is power,
        nested.args[1],
        nested.keywords,
        list(map(functools.partial(pow, 2), range(3))),
        isinstance(add, functools.partial),
        add,
    )


@program(X, 3, "name", None, 2.5, graphs=1, ops=1)
def texts(x, number, name, nothing, real):
    x = x + 1
    return (
        x,
        f"{number} {name!r} {nothing} {real:.3f} {number:>5} {name:*^9} {x.shape} {x.dtype} {number=}",
        str(number),
        repr(name),
        "{} {1}".replace("1", "").format(number, name),
        "{a}-{b[0]}-{c.real}".format(a=1, b=[2], c=3),
        "%d|%5.2f|%s|%r|%%" % (1, 2.5, name, "q"),
        "%s" % number,
        "%(k)s" % {"k": [1, None]},
        "%s %s" % (x.shape, (1,)),
        ", ".join(["a", "b"]),
        "-".join(str(i) for i in range(3)),
        name.upper().lower().title(),
        name.split("a"),
        name[1:],
        name * 2,
        "a" in name,
        name.startswith("n"),
        name.replace("n", "m"),
        "a,b".partition(","),
        "x".join({"p": 1, "q": 2}),
        str([1, "a", {2: (3,)}]),
        repr({1, 2}),
        str(OrderedDict(a=1)),
        format(3.14159, ".2f"),
        format("a", ">3"),
        ascii("é"),
        str(b"a", "ascii"),
        f"{{}}",
        f"{number:0{5}d}",
        str(deque([1])),
        str(range(3)),
        str(slice(1)),
        str(Point(1, 2)),
        str(ValueError("bad")),
        str(int),
        f"{torch.float32}",
        str(x.device),
        "abc".encode(),
        "a\nb".splitlines(),
        "{:>{w}}".format("a", w=4),
        str(frozenset({1})),
        str(True),
        repr(None),
        str(...),
    )


@program(X, graphs=1, ops=1)
def text_errors(x):
    x = x + 1
    return (
        x,
        caught(lambda: "%d" % "a"),
        caught(lambda: "%s %s" % (1,)),
        caught(lambda: "{} {}".format(1)),
        caught(lambda: ",".join([1])),
        caught(lambda: f"{[1]:d}"),
        caught(lambda: "a"[5]),
        caught(lambda: "a".index("b")),
        caught(lambda: "{x}".format(y=1)),
        caught(lambda: format(1, "zz")),
        caught(lambda: "a" % 1),
        caught(lambda: "".foo()),
    )


@program(X, torch.nn.Linear(3, 2), graphs=1, ops=1)
def text_of_torch_things(x, module):
    return (
        module(x),
        f"{module.__class__.__name__} {tuple(module.weight.shape)} {x.size()} {x.dim()} {x.numel()}",
        type(module).__name__,
    )


@program(X, graphs=1, ops=1)
def identity_and_equality(x):
    a, b = [1], [1]
    return (
        x,
        a is b,
        a is a,
        a == b,
        x is x,
        (x + 1) is x,
        True is True,
        type(a) is type(b),
        "a" == "a",
        (lambda: 0) == (lambda: 0),
        len == len,
        torch.relu is torch.relu,
        Plain is Plain,
        Plain == Plain,
        x.dtype == torch.float32,
        x.dtype is torch.float32,
        x.device == torch.device("cpu"),
        None == 0,
        "" == [],
        x.device.type == "cpu",
        not a is b,
        5 != "5",
    )


@program(X, graphs=1, ops=1)
def conditional_values(x):
    x = x + 1
    a = x if x.shape[0] > 1 else None
    b = [] or "empty"
    c = 0 and 5
    d = a is not None and x.dim() == 2
    e = 1 < x.shape[1] <= 3
    (f := 4)
    return a, b, c, d, e, f, (x.shape[0] or 7), not [], {} or None


@functools.lru_cache
def cached(n):
    return n * 2


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@doubled
def plus_one(x):
    """Add one."""
    return x + 1


@program(X, graphs=1, ops=7)
def wrapped_functions(x):
    @doubled
    def local(y):
        return y - 1

    return plus_one(x), local(x), local.__name__, plus_one.__name__, plus_one.__wrapped__(x), local.__wrapped__(x), x * cached(3)


@program(X, {"a": [1, {2}], "t": (1, [2])}, graphs=1, ops=1)
def copies(x, d):
    shared = [1]
    nest = [shared, shared, (1, shared), x.shape]
    deep = copy.deepcopy(nest)
    deep[0].append(2)
    shallow = copy.copy(nest)
    shallow[0].append(3)
    inner = copy.deepcopy(d)
    inner["a"][1].add(5)
    constants = (1, ("a", None))
    return x + 1, nest, deep, deep[0] is deep[1], shallow, inner, d, copy.deepcopy(constants) is constants, copy.copy({"k": x})


NUMBER = re.compile(r"(\d+)")


@program(X, graphs=1, ops=1)
def regular_expressions(x):
    found = NUMBER.search("layer12.weight")
    return (
        x * int(found.group(1)), found.span(), re.sub("a", "b", "banana"), re.split(",", "a,b"), re.match("x", "y") is None,
        NUMBER.findall("1 22"), bool(re.fullmatch("a+", "aa")), NUMBER.pattern,
    )  # fmt: skip


@program(X, graphs=2, ops=[1, 1], breaks=["DX206"])
def prints(x):
    y = x + 1
    print("value", 1, [2], sep="-")
    return y * 2


@program(X, graphs=1, ops=1, breaks=["DX103"])
def text_of_a_tensor(x):
    return f"{x + 1}"


@program(X, graphs=1, ops=1, breaks=["DX103"])
def percent_of_a_tensor(x):
    return "%s" % (x + 1)


@program(X, graphs=1, ops=2, breaks=["DX111"])
def tensor_in_list(x):
    a = x.sum()
    return (a + 1) in [a, a + 2]


@program(X, graphs=1, ops=1, breaks=["DX108"])
def list_by_tensor(x):
    return ["a", "b"][(x.sum() * 0).long()]


@program(X, graphs=1, ops=2, breaks=["DX109"])
def range_of_a_tensor(x):
    return list(range((x.sum() * 0 + 3).long()))


@program(X, graphs=1, ops=1, breaks=["DX101"])
def number_of_a_tensor(x):
    return float(x.sum() + 1)


@program(X, graphs=1, ops=8)
def largest_tensor_in_arithmetic(x):
    a, b = x.sum(), x.mean()
    return max(a, 0) - min(max(0.5, b), 1) + x, x * max(a, b, 3)


@program(X, graphs=1, ops=0, breaks=["DX105"])
def largest_of_integer_tensor(x):
    return max(x.long().sum(), 1)


@program(X, graphs=None, ops=0, breaks=None)
def largest_tensor_leaves(x):
    a, b = x.sum(), x.mean()
    return max(a, b) is a, max(a, 100)


@program(X, graphs=1, ops=1, breaks=0)
def asks_what_a_tensor_is(x):
    y = torch.is_complex(x), torch.is_floating_point(x), torch.is_signed(x), torch.numel(x), torch.result_type(x, 1)
    return y, torch.is_same_size(x, x), torch.get_device(x), torch.is_conj(x), x + 1


@program(X, torch.tensor(0.5), graphs=1, ops=4, breaks=0)
def factors_that_are_tensors(x, factor):
    y = x.clone().addcdiv_(x, x + 5, value=factor).addcmul(x, x, value=-factor)
    return y.add_(x, alpha=factor), y.sub(x, alpha=2), y


@PROGRAMS.parameters()
def test_builtins(run: Any) -> None:
    """Each program of this file does what eager does."""
    run()
