"""Objects in traced code: classes of the program, their attributes, special methods and inheritance, against eager."""

from __future__ import annotations

import abc
import collections
import dataclasses
import decimal
import enum
import fractions
import functools
import types
import weakref
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy as np
import pytest
import torch
from programs.program_table import Programs, caught

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3)


class Point:
    """A plain class with everything that plain classes have."""

    kinds = 2
    registry: dict[str, Any] = {}

    def __init__(self, x: Any, y: Any = 3) -> None:
        self.x = x
        self.y = y

    def total(self, factor: float = 1.0) -> Any:
        return (self.x + self.y) * factor

    @property
    def swapped(self) -> Point:
        return Point(self.y, self.x)

    @property
    def double(self) -> Any:
        return self.x * 2

    @double.setter
    def double(self, value: Any) -> None:
        self.x = value / 2

    @double.deleter
    def double(self) -> None:
        del self.x

    @classmethod
    def origin(cls, x: Any) -> Point:
        return cls(x * 0, cls.kinds)

    @staticmethod
    def scale(x: Any, by: Any = 2) -> Any:
        return x * by


class Point3(Point):
    """A subclass that calls up."""

    kinds = 3

    def __init__(self, x: Any, y: Any, z: Any) -> None:
        super().__init__(x, y)
        self.z = z

    def total(self, factor: float = 1.0) -> Any:
        return super().total(factor) + self.z

    @classmethod
    def origin(cls, x: Any) -> Point:
        made = super().origin.__func__(Point, x)
        return cls(made.x, made.y, 1)


# -- existing objects -------------------------------------------------------------------------------------------------


@program(X, Point(X, 4), graphs=1, ops=6, calls=2)
def reads_attributes(x, p):
    return x + p.x * p.y, p.kinds, p.total(2.0), p.scale(x), p.double


@program(X, Point3(X, 4, 5), graphs=1, ops=9)
def inherits(x, p):
    return p.total(), p.origin(x).total(), Point.total(p), isinstance(p, Point), type(p) is Point3, type(p).__name__


@program(X, Point(X, 4), graphs=2, ops=[3, 4], calls=2)
def writes_attributes(x, p):
    p.x = p.x + x
    p.new = x * 2
    p.y += 1
    p.double = x
    del p.new
    p.again = [x, p.x]
    return p.x, p.y


@program(X, Point(X, 4), graphs=1, ops=1)
def deletes_attributes(x, p):
    del p.y
    before = hasattr(p, "y"), getattr(p, "y", "gone")
    p.y = x
    del p.double
    return before, hasattr(p, "x"), sorted(p.__dict__), x + 1


@program(X, Point(X, 4), graphs=1, ops=1)
def asks_for_attributes(x, p):
    return (
        hasattr(p, "x"),
        hasattr(p, "nothing"),
        getattr(p, "y"),
        getattr(p, "nothing", x + 1),
        callable(p.total),
        caught(lambda: p.nothing),
        caught(lambda: setattr(p, "swapped", 1)),
        caught(lambda: delattr(p, "nothing")),
        vars(p)["y"],
        p.__dict__["y"],
        "x" in p.__dict__,
        p.__class__ is Point,
    )


@program(X, Point(X, 4), Point(X, 4), graphs=1, ops=1)
def identity_of_objects(x, p, q):
    first = p
    return first is p, p is q, p == q, p != q, [p, q].index(q), {p: 1, q: 2}[q], p in (q, p), x + 1


@program(X, (lambda p: (p, p))(Point(X, 4)), graphs=1, ops=2)
def one_object_twice(x, pair):
    pair[0].x = x + 1
    return pair[1].x * 2, pair[0] is pair[1]


# -- new objects ------------------------------------------------------------------------------------------------------


@program(X, graphs=1, ops=5)
def makes_objects(x):
    p = Point(x, y=x + 1)
    q = Point3(1, 2, x)
    return p.total(), q.total(), p.swapped.x, Point.origin(x).y, p


@program(X, graphs=1, ops=1)
def returns_new_objects(x):
    p = Point(x)
    p.me = p
    p.others = [p, Point3(1, 2, p)]
    return p, p.others, x + 1


@program(X, [], graphs=1, ops=2)
def new_objects_escape(x, out):
    p = Point(x + 1)
    out.append(p)
    p.y = x * 2
    return len(out)


class WithNew:
    """A class with a `__new__` of its own."""

    made = 0

    def __new__(cls, x: Any) -> Any:
        made = super().__new__(cls)
        made.by_new = x + 1
        return made

    def __init__(self, x: Any) -> None:
        self.x = x


class Other:
    """A class whose `__new__` gives another type."""

    def __new__(cls, x: Any) -> Any:
        return x * 3

    def __init__(self, x: Any) -> None:
        raise AssertionError("not reached")


@program(X, graphs=1, ops=2)
def new_before_init(x):
    made = WithNew(x)
    return made.by_new, made.x, Other(x), made


@program(X, graphs=1, ops=1)
def wrong_arguments(x):
    return caught(lambda: Point()), caught(lambda: object(1)), caught(lambda: Plain(1)), caught(lambda: Point(1, z=2)), x + 1


class Plain:
    """A class without anything."""


# -- special methods --------------------------------------------------------------------------------------------------


