"""Class statements inside the frame: one graph where the class stays inside, a break where it leaves."""

from __future__ import annotations

import abc
import enum
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.ones(2)
KEPT: list[Any] = []


class Base:
    scale = 2

    def __init__(self, k: int = 3) -> None:
        self.k = k

    def times(self, x):
        return x * self.k * self.scale


class Registered:
    def __init_subclass__(cls) -> None:
        KEPT.append(cls.__name__)


def of_constants(x):
    class Plain:
        """What it is."""

        factor = 2
        names = ("a", "b")

    return x * Plain.factor, Plain.names, Plain.__doc__, Plain.__name__, Plain.__qualname__, Plain.__module__


def with_methods(x):
    class Doubler:
        factor = 2

        def __init__(self, k):
            self.k = k

        def __call__(self, y, *, more=1):
            return y * self.factor * self.k + more

    return Doubler(3)(x), Doubler(1)(x, more=5)


def with_closures(x):
    y = x + 1
    count = 0

    class Counter:
        def bump(self):
            nonlocal count
            count += 1
            return y * count

    counter = Counter()
    counter.bump()
    return counter.bump(), count


def with_super(x):
    class Derived(Base):
        scale = 5

        def __init__(self):
            super().__init__(4)

        def times(self, x):
            return super().times(x) + 1

    class Further(Derived):
        def times(self, x):
            return __class__.__name__, super().times(x)

    return Further().times(x), isinstance(Further(), Base), issubclass(Derived, Further), Further.__mro__[-1]


def with_descriptors(x):
    class Holder:
        def __init__(self):
            self._value = 3

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self._value = new * 2

        @staticmethod
        def add(a, b):
            return a + b

        @classmethod
        def make(cls):
            return cls()

    holder = Holder.make()
    first = holder.value
    holder.value = 5
    return x * holder.value, first, Holder.add(1, 2)


def with_mutable_attributes(x):
    class Holder:
        items: list[int] = []
        table = {"a": 1}

    Holder.items.append(3)
    Holder.table["b"] = 2
    Holder().items.append(4)
    return x * len(Holder.items), list(Holder.items), dict(Holder.table)


def with_a_list(x):
    class Holder:
        items = []

    Holder.items.append(3)
    Holder().items.append(4)
    Holder.count = len(Holder.items)
    return x * Holder.count, list(Holder.items)


def with_a_tensor(x):
    y = x + 1

    class Holder:
        weight = y * 2

        def apply(self, x):
            return x * self.weight

    return Holder().apply(x)


def with_special_methods(x):
    class Number:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return isinstance(other, Number) and self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        def __add__(self, other):
            return NotImplemented if other == 7 else Number(self.n + other)

        def __len__(self):
            return self.n

        def __getitem__(self, index):
            if index >= self.n:
                raise IndexError
            return index * 10

        def __contains__(self, item):
            return item == self.n

        def __repr__(self):
            return f"Number({self.n})"

        def __iter__(self):
            yield from (self.n, 1)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return True

    a = Number(3)
    try:
        a + 7
        refused = None
    except TypeError as error:
        refused = str(error)
    with a as entered:
        raise ValueError
    return x * len(a + 4), a == Number(3), a < Number(5), a[1], 3 in a, repr(a), list(a), refused, entered is a


def of_builtin_types(x):
    class Table(dict):
        def __missing__(self, key):
            return key * 2

    class Row(list):
        pass

    class Word(str):
        def loud(self):
            return self.upper()

    table, row = Table(a=1), Row([1, 2])
    row.append(3)
    return x * len(row), table["b"], table["a"], Word("hi").loud() == "HI"


def of_exceptions(x):
    class Failure(ValueError):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    try:
        raise Failure(3)
    except Failure as failure:
        return x * failure.code, isinstance(failure, ValueError), failure.args


