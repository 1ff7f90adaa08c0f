"""Classes of the program that extend tuples and text, and say something of their own: made, compared, copied, left behind.

Theme: variables/containers/named_tuple.py, builtin_subclass.py, copy_rules.py.
"""

from __future__ import annotations

import collections
import copy
import enum
from typing import Any

import pytest
import torch
from programs.before_and_after import seen

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.ones(2)


class Doubling(collections.namedtuple("Doubling", "a b")):
    """A named tuple whose `__new__` fills in, written as a class statement."""

    __slots__ = ()

    def __new__(cls, a: int, b: int | None = None) -> Any:
        return super().__new__(cls, a * 2, b or a)


class Counted(collections.namedtuple("Counted", "a b")):
    """A named tuple with an `__init__`."""

    made: list[int] = []

    def __init__(self, a: int, b: int) -> None:
        Counted.made.append(a)


class Renamed(collections.namedtuple("Renamed", "a b")):
    """A named tuple whose `_make` is its own."""

    __slots__ = ()

    @classmethod
    def _make(cls, items: Any) -> Any:
        return cls(7, 8)


def filled_in(x: Any, n: int) -> Any:
    return x * Doubling(n).a, Doubling(n, 5), Doubling(n)._replace(a=1), Doubling._make([1, 2])


def initialized(x: Any, n: int) -> Any:
    Counted.made.clear()
    return x * Counted(n, 2).a, len(Counted.made)


def left_behind(x: Any, n: int) -> Any:
    made = Renamed(n, 2)
    dynexplore.graph_break()
    return x * made.a, made, Renamed._make([1, 2])


@pytest.mark.parametrize("program", [filled_in, initialized, left_behind])
def test_what_a_named_tuples_class_says_of_making_one(program: Any) -> None:
    """`__new__` and `__init__` of the class are what makes an instance, and its own `_make` is asked only by the program."""
    assert_same_as_eager(program, X, 1, then=[(X, 3), (X, 1)])