class Vector:
    """Special methods of every kind."""

    def __init__(self, items: Any) -> None:
        self.items = items
        self.log: list[str] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.items[index] = value

    def __delitem__(self, index: Any) -> None:
        del self.items[index]

    def __contains__(self, item: Any) -> bool:
        return any(item is one for one in self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def __call__(self, x: Any, *, by: Any = 1) -> Any:
        return [item * x * by for item in self.items]

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return Vector([a + b for a, b in zip(self.items, other.items)])
        if isinstance(other, (int, float, torch.Tensor)):
            return Vector([a + other for a in self.items])
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Vector([other + a for a in self.items])

    def __iadd__(self, other: Any) -> Any:
        self.items = [a + other for a in self.items]
        return self

    def __mul__(self, other: Any) -> Any:
        return Vector([a * other for a in self.items])

    def __matmul__(self, other: Any) -> Any:
        return sum(a * b for a, b in zip(self.items, other.items))

    def __neg__(self) -> Any:
        return Vector([-a for a in self.items])

    def __invert__(self) -> Any:
        return "inverted"

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, Vector):
            return NotImplemented
        return len(self) == len(other)

    def __lt__(self, other: Any) -> Any:
        return len(self) < len(other)

    def __bool__(self) -> bool:
        return len(self.items) > 1

    def __enter__(self) -> Any:
        self.log.append("enter")
        return self

    def __exit__(self, *exc: Any) -> bool:
        self.log.append("exit" if exc[0] is None else exc[0].__name__)
        return True

    def __str__(self) -> str:
        return f"Vector of {len(self)}"


class LongVector(Vector):
    """A subclass that overrides a reflected method: it is asked first."""

    def __radd__(self, other: Any) -> Any:
        return "long"


@program(X, Vector([X, 2, 3]), graphs=1, ops=6)
def containers_of_its_own(x, v):
    v[1] = x + 1
    del v[2]
    first, second = v
    return len(v), v[0], v[-1], x in v, v[0] in v, list(v), [*v, 1], first + second, v(x, by=2), bool(v), not v


@program(X, graphs=1, ops=19)
def operators_of_its_own(x):
    v, w = Vector([x, x + 1]), Vector([1, 2])
    v2 = v
    v2 += 1
    return (
        (v + w).items,
        (v + x).items,
        (x + v).items,
        (1 + v).items,
        (v * 2).items,
        v @ w,
        (-v).items,
        ~v,
        v == w,
        v != w,
        v == 3,
        v != 3,
        v < w,
        v > w,
        v2 is v,
        v + LongVector([]),
        str(v),
        f"{v}",
        caught(lambda: v + "s"),
        caught(lambda: v - 1),
        caught(lambda: v < 3),
        caught(lambda: -Plain()),
        caught(lambda: v % 2),
        1 if v else 2,
        1 if Vector([1]) else 2,
        v and 3,
    )


class Named:
    """Comparisons that say which operand was the receiver."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __lt__(self, other: Any) -> Any:
        return "lt", self.name

    def __ge__(self, other: Any) -> Any:
        return "ge", self.name

    def __eq__(self, other: Any) -> Any:
        return "eq", self.name


class Extended(Named):
    """A subclass that overrides nothing: as the right operand of a comparison it still goes first."""


class NeverUnequal:
    """Its `__ne__` leaves the operation to the other operand, and then to identity; `__eq__` is never called for it."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return NotImplemented


class EqualList(list[Any]):
    """`__eq__` in Python, `__ne__` of list."""

    def __eq__(self, other: object) -> bool:
        return True


@program(X, graphs=1, ops=1)
def comparisons_in_the_order_of_python(x):
    base, extended, never = Named("base"), Extended("extended"), NeverUnequal()
    one, two = EqualList([1]), EqualList([2])
    return (
        x + 1,
        [base < extended, extended < base, base >= extended, base == extended, base != extended, base == base],
        [never != NeverUnequal(), never != never, never == 1],
        [one != two, one == two, one != [1], [2] != one, one != one],
    )


class Countdown:
    """An iterator class."""

    def __init__(self, start: int) -> None:
        self.left = start

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left