def abstract(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def area(self):
            return 4

    try:
        Shape()
        refused = False
    except TypeError:
        refused = True
    return x * Square().area(), refused


def in_a_loop(x):
    steps = []
    for k in range(3):

        class Step:
            by = k

        steps.append(Step)
    return x * sum(step.by for step in steps), steps[0] is steps[1], len(set(steps))


def in_a_callee(x):
    def make(k):
        class Inner:
            by = k

            def apply(self, x):
                return x * self.by + k

        return Inner

    return make(2)().apply(make(3)().apply(x))


def with_one_name_for_two(x):
    both = "variable"

    class Holder:
        def both(self):
            return "method"

        def read(self):
            return both

    return x + 1, Holder().both(), Holder().read()


def nested(x):
    class Outer:
        class Inner:
            k = 3

        def inner(self):
            return self.Inner.k

    return x * Outer().inner()


def that_is_wrong(x):
    try:

        class Impossible(bool):
            pass

    except TypeError as error:
        return x + 1, str(error)


def whose_body_raises(x):
    try:

        class Broken:
            k = missing

    except NameError as error:
        return x + 1, str(error)


def that_deletes(x):
    class Loop:
        total = 0
        for i in range(3):
            total += i
        del i

    return x * Loop.total, hasattr(Loop, "i")


def with_slots(x):
    class Slotted:
        __slots__ = ("a",)

    slotted = Slotted()
    slotted.a = 3
    return x * slotted.a


def of_an_enumeration(x):
    class Color(enum.Enum):
        RED = 1
        GREEN = enum.auto()
        CRIMSON = 1

        def lower(self):
            return self.name.lower()

        @property
        def twice(self):
            return self.value * 2

    names = [color.name for color in Color]
    return x * Color.GREEN.value, Color(2).lower(), Color["RED"].twice, len(Color), names, Color.CRIMSON is Color.RED


def of_numbers_by_name(x):
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    class Access(enum.Flag):
        READ = enum.auto()
        WRITE = enum.auto()
        BOTH = READ | 2 if isinstance(READ, int) else 3

    return x * Level.HIGH, Level.LOW < Level.HIGH, (Access.READ | Access.WRITE).value, Access.READ in Access.BOTH


def of_mixed_enumerations(x):
    class Word(str, enum.Enum):
        YES = "y"

    class Empty(enum.Enum):
        def shown(self):
            return f"<{self.name}>"

    class Full(Empty):
        A = 3

    return x * Full.A.value, Word("y") is Word.YES, Word.YES == "y", Full.A.shown(), isinstance(Full.A, Empty)


def of_an_enumeration_by_call(x):
    color = enum.Enum("color", "RED GREEN")
    level = enum.IntEnum("level", ["LOW", "HIGH"], start=3)
    pair = enum.Flag("pair", (("A", 1), ("B", 2)))
    table = enum.Enum("table", {"P": 5, "Q": 6}, module="elsewhere", type=int)
    try:
        enum.Enum("twice", "A A")
        refused = None
    except TypeError as error:
        refused = type(error).__name__
    return x * level.HIGH, color.GREEN.value, color.__module__, (pair.A | pair.B).value, table.Q + 1, table.__module__, refused


def members_of(cls):
    return [(name, member.name, member.value) for name, member in cls.__members__.items()]


def with_an_alias_of_an_automatic_value(x):
    class Color(enum.Enum):
        FIRST = UNO = enum.auto()
        SECOND = enum.auto()

    class Access(enum.Flag):
        READ = SEE = enum.auto()
        WRITE = enum.auto()

    return x * Color.SECOND.value, members_of(Color), members_of(Access), len(Color)


def with_an_automatic_value_that_is_given(x):
    class Color(enum.Enum):
        FIRST = enum.auto(5)
        SECOND = enum.auto()

    return x * Color.SECOND.value, members_of(Color)


def with_one_automatic_value_for_two_enumerations(x):
    value = enum.auto()

    class Color(enum.Enum):
        FIRST = 3
        SECOND = value

    class Level(enum.Enum):
        LOW = value
        HIGH = enum.auto()

    return x * Color.SECOND.value, members_of(Color), members_of(Level), value.value


WHOLE = [
    with_an_alias_of_an_automatic_value, with_an_automatic_value_that_is_given, with_one_automatic_value_for_two_enumerations,
    of_an_enumeration_by_call,
    of_an_enumeration, of_numbers_by_name, of_mixed_enumerations,
    of_constants, with_methods, with_closures, with_super, with_descriptors, with_a_list, with_a_tensor, with_special_methods,
    of_builtin_types, of_exceptions, in_a_loop, in_a_callee, nested, with_one_name_for_two,
    whose_body_raises, that_deletes, with_slots,
]  # fmt: skip


@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: fn.__name__)
def test_a_class_that_stays_inside_is_part_of_the_graph(fn: Any) -> None:
    """Each call makes a class of its own, of which nothing is left."""
    assert_same_as_eager(fn, X, calls=3, graphs=1, breaks=0, recompiles=0)


@pytest.mark.parametrize("fn", [abstract, that_is_wrong, with_mutable_attributes], ids=lambda fn: fn.__name__)
def test_a_class_that_only_python_makes_is_right(fn: Any) -> None:
    """With a break where need be."""
    assert_same_as_eager(fn, X, calls=3)


def returned(x):
    class Made:
        k = 2

    return x * Made.k, Made


def returned_in_an_instance(x):
    class Made:
        def __init__(self):
            self.k = 4

    instance = Made()
    return x * instance.k, instance


def kept(x):
    class Made:
        k = 2

        def apply(self):
            return self.k

    KEPT.append(Made)
    return x * 2


def kept_method(x):
    class Made:
        k = 2

        def apply(self):
            return 5

    KEPT.append(Made().apply)
    return x * 2


def over_a_break(x):
    class Made:
        k = 2

    y = x * Made.k
    print(end="")
    torch._dynamo.graph_break()
    return y * Made.k


def raised(x):
    class Made(Exception):
        pass

    y = x + 1
    if y.shape[0] == 2:
        raise Made("no")
    return y


def with_a_hook(x):
    class Made(Registered):
        k = 3

    return x * Made.k, len(KEPT)