class Unequal(str):
    """Text that equals nothing, and hashes as text does."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def as_key(x: Any, key: str) -> Any:
    names = {"a": 1}
    return x * names.get(key, 5), key in names, {key: 2}.get("a", 3), len({key, "a"}), {key: 4}[key]


def test_text_with_an_equality_of_its_own_as_a_key() -> None:
    """A key of a class that extends text is compared as the class says."""
    assert_same_as_eager(as_key, X, Unequal("a"), then=[(X, "a"), (X, Unequal("a"))])


def no_iterable_for_a_slice(x: Any, step: int | None) -> Any:
    numbers: Any = [1, 2, 3]
    try:
        numbers[0:2:step] = 5
    except TypeError as error:
        return x * len(numbers), str(error)
    return x


def test_what_is_said_of_no_iterable_for_a_slice() -> None:
    """A list says itself that a slice wants an iterable."""
    assert_same_as_eager(no_iterable_for_a_slice, X, None, then=[(X, 2), (X, 1)])


class Copying:
    """An object that says how it is copied."""

    def __deepcopy__(self, memo: Any) -> Copying:
        return Copying()


Pair = collections.namedtuple("Pair", "a b")


def shared_parts(x: Any) -> Any:
    own, some, pair, inner = Copying(), {1}, Pair([1], 2), ([1], 2)
    parts = copy.deepcopy([own, own, some, some, pair, pair, inner, inner])
    same = [one is other for one, other in zip(parts[::2], parts[1::2], strict=True)]
    parts[2].add(2)
    return x * len(same), same, parts, some


def test_a_deep_copy_shares_what_was_shared() -> None:
    """An object with a `__deepcopy__`, a set and a tuple that stand twice in a list are one copy each."""
    assert_same_as_eager(shared_parts, X)


class Stored(collections.OrderedDict):
    """An ordered dict that changes what is stored, and what is read."""

    def __setitem__(self, key: str, value: int) -> None:
        super().__setitem__(key, value * 2)

    def __getitem__(self, key: str) -> int:
        return super().__getitem__(key) + 1


def through_its_items(x: Any) -> Any:
    y = x + 1
    made = Stored(a=1)
    made.update(b=2)
    made.setdefault("c", 3)
    return y, made["a"], list(made.items()), list(made.copy().items()), list((made | {"d": 4}).items())


def test_methods_of_an_ordered_dict_that_go_through_its_items() -> None:
    """`update`, `setdefault`, `copy` and `|` of OrderedDict have the class read and store items; those of dict do not."""
    assert_same_as_eager(through_its_items, X, graphs=None)


class Odd(enum.IntEnum):
    """Members that equal nothing."""

    ONE = 1

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return False


def test_the_equality_of_a_member_is_relied_on() -> None:
    """A member that is reached by its name: what its class says of `==` may be another thing later."""
    seen(lambda x: x * (3 if 1 in [Odd.ONE] else 5), lambda: type.__delattr__(Odd, "__eq__"), before=5, after=3)


class Bag(set):
    """A set whose `|` is its own."""

    def __or__(self, other: Any) -> Any:
        return "or"


class Row(list):
    """A list whose `+` is its own."""

    def __add__(self, other: Any) -> Any:
        return "add"


def changed_in_place(x: Any, bag: Any, row: Any) -> Any:
    same_bag, same_row = bag, row
    bag |= {3}
    row += [3]
    row *= 2
    return x * len(row), bag is same_bag, row is same_row, sorted(bag), row, bag | {4}


def made_and_changed_in_place(x: Any) -> Any:
    return changed_in_place(x, Bag([1]), Row([1]))


def test_a_container_changed_in_place_stays_the_object_that_it_is() -> None:
    """`|=`, `+=` and `*=` of a class that extends list or set are those of the C type, before any `__or__` of the class."""
    assert_same_as_eager(made_and_changed_in_place, X)


class Place(int):
    """A number with an `__index__` of its own, which nobody asks."""

    def __index__(self) -> int:
        return 2


def at_a_place(x: Any, place: int, part: slice) -> Any:
    try:
        return x * [1, 2, 3][place], list(range(5)[part])
    except TypeError as error:
        return x, str(error)


def test_a_number_of_the_programs_own_class_is_an_index_itself() -> None:
    """A class that extends int is not asked for its `__index__`; a slice of a range that is none raises what CPython raises."""
    calls = [(X, 1, slice(1, 2)), (X, Place(1), slice("a")), (X, Place(0), slice(1.5))]
    assert_same_as_eager(at_a_place, X, Place(1), slice(0, 2), then=calls)


class Loud:
    """Methods that say when they are called."""

    def __iter__(self) -> Any:
        print("iter", type(self).__name__)
        return super().__iter__()  # type: ignore[misc]

    def __len__(self) -> int:
        print("len", type(self).__name__)
        return super().__len__()  # type: ignore[misc,no-any-return]

    def __reversed__(self) -> Any:
        print("reversed", type(self).__name__)
        return super().__reversed__()  # type: ignore[misc]

    def items(self) -> Any:
        print("items", type(self).__name__)
        return super().items()  # type: ignore[misc]


class LoudDict(Loud, dict):  # type: ignore[type-arg]
    """A dict of the program's own."""


class LoudOrderedDict(Loud, collections.OrderedDict):  # type: ignore[type-arg]
    """An OrderedDict of the program's own."""


class LoudList(Loud, list):  # type: ignore[type-arg]
    """A list of the program's own, of whose `__getitem__` a walk asks nothing."""

    def __getitem__(self, index: Any) -> Any:
        return 100


class LoudSet(Loud, set):  # type: ignore[type-arg]
    """A set of the program's own."""


def rest_of(walk: Any) -> Any:
    try:
        return [item for item in walk]  # `list(walk)` would ask for the length, too
    except RuntimeError as error:
        return str(error)


def dict_seen(x: Any, things: Any) -> Any:
    views = things.items(), dict.keys(things), dict.values(things)
    x = x * 2
    torch._dynamo.graph_break()
    things["b"], things["new"] = 7, 8
    return x + 1, [rest_of(view) for view in views], [len(view) for view in views]


def dict_walked(x: Any, things: Any) -> Any:
    walks = [iter(things), iter(things.items()), reversed(things)]
    firsts = [next(walk) for walk in walks]
    x = x * 2
    torch._dynamo.graph_break()
    things["b"] = 7
    return x + 1, firsts, [rest_of(walk) for walk in walks]


def dict_grown(x: Any, things: Any) -> Any:
    walk = iter(things)
    first = next(walk)
    x = x * 2
    torch._dynamo.graph_break()
    things["new"] = 7
    return x + 1, first, rest_of(walk)


def list_walked(x: Any, things: Any) -> Any:
    walks = [iter(things), enumerate(things), zip(things, things, strict=False), map(str, things), reversed(things)]
    firsts = [next(walk) for walk in walks]
    x = x * 2
    torch._dynamo.graph_break()
    things.append(7)
    return x + 1, firsts, [rest_of(walk) for walk in walks]