class ByIndex:
    """A sequence without `__iter__`."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


@program(X, graphs=1, ops=3)
def iterators_of_its_own(x):
    for n in Countdown(3):
        x = x + n
    c = Countdown(2)
    return (
        x,
        list(Countdown(3)),
        next(c),
        next(c),
        next(c, "end"),
        list(ByIndex([1, x])),
        2 in ByIndex([1, 2]),
        sum(Countdown(4)),
        [(a, b) for a, b in zip(Countdown(3), Countdown(2))],
        sorted(Countdown(3)),
        max(Countdown(3)),
        5 in Countdown(3),
    )


# -- attribute access of its own --------------------------------------------------------------------------------------


class Proxy:
    """`__getattr__`, `__setattr__`, `__delattr__`."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "log", [])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.log.append(f"get {name}")
        if name.startswith("no_"):
            raise AttributeError(f"no {name}")
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.log.append(f"set {name}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self.log.append(f"del {name}")
        object.__delattr__(self, name)


class Strict:
    """`__getattribute__`."""

    def __init__(self) -> None:
        self.a = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "magic":
            return 42
        return super().__getattribute__(name)


@program(X, Proxy(Point(X, 4)), graphs=1, ops=5)
def attribute_hooks(x, p):
    p.own = x + 1
    q = Proxy(Point(x, x))
    q.z = x
    del p.own
    return p.total(), p.y, hasattr(p, "no_way"), getattr(p, "no_thing", 5), q.total(), q.z, q, Strict().magic, Strict().a


class Slotted:
    """`__slots__`."""

    __slots__ = ("a", "b", "unset")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class SlottedChild(Slotted):
    """Slots, and a dictionary."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(a, b)
        self.c = 3


@program(X, Slotted(X, 2), graphs=2, ops=[1, 1], calls=2)
def slots(x, s):
    s.b = s.a + s.b
    made, child = Slotted(x, 1), SlottedChild(x, 2)
    made.b += 1
    del made.a
    return s.b, made.b, hasattr(made, "a"), hasattr(made, "unset"), child.c + child.b, child, caught(lambda: made.unset)


class Positive:
    """A data descriptor of the program."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        if obj is None:
            return self
        return getattr(obj, self.name)

    def __set__(self, obj: Any, value: Any) -> None:
        setattr(obj, self.name, abs(value))


class Lazy:
    """A non-data descriptor of the program: computed once."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.name = fn.__name__

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        value = self.fn(obj)
        obj.__dict__[self.name] = value
        return value


class Described:
    """A class with descriptors, cached properties, partial methods and callables as class attributes."""

    size = Positive()
    activation = torch.relu
    python_function = staticmethod(lambda x: x + 1)
    Nested = Point
    constant = (1, [2])

    def __init__(self, size: Any) -> None:
        self.size = size
        self.computed = 0

    @Lazy
    def lazy(self) -> Any:
        self.computed += 1
        return self.size * 2

    @functools.cached_property
    def cached(self) -> Any:
        self.computed += 10
        return self.size * 3

    def scaled(self, x: Any, by: Any) -> Any:
        return x * by

    doubled = functools.partialmethod(scaled, by=2)


@program(X, Described(-3), graphs=2, ops=[3, 3], calls=2)
def descriptors(x, d):
    d.size = -5
    return (
        d.size,
        d.lazy,
        d.lazy,
        d.cached,
        d.cached,
        d.computed,
        d.activation(x),
        d.python_function(x),
        d.Nested(x).x,
        d.constant[1][0],
        Described(2).cached,
        x + 1,
    )


# -- classes ----------------------------------------------------------------------------------------------------------


class Counter:
    """Class attributes that change."""

    count = 0
    names: list[str] = []

    def __init__(self) -> None:
        Counter.count += 1
        type(self).names.append("made")
        self.number = Counter.count


def reset_counter() -> None:
    Counter.count = 0
    Counter.names.clear()
    if hasattr(Counter, "extra"):
        del Counter.extra


def test_class_attributes_change() -> None:
    """What a function assigns to a class is seen within it, and afterwards by everyone."""

    def fn(x):
        first, second = Counter(), Counter()
        Counter.extra = x + 1
        return x + first.number + second.number, second.extra, Counter.count, second.count

    assert_same_as_eager(
        fn,
        X,
        graphs=None,
        breaks=0,
        setup=reset_counter,
        calls=2,
        observe=lambda: (Counter.count, list(Counter.names), getattr(Counter, "extra", None)),
    )


class Shape:
    """`__init_subclass__`, class methods as factories, class getattr."""

    sides = 0
    table: dict[str, Any] = {}

    def __init_subclass__(cls, sides: int = 0, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        cls.sides = sides
        Shape.table[cls.__name__] = cls

    @classmethod
    def make(cls, name: str, *args: Any) -> Any:
        return cls.table[name](*args)


class Square(Shape, sides=4):
    def __init__(self, size: Any) -> None:
        self.size = size

    def area(self) -> Any:
        return self.size * self.size


class Meta(type):
    """A metaclass with attributes and a `__call__`."""

    @property
    def tag(cls) -> str:
        return f"tag of {cls.__name__}"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made.touched = True
        return made

    def __len__(cls) -> int:
        return 7

    def __getitem__(cls, key: Any) -> Any:
        return (cls.__name__, key)


class WithMeta(metaclass=Meta):
    def __init__(self, x: Any) -> None:
        self.x = x


T = TypeVar("T")


class Box(Generic[T]):
    """A generic class."""

    def __init__(self, content: T) -> None:
        self.content = content

    def get(self) -> T:
        return self.content


@program(X, graphs=1, ops=3)
def classes_as_values(x):
    square = Shape.make("Square", x)
    made = WithMeta(x)
    table = {Point: 1, Square: 2}
    return (
        square.area(),
        Square.sides,
        WithMeta.tag,
        made.touched,
        len(WithMeta),
        WithMeta["k"],
        table[type(square)],
        Square.__name__,
        Square.__mro__[1] is Shape,
        issubclass(Square, Shape),
        Box(x).get(),
        [c(x) for c in (Box,)][0].content,
        getattr(Point, "total")(Point(x, x)),
        Point.kinds,
        Point.__doc__,
        hasattr(Point, "nothing"),
        caught(lambda: Point.nothing),
    )


@program(X, graphs=1, ops=6)
def bound_methods_as_values(x):
    p = Point(x)
    total = p.total
    apply = lambda f, *a: f(*a)
    return (
        total(),
        apply(p.total, 2.0),
        [f(x) for f in (Point.scale, p.scale)],
        total.__self__ is p,
        total.__func__ is Point.total,
        p.origin,
    )


# -- dataclasses, enumerations, named things ---------------------------------------------------------------------------


@dataclasses.dataclass
class Config:
    """A dataclass with defaults, a factory and a `__post_init__`."""

    width: int
    depth: int = 2
    names: list[str] = dataclasses.field(default_factory=list)
    area: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.area = self.width * self.depth

    def scaled(self, x: Any) -> Any:
        return x * self.area


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    """A frozen dataclass: equal by its fields, hashable."""

    name: str
    index: int = 0


@dataclasses.dataclass
class Derived(Config):
    extra: Any = None


@dataclasses.dataclass(slots=True)
class Slim:
    a: Any
    b: Any = 1


@program(X, Config(3), graphs=1, ops=2)
def data_classes(x, config):
    made = Config(2, names=["a"])
    made.names.append("b")
    derived = Derived(1, extra=x)
    return (
        config.scaled(x),
        made,
        made.area,
        made == Config(2, 2, ["a", "b"]),
        made != config,
        Key("a") == Key("a"),
        Key("a") < Key("b"),
        {Key("a"): x}[Key("a")],
        Key("a", 1),
        derived.extra + 1,
        derived,
        Slim(x),
        Slim(1) == Slim(1),
        caught(lambda: setattr(Key("a"), "name", "b")),
        dataclasses.replace(config, width=5).area,
        [f.name for f in dataclasses.fields(config)],
        dataclasses.is_dataclass(config),
    )


class Color(enum.Enum):
    RED = 1
    GREEN = "green"

    @property
    def title(self) -> str:
        return self.name.title()

    def paint(self, x: Any) -> Any:
        return x * 2 if self is Color.RED else x * 3

    @classmethod
    def default(cls) -> Color:
        return cls.GREEN


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Mode(str, enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@program(X, Color.RED, Mode.EVAL, graphs=1, ops=2, calls=2)
def enumerations(x, color, mode):
    return (
        color.paint(x),
        color is Color.RED,
        color == Color.GREEN,
        color.name,
        color.value,
        color.title,
        Color("green"),
        Color["RED"],
        [c.name for c in Color],
        len(Color),
        color in (Color.RED,),
        {Color.RED: 1}[color],
        Color.default(),
        Level.HIGH > Level.LOW,
        Level.HIGH + 1,
        x * Level.HIGH,
        mode == "eval",
        mode is Mode.EVAL,
        mode.value.upper(),
        Bits.A | Bits.B,
        bool(Bits.A & Bits.B),
        Bits.A in (Bits.A | Bits.B),
        isinstance(color, Color),
        caught(lambda: Color(5)),
        Level(10),
        f"{mode.value}",
        Color.RED,
    )


# -- classes that extend builtin types ---------------------------------------------------------------------------------


class Registry(dict):
    """A dict with attributes and an overridden method."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)

    def __missing__(self, key: Any) -> Any:
        return f"missing {key}"


class AttrDict(dict):
    """Keys as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Stack(list):
    """A list with a method."""

    def push(self, item: Any) -> Any:
        self.append(item)
        return self

    @property
    def top(self) -> Any:
        return self[-1]


class Output(collections.OrderedDict):
    """What transformers' models return, in short: a dict whose fields are attributes too."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> Any:
        return tuple(self[k] for k in self.keys())


class Celsius(float):
    """A number with a method."""

    def warm(self) -> bool:
        return self > 20


@program(X, Registry(a=1, b=X), AttrDict(w=X), Stack([1, X]), graphs=1, ops=4)
def extended_containers(x, registry, attrs, stack):
    registry["c"] = x + 1
    attrs.v = x * 2
    stack.push(x).push(3)
    made = Registry({"k": x}, z=1)
    made["n"] = 1
    return (
        registry["a"],
        registry["b"] + registry["c"],
        registry.reads,
        registry["zz"],
        registry.get("zz"),
        len(registry),
        attrs.w + attrs.v,
        hasattr(attrs, "nope"),
        stack.top,
        len(stack),
        stack[1],
        [*stack],
        made["k"],
        made,
        made.reads,
        Stack([1]).push(2),
        isinstance(stack, list),
        list(registry),
        sorted(attrs),
        "a" in registry,
        dict(attrs),
        x in [x],
        stack == [1],
        Stack([1, 2]) == [1, 2],
        stack + [1],
    )


@program(X, graphs=1, ops=2)
def ordered_outputs(x):
    out = Output()
    out["logits"] = x + 1
    out.hidden = 3
    out["loss"] = x.sum()
    out.logits = x * 2
    return out.to_tuple(), out.logits, out["loss"], list(out.keys()), out, out.hidden


@program(X, graphs=1, ops=1)
def other_objects(x):
    namespace = types.SimpleNamespace(a=x, b=2)
    namespace.c = namespace.a + 1
    return namespace.c, namespace, hasattr(namespace, "d"), Celsius(21.0).warm()


class Attributes(dict[str, Any]):
    """Items as attributes, by special methods that are those of dict."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


@program(X, Attributes(scale=3), graphs=1, ops=2)
def special_methods_borrowed_from_dict(x, given):
    made = Attributes(first=x)
    made.second = made.first * given.scale
    made.third = 3
    del made.third
    given.offset = made.second + 1
    return made, made.second, made.absent, list(made), given.offset


class Record(TypedDict):
    """A typed dict: a plain one when it is made."""

    value: Any


@program(X, graphs=1, ops=1)
def a_metaclass_whose_call_is_another_class(x):
    return Record(value=x + 1)


class AsksAround:
    """`__getattribute__` of the program, with `__getattr__` for what that does not find."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattribute__(self, name: str) -> Any:
        if name == "hidden":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> str:
        return f"instead of {name}"


@program(X, graphs=1, ops=1)
def getattr_answers_when_getattribute_raises(x):
    asked = AsksAround(x)
    return asked.hidden, asked.absent, asked.value + 1


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


# -- what must be noticed ---------------------------------------------------------------------------------------------


def changes() -> dict[str, Any]:
    def method(target: Any) -> None:
        Point.total = lambda self, factor=1.0: self.x * 100

    return {
        "an attribute that was read": lambda p: setattr(p, "y", 10),
        "an attribute of another type": lambda p: setattr(p, "y", torch.ones(3)),
        "the class": lambda p: setattr(p, "__class__", Point3),
        "an attribute that hides a method": lambda p: setattr(p, "total", lambda factor: factor),
        "an attribute that hides a class attribute": lambda p: setattr(p, "kinds", 10),
        "an attribute that is gone": lambda p: delattr(p, "y"),
        "a method of the class": method,
        "a class attribute": lambda p: setattr(Point, "kinds", 5),
        "a property of the class": lambda p: setattr(Point, "double", property(lambda self: 7)),
        "an attribute that was not there": lambda p: setattr(p, "maybe", 8),
    }


@pytest.mark.parametrize("change", changes())
@pytest.mark.parametrize("place", ["argument", "closure", "global"])
def test_changes_are_noticed(change: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of an object or its class after capture changes what the compiled function gives."""
    for name in ("total", "kinds", "double"):
        monkeypatch.setattr(Point, name, Point.__dict__[name])
    point = Point(X, 4)
    point.z = 1
    global SHARED
    SHARED = point

    def on_argument(p, x):
        return x + p.x, p.y, p.total(2.0), p.kinds, p.double, getattr(p, "maybe", None)

    def on_closure(x):
        p = point
        return x + p.x, p.y, p.total(2.0), p.kinds, p.double, getattr(p, "maybe", None)

    def on_global(x):
        p = SHARED
        return x + p.x, p.y, p.total(2.0), p.kinds, p.double, getattr(p, "maybe", None)

    def call(wrap: Any) -> Any:
        if place == "argument":
            return caught(lambda: wrap(on_argument)(point, X))
        return caught(lambda: wrap({"closure": on_closure, "global": on_global}[place])(X))

    compiled = dynexplore.optimize("eager")
    assert call(compiled) == call(lambda f: f)
    changes()[change](point)
    assert call(compiled) == call(lambda f: f)
    assert graphs_compiled() == 2


SHARED: Any = None


def test_changes_recompile_once() -> None:
    """An attribute that differs at each call does not make an entry for each value."""

    def fn(p, x):
        return p.x + x

    compiled = dynexplore.optimize("eager")(fn)
    dynexplore.reset()
    for _ in range(5):
        compiled(Point(torch.ones(3)), X)
    assert dynexplore.counters["stats"]["recompiles"] == 0 and graphs_compiled() == 1


class Divides:
    """Has a divmod that is not `//` and `%`."""

    def __divmod__(self, other: Any) -> Any:
        return "divmod", other

    def __rdivmod__(self, other: Any) -> Any:
        return "rdivmod", other

    def __floordiv__(self, other: Any) -> Any:
        return "floordiv"

    def __mod__(self, other: Any) -> Any:
        return "mod"


def divides(x: Any, divider: Any) -> Any:
    try:
        return x + 1, divmod(divider, 2), divmod(2, divider)
    except TypeError:
        return "caught"


def test_divmod_of_an_object_is_its_own() -> None:
    """`__divmod__` and `__rdivmod__` are called, whatever `//` and `%` do."""
    assert_same_as_eager(divides, torch.ones(2), Divides())


class Growing:
    kept = 1


def class_attribute_that_comes_and_goes(x: Any, thing: Growing) -> Any:
    Growing.added = 3  # type: ignore[attr-defined]
    seen = thing.added  # type: ignore[attr-defined]
    del Growing.added  # type: ignore[attr-defined]
    return x + seen, hasattr(thing, "added")


def class_attribute_deleted_after_a_break(x: Any, thing: Growing) -> Any:
    Growing.added = 3  # type: ignore[attr-defined]
    del Growing.added  # type: ignore[attr-defined]
    Growing.added = 4  # type: ignore[attr-defined]
    print("set")
    del Growing.added  # type: ignore[attr-defined]
    return x * 2, hasattr(thing, "added")


def class_attribute_that_is_not_there(x: Any, thing: Growing) -> Any:
    try:
        del Growing.added  # type: ignore[attr-defined]
    except AttributeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("program", [
    class_attribute_that_comes_and_goes, class_attribute_deleted_after_a_break, class_attribute_that_is_not_there,
])  # fmt: skip
def test_deleting_an_attribute_of_a_class(program: Any) -> None:
    """What the frame itself has put there is gone again, for the rest of the frame and for real."""
    assert_same_as_eager(program, torch.ones(2), Growing(), then=[(torch.ones(2), Growing())], observe=lambda: dict(vars(Growing)))


class Three(int):
    """A number whose class has methods that Python asks only where it extends the other operand's class."""

    def __radd__(self, other: Any) -> Any:
        return "added"

    def __rmul__(self, other: Any) -> Any:
        return "multiplied"

    def __lt__(self, other: Any) -> Any:
        return "less"

    def __gt__(self, other: Any) -> Any:
        return "greater"

    def __rmod__(self, other: Any) -> Any:
        return "remainder"

    def __str__(self) -> str:
        return "three"


class Half(float):
    """The same for a float: an int on the left does not know it."""

    def __radd__(self, other: Any) -> Any:
        return "added"

    def __gt__(self, other: Any) -> Any:
        return "greater"


class Anything:
    def __rmod__(self, other: Any) -> Any:
        return "remainder"

    def __str__(self) -> str:
        return "anything"


def a_tensor_before_a_number_of_the_program(x: Any, number: Any) -> Any:
    y = x.clone()
    y *= number
    return x * number, x + number, x < number, y


def a_number_before_one_of_the_program(x: Any, number: Any) -> Any:
    return x * 2, 2.5 + number, True + number, 2 + number, 2.5 * number, 1j + number, 2.5 < number, 2 < number, number < 2.5


def a_text_before_an_object(x: Any, number: Any) -> Any:
    return x * 2, "%s" % number, "%s" % Anything(), "a" + "%d" % 3


@pytest.mark.parametrize("program", [
    a_tensor_before_a_number_of_the_program, a_number_before_one_of_the_program, a_text_before_an_object,
])  # fmt: skip
def test_a_c_type_on_the_left_that_knows_the_number_answers_first(program: Any) -> None:
    """Only a class that extends the left operand's is asked before it; `Three` extends int, and no tensor, float or text."""
    assert_same_as_eager(program, torch.ones(2), Three(3), then=[(torch.ones(2), Half(0.5))])


class NarrowBox(Generic[T]):
    __slots__ = ("content",)

    def __init__(self, content: T) -> None:
        self.content = content


class Item:
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, content: Any) -> None:
        self.content = content


def makes_an_object_by_an_alias(x: Any) -> Any:
    box, slotted, item = Box[int](4), NarrowBox[str]("a"), Item[int](2)  # type: ignore[misc]
    aliases = [getattr(made, "__orig_class__", None) for made in (box, slotted, item)]
    return x * box.content * item.content, slotted.content, list(map(str, aliases)), list[int]((1, 2))


def test_an_object_that_a_generic_alias_made_is_told_of_it() -> None:
    """`Box[int](4).__orig_class__` is the alias; a class with slots has no room for it."""
    assert_same_as_eager(makes_an_object_by_an_alias, torch.ones(2), graphs=1)


class OnlySet:
    """A descriptor that is set and cannot be read."""

    def __set__(self, owner: Any, value: Any) -> None:
        vars(owner)["held"] = value * 10


class OfOnlySet:
    """An object with such an attribute."""

    held = OnlySet()


def test_a_descriptor_that_cannot_be_read_no_instance_override() -> None:
    """A data descriptor without `__get__` decides what a store does; what is read is the object's own attribute."""

    def fn(x: torch.Tensor, owner: OfOnlySet) -> Any:
        before = "held" in vars(owner)
        owner.held = 2
        return x * owner.held, before

    assert_same_as_eager(fn, torch.ones(2), OfOnlySet(), calls=2)


class Duck:
    """No tensor, but torch asks it."""

    def __rmul__(self, other: Any) -> str:
        return "reflected"

    def __lt__(self, other: Any) -> str:
        return "less"


def test_a_tensor_asks_the_torch_function_of_any_operand() -> None:
    """What has a `__torch_function__` is asked before its reflected method, also when the class gets it later."""

    def fn(x: torch.Tensor, duck: Any) -> Any:
        return x * duck, x > duck, x + 1

    x, cls = torch.ones(2), type("Later", (Duck,), {})
    optimized = dynexplore.optimize("eager")(fn)
    assert optimized(x, cls())[:2] == fn(x, cls())[:2] == ("reflected", "less")
    assert graphs_compiled() == 1
    cls.__torch_function__ = classmethod(lambda cls, function, types, args=(), kwargs=None: function.__name__)  # type: ignore[attr-defined]
    assert optimized(x, cls())[:2] == fn(x, cls())[:2] == ("mul", "gt")


def equal_to_everything(asked: list[Any]) -> Any:
    """A metaclass whose `==` is true of everything, and notes what it was asked about."""

    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            asked.append(other)
            return True

        __hash__ = type.__hash__

    return Meta


def test_a_metaclass_whose_classes_equal_everything() -> None:
    """`isinstance` walks over the bases by identity, as CPython does; no `==` of a metaclass is asked."""
    asked: list[Any] = []

    class Equal(metaclass=equal_to_everything(asked)):
        pass

    def fn(x: torch.Tensor, value: Any) -> torch.Tensor:
        return x * 2 if isinstance(value, Equal) else x * 3

    assert_same_as_eager(fn, torch.ones(2), Item(1), calls=2, setup=asked.clear, graphs=1, breaks=0,
                         observe=lambda: list(asked))


def test_making_an_instance_asks_no_getattr_of_the_metaclass() -> None:
    """Whether a class is abstract is a flag of the class: a metaclass's `__getattr__` is asked by the program alone."""
    asked: list[str] = []

    class Meta(type):
        def __getattr__(cls, name: str) -> int:
            asked.append(name)
            return len(asked)

    class Made(metaclass=Meta):
        def __init__(self) -> None:
            self.number = 2

    assert_same_as_eager(lambda x: x * Made().number, torch.ones(2), calls=2, graphs=1, breaks=0, setup=asked.clear,
                         observe=lambda: list(asked))


class Refusing:
    """Defines what it takes away again: Python asks the class, finds None, and says so."""

    __iadd__ = __eq__ = __lt__ = __bool__ = __call__ = __neg__ = __hash__ = __iter__ = __contains__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return [1, 2][index]


class RefusingToo(Refusing):
    pass


def adds_in_place(obj: Any) -> Any:
    obj += 1
    return obj


@pytest.mark.parametrize("cls", [Refusing, RefusingToo])
@pytest.mark.parametrize(
    "use", [adds_in_place, lambda obj: obj == 1, lambda obj: obj < 1, bool, lambda obj: obj(), lambda obj: -obj, lambda obj: {obj},
            list, lambda obj: 1 in obj, lambda obj: [*obj], lambda obj: obj + 1, callable],
)
def test_a_special_method_that_a_class_takes_away_refuses(cls: Any, use: Any) -> None:
    """`__iter__ = None` is found: neither `__getitem__` nor `__add__` takes its place."""

    def fn(x: torch.Tensor) -> Any:
        try:
            return x * 2, use(cls())
        except TypeError as error:
            return x * 3, str(error)

    assert_same_as_eager(fn, torch.ones(2), calls=2, graphs=range(3))


def test_a_special_method_is_taken_away_between_calls() -> None:
    """`__iter__ = None` and its removal are both seen by the next call."""
    class Pair:
        def __iter__(self) -> Any:
            return iter((5, 6))

        def __getitem__(self, index: int) -> int:
            return [1, 2][index]

    pair = Pair()

    def fn(x: torch.Tensor) -> Any:
        try:
            return x * sum(pair)
        except TypeError as error:
            return str(error)

    compiled = dynexplore.optimize()(fn)
    x = torch.ones(2)
    assert compiled(x).tolist() == [11.0, 11.0]
    Pair.__iter__ = None  # type: ignore[assignment, method-assign]
    assert compiled(x) == fn(x) == "'Pair' object is not iterable"
    del Pair.__iter__
    assert compiled(x).tolist() == [3.0, 3.0]
    assert graphs_compiled() == 2


def test_sorting_asks_a_class_that_leaves_the_answer_twice() -> None:
    """`list.sort` asks keys of one class by that class's own slot first, and again by the whole comparison."""
    asked: list[str] = []

    class Left:
        def __init__(self, number: int) -> None:
            self.number = number

        def __lt__(self, other: Left) -> Any:
            asked.append("<")
            return NotImplemented

        def __gt__(self, other: Left) -> bool:
            asked.append(">")
            return self.number > other.number

    class Derived(Left):
        pass

    def fn(x: torch.Tensor, items: list[Left]) -> Any:
        return x * sorted(items)[0].number, [item.number for item in sorted(items)]

    x = torch.ones(2)
    assert_same_as_eager(fn, x, [Left(3), Left(1), Left(2)], then=[(x, [Left(2), Derived(1)])], setup=asked.clear,
                         observe=lambda: list(asked), graphs=2)


def test_a_subclass_check_of_the_program_runs_as_often_as_it_is_asked() -> None:
    """A `__subclasscheck__` that changes something is left to Python."""
    asked: list[str] = []

    class Meta(abc.ABCMeta):
        def __subclasscheck__(cls, other: type) -> bool:
            asked.append(other.__name__)
            return len(asked) % 2 == 0

    class Base(metaclass=Meta):
        pass

    def fn(x: torch.Tensor, value: Any) -> Any:
        return x * (2 if issubclass(type(value), (str, Base)) else 3), isinstance(value, Base), issubclass(str, (str, Base))

    assert_same_as_eager(fn, torch.ones(2), Item(1), calls=3, setup=asked.clear, observe=lambda: list(asked), graphs=range(3))


class PairOfTensors(NamedTuple):
    one: torch.Tensor
    two: torch.Tensor

    def __add__(self, other: Any) -> PairOfTensors:
        return PairOfTensors(self.one + other.one, self.two + other.two)

    def __lt__(self, other: Any) -> bool:
        return True


def test_operators_that_a_named_tuple_overrides() -> None:
    """Made in the frame or given to it: its own `__add__` is asked, and not what tuples do."""

    def fn(x: torch.Tensor, given: PairOfTensors) -> Any:
        made = PairOfTensors(x, x + 1) + given
        changed = made._replace(one=made.one * 2)
        return changed, changed.two, made < made, tuple(made), given[0], given + made

    x = torch.ones(2)
    assert_same_as_eager(fn, x, PairOfTensors(x * 2, x * 3), calls=2, graphs=1, breaks=0)


def test_an_operator_is_given_to_a_named_tuple_later() -> None:
    """Made in the frame, a named tuple has the methods that its class has in this call."""
    pair = collections.namedtuple("pair", "one two")

    def fn(x: torch.Tensor) -> Any:
        return x * 2, pair(1, 2) + (3,), repr(pair(1, 2))

    compiled = dynexplore.optimize()(fn)
    x = torch.ones(2)
    assert compiled(x)[1:] == fn(x)[1:] == ((1, 2, 3), "pair(one=1, two=2)")
    pair.__add__ = lambda self, other: "added"
    assert compiled(x)[1:] == fn(x)[1:] == ("added", "pair(one=1, two=2)")
    pair.__repr__ = lambda self: "shown"
    assert compiled(x)[1:] == fn(x)[1:] == ("added", "shown")
    assert graphs_compiled() == 3


def test_a_weak_reference_to_an_object_made_here_ends_with_it() -> None:
    """A frame that looks at the end of an object of its own runs as plain Python."""
    def fn(x: torch.Tensor) -> Any:
        made = Item(3)
        reference = weakref.ref(made)
        alive = reference() is made
        del made
        return x * 2, alive, reference() is None

    def outer(x: torch.Tensor) -> Any:
        return fn(x * 5), x + 1

    assert_same_as_eager(outer, torch.ones(2), calls=2, graphs=range(1, 4))


def test_data_of_a_builtin_object_is_no_method() -> None:
    """`gi_frame` and `mapping` are values; only methods are called."""

    def numbers() -> Any:
        yield 1

    def fn(x: torch.Tensor, generator: Any, items: dict[str, int]) -> Any:
        return x * 2, generator.gi_frame is None, generator.gi_running is False, items.keys().mapping["a"]

    ended = numbers()
    assert list(ended) == [1]
    compiled = dynexplore.optimize()(fn)
    x = torch.ones(2)
    assert compiled(x, ended, {"a": 3})[1:] == fn(x, ended, {"a": 3})[1:] == (True, True, 3)
    assert compiled(x, numbers(), {"a": 4})[1:] == (False, True, 4)
    assert graphs_compiled() >= 1


def test_what_is_known_of_a_class_is_kept_by_its_identity() -> None:
    """A metaclass whose `==` is true of everything, and notes that it was asked."""
    asked: list[Any] = []

    class Meta(equal_to_everything(asked)):
        def __instancecheck__(cls, value: object) -> bool:
            return len(asked) % 2 == 0

    class Equal(metaclass=Meta):
        pass

    def fn(x: torch.Tensor, value: Any) -> Any:
        return x * (2 if isinstance(value, Equal) else 3), Equal == 5, Equal in [1, 2]

    assert_same_as_eager(fn, torch.ones(2), Item(1), calls=2, setup=asked.clear, graphs=range(3), observe=lambda: list(asked))


class Counts(torch.nn.Module):
    """Keeps a number that each call changes."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.number += 1
        return x * self.number


class CountsAlone:
    """The same, and no module."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.number += 1
        return x * self.number


@pytest.mark.parametrize("make", [Counts, CountsAlone])
@pytest.mark.parametrize("number", [4, 4.5])
def test_a_number_of_a_held_object_varies_from_its_second_value_on(make: Any, number: float) -> None:
    """The first is guarded by the object that holds it and not by a guard of its own, and is remembered all the same."""
    held = make(number)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return held(x)

    def start() -> None:
        held.number = number

    assert_same_as_eager(fn, torch.ones(3), calls=5, setup=start, observe=lambda: held.number, graphs=2, recompiles=1)


class Adding:
    __slots__ = ("value",)

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def apply(self, x: Any) -> Any:
        return x + self.value


class Scaling(Adding):
    __slots__ = ()

    def apply(self, x: Any) -> Any:
        return x * self.value


CHANGES_ITS_CLASS = Adding(3)


def asks_an_object_without_weak_references(x: Any, kind: Any) -> Any:
    return CHANGES_ITS_CLASS.apply(x), kind


def test_the_class_of_an_object_that_cannot_be_held_weakly_is_guarded() -> None:
    """`__class__` can be assigned; identity says nothing of it."""

    def with_class(fn: Any, kind: Any) -> Any:
        CHANGES_ITS_CLASS.__class__ = kind
        return fn(torch.ones(2), 1)

    kinds = (Adding, Scaling, Adding, Scaling)
    eager = [with_class(asks_an_object_without_weak_references, kind) for kind in kinds]
    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(asks_an_object_without_weak_references)
    assert repr([with_class(optimized, kind) for kind in kinds]) == repr(eager)
    assert graphs_compiled() == 2


class Answers:
    """A class of the program that compares by a method in Python."""

    def __eq__(self, other: object) -> bool:
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


D = {"a": 1}
EQUAL_OF_TWO_TYPES = {
    "a set and keys": ({"a"}, D.keys()),
    "keys and a frozenset": (D.keys(), frozenset("a")),
    "a frozenset and items": (frozenset(D.items()), D.items()),
    "two numbers of libraries": (decimal.Decimal(1), fractions.Fraction(1)),
    "the same turned around": (fractions.Fraction(1), decimal.Decimal(1)),
    "a number of numpy and a container": (np.float64(1), collections.UserDict(a=1)),
    "a number of numpy and an object": (np.float64(1), Answers()),
    "a number of a library and an object": (decimal.Decimal(1), Answers()),
    "a list and a tuple": ([1], (1,)),
    "an object and a list": (Answers(), [1]),
}


@pytest.mark.parametrize("pair", EQUAL_OF_TWO_TYPES.values(), ids=EQUAL_OF_TWO_TYPES)
def test_values_of_two_types_are_equal_where_one_of_them_says_so(pair: Any) -> None:
    """A type may know another one: that types differ says nothing then."""
    left, right = pair

    def program(x: torch.Tensor) -> Any:
        return x * 2, left == right, left != right, right == left

    assert repr(dynexplore.optimize("eager")(program)(X)) == repr(program(X))
    assert graphs_compiled() == 1


class Both:
    __slots__ = ("__dict__", "a")


class BelowBoth(Both):
    """Has a dictionary because its base has one."""


def writes_slots_beside_a_dictionary(x, own):
    own.a, own.b = 5, 2
    made = BelowBoth()
    made.a, made.c = 1, 3
    told = "a" in own.__dict__, own.__dict__.get("a", "nothing"), "b" in vars(own), hasattr(made, "a"), own.a
    return x + 1, sorted(vars(own)), vars(made), len(made.__dict__), told


def gives_a_slots_name_to_the_dictionary(x, own):
    vars(own)["a"] = 7
    return x + 1, own.a, sorted(vars(own)), vars(own)["a"]


@pytest.mark.parametrize("fn", (writes_slots_beside_a_dictionary, gives_a_slots_name_to_the_dictionary))
def test_what_lives_in_a_slot_is_not_in_the_dictionary(fn: Any) -> None:
    """An object may have both; what the frame wrote to a slot shows in `vars(obj)` as little as what was there before."""
    for cls in (Both, BelowBoth):
        one, other = cls(), cls()
        one.a = other.a = 0
        compiled = dynexplore.optimize("eager")(fn)
        for _ in range(2):
            assert str(compiled(X, one)) == str(fn(X, other))
    assert graphs_compiled()


class Left:
    """Adds to anything."""

    def __add__(self, other: Any) -> Any:
        return 8


class RefusesToBeAdded(Left):
    """A class that takes a method away which its base never had."""

    __radd__ = None


def test_a_reflected_method_that_was_taken_away_is_asked_before_the_left_operand() -> None:
    """`__radd__ = None` overrides, as far as Python is concerned: it is called first, which is a TypeError."""

    def program(x: Any, left: Any, right: Any) -> Any:
        try:
            return x * (left + right)
        except TypeError as error:
            return x, str(error)

    assert_same_as_eager(program, torch.ones(2), Left(), RefusesToBeAdded(), then=[(torch.ones(2), Left(), Left())])