def with_a_metaclass(x):
    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            return super().__new__(mcs, name, bases, {**namespace, "k": 3})

    class Made(metaclass=Meta):
        pass

    return x * Made.k


def enumeration_returned(x):
    class Color(enum.Enum):
        RED = 1

    return x * 2, Color.RED


def combined_flag_kept(x):
    class Access(enum.Flag):
        READ = 1
        WRITE = 2

    KEPT.append(Access.READ | Access.WRITE)
    return x * 2


def enumeration_with_code(x):
    factor = 3

    class Planet(enum.Enum):
        EARTH = (1, 2)

        def __init__(self, a, b):
            self.sum = (a + b) * factor

    return x * Planet.EARTH.sum


def enumeration_with_a_name_twice(x):
    try:

        class Color(enum.Enum):
            RED = 1
            RED = 2

    except TypeError as error:
        return x + 1, type(error).__name__


def with_annotations(x):
    class Holder:
        def twice(self, n: int) -> int:
            return n * 2

    return x * Holder().twice(2), str(Holder.twice.__annotations__)


LEAVES = [enumeration_returned, combined_flag_kept, enumeration_with_code, enumeration_with_a_name_twice, with_annotations,
          returned, returned_in_an_instance, kept, kept_method, over_a_break, with_a_hook, with_a_metaclass]


def _shown(value: Any) -> Any:
    """Without the class itself, which is another one in each call."""
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if isinstance(value, torch.Tensor | int | str):
        return value
    cls = value if isinstance(value, type) else type(value)
    return cls.__qualname__, getattr(value, "k", None)


@pytest.mark.parametrize("fn", LEAVES, ids=lambda fn: fn.__name__)
def test_a_class_that_leaves_is_made_by_python_in_each_call(fn: Any) -> None:
    """Another one each time, with all that belongs to it."""
    assert_same_as_eager(
        lambda x: _shown(fn(x)), X, calls=2, setup=KEPT.clear, observe=lambda: [_shown(kept) for kept in KEPT],
    )  # fmt: skip
    dynexplore.reset()
    KEPT.clear()
    compiled = dynexplore.optimize("eager")(fn)
    results = [compiled(X) for _ in range(3)]
    if fn in (kept,):
        assert len(set(KEPT)) == 3
    if fn in (returned,):
        assert len({result[1] for result in results}) == 3


def test_an_exception_of_a_class_of_the_frame_leaves_it() -> None:
    """Of a class that Python makes."""
    dynexplore.reset()
    for number in range(1, 3):
        with pytest.raises(Exception, match="no") as caught:
            dynexplore.optimize("eager")(raised)(X)
        assert type(caught.value).__name__ == "Made"
        assert dynexplore.counters["frames"]["total"] >= number


def bound_method_of_c(x: torch.Tensor, how: str) -> Any:
    """A method of C bound to the class is called while a variable of the function is read by the class."""
    y = x + 1
    number = 5

    class Kept(dict):  # type: ignore[type-arg]
        __slots__ = ("place",)

        def __init__(self) -> None:
            KEPT.append(number)

    if how == "fromkeys":
        result: Any = Kept.fromkeys([1])
    elif how == "mro":
        result = next(map(len, [type.mro(Kept)]))
    elif how == "slot":
        result = Kept.place.__get__(None, Kept).__name__  # type: ignore[attr-defined]
    else:
        result = list(map(Kept.fromkeys, [[2]]))
    dynexplore.graph_break()
    return y, str(result), number


@pytest.mark.parametrize("how", ["fromkeys", "mro", "slot", "mapped"])
def test_a_bound_method_of_c_leads_to_its_class(how: str) -> None:
    """It is no constant of the first call: the class that it is bound to is another one in each call."""
    assert_same_as_eager(lambda x: bound_method_of_c(x, how), X, calls=3, setup=KEPT.clear, observe=lambda: list(KEPT))
    KEPT.clear()


CELLS = {
    "a number": "__classcell__ = 42",
    "None": "__classcell__ = None",
    "a list": "__classcell__ = []",
    "a slot": "__slots__ = ['__classcell__']",
    "a number and a slot": "__classcell__ = 42; __slots__ = ['__classcell__']",
    "deleted": "__classcell__ = 42; del __classcell__",
    "used": "f = lambda self: __class__",
    "used, after a number": "__classcell__ = 42; f = lambda self: __class__",
}


@pytest.mark.parametrize("body", CELLS.values(), ids=CELLS)
def test_a_class_cell_that_is_none(body):
    """`type` refuses what is no cell under the name where the compiler leaves the cell of `super()`."""
    namespace: dict[str, Any] = {}
    exec(
        f"def program(x):\n    try:\n        class Made:\n            {body}\n        instance = Made()\n"
        "        names = [name for name in vars(Made) if name[:2] != '__']\n"
        "        result = names, hasattr(instance, '__classcell__'), 'f' in names and instance.f() is Made\n"
        "    except TypeError as error:\n        result = str(error)\n    return x + 1, result\n",
        namespace,
    )
    assert_same_as_eager(namespace["program"], X, calls=2, graphs=range(1, 9))