def list_walked_with_breaks(x: Any, things: Any) -> Any:
    seen = []
    for index, item in enumerate(things):
        seen.append((index, item))
        x = x * 2
        if index < 2:
            things.append(item)
        torch._dynamo.graph_break()
    return x, seen


def set_walked(x: Any, things: Any) -> Any:
    walk = iter(things)
    x = x * 2
    torch._dynamo.graph_break()
    things.add(7)
    return x + 1, rest_of(walk)


SEEN_ACROSS = [
    *((program, LoudDict, {"a": 1, "b": 2}) for program in (dict_seen, dict_walked, dict_grown)),
    *((program, LoudOrderedDict, {"a": 1, "b": 2}) for program in (dict_seen, dict_walked, dict_grown)),
    (list_walked, LoudList, [1, 2, 3]), (list_walked_with_breaks, LoudList, [1, 2, 3]), (set_walked, LoudSet, [1]),
]  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize(("program", "kind", "content"), SEEN_ACROSS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_seen_of_an_own_container_across_a_break_is_seen_of_that_object(
    program: Any, kind: Any, content: Any, inside: bool
) -> None:
    """A view or an iterator that a graph break lies behind shows the object itself, and asks its class nothing twice."""

    def called(x: Any, things: Any) -> Any:
        return program(x, kind(content) if inside else things), 0

    assert_same_as_eager(called, X, kind(content), calls=2)


def handed_out(x: Any) -> Any:
    names, numbers = LoudDict(a=1), LoudList([1])
    views = dict.values(names), list.__iter__(numbers), (number for number in numbers)
    return x * 2, names, numbers, views


def test_what_is_handed_out_of_an_own_container_is_seen_of_that_object() -> None:
    """The caller changes the container, and finds it changed in the view that it got beside it."""

    def program(x: Any) -> Any:
        x, names, numbers, views = handed_out(x)
        return x, names, numbers, views

    x, names, numbers, views = dynexplore.optimize("eager")(program)(X)
    names["b"] = 2
    numbers.append(2)
    assert [list(view) for view in views] == [[1, 2], [1, 2], [1, 2]]
    assert len(dynexplore.explain(program)(X).graphs) == 1


Point = collections.namedtuple("Point", "a b")


class OpenPoint(Point):
    """Its instances have a `__dict__`."""

    def total(self) -> int:
        return self.a + self.b  # type: ignore[no-any-return]


class Reduced(Point):
    """A protocol of its own."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Point, (7, 8)


class NewArguments(Point):
    """What a copy is made of."""

    def __getnewargs__(self) -> Any:
        return 5, 6


ASKED: dict[str, Any] = {
    "getattr": lambda point: getattr(point, "z", None),
    "hasattr": lambda point: hasattr(point, "z"),
    "a method of the class": lambda point: point.total() if hasattr(point, "total") else 0,
    "a generated method": lambda point: point._replace(a=3),
    "copy": lambda point: (lambda other: (other, type(other), getattr(other, "z", None)))(copy.copy(point)),
    "deepcopy": lambda point: (lambda other: (other, type(other), getattr(other, "z", None)))(copy.deepcopy(point)),
}


@pytest.mark.parametrize("cls", [Point, OpenPoint, Reduced, NewArguments])
@pytest.mark.parametrize("asked", ASKED)
def test_attributes_of_a_named_tuple_itself(asked: str, cls: Any) -> None:
    """A class that extends a named tuple without `__slots__` gives its instances attributes, which copies have, too."""

    def program(x: Any, point: Any) -> Any:
        return x + 1, ASKED[asked](point)

    def point(**attributes: Any) -> Any:
        new = cls(1, 2)
        if attributes:
            new.__dict__.update(attributes)
        return new

    others = [point()] if cls is Point else [point(z=3), point(total=lambda: 9), point(_replace=lambda a: 9), point()]
    assert_same_as_eager(program, X, point(), then=[(X, other) for other in others], graphs=None)


def test_a_class_that_extends_tuple_takes_one_argument() -> None:
    """`tuple.__new__` counts its arguments, whoever calls it."""

    class Own(tuple[Any, ...]):
        pass

    def program(x: Any, *args: Any) -> Any:
        try:
            return x + 1, Own(*args)
        except TypeError as error:
            return x + 1, str(error)

    assert_same_as_eager(program, X, then=[(X, [1, 2]), (X, "a", 1)])
