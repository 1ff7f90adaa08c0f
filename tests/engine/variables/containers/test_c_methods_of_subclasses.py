"""What the C code of a type makes of a class that extends it: the class of results, the methods that it asks, what NotImplemented
leads to, and what is refused.
"""

from __future__ import annotations

import copy
import itertools
import operator
import warnings
from abc import ABCMeta
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

Point = namedtuple("Point", "a b")
MADE = {
    "OrderedDict": "T(a=1)",
    "dict": "T(a=1)",
    "defaultdict": "T(int, a=1)",
    "Counter": "T('aab')",
    "deque": "T([1], 3)",
    "list": "T([1, [2]])",
    "set": "T([1])",
    "frozenset": "T([1])",
    "tuple": "T((1, [2]))",
    "str": "T('ab')",
    "UserDict": "T(a=1)",
    "UserList": "T([1])",
    "ChainMap": "T({'a': 1})",
    "Point": "T(1, 2)",
}
_NAMES: dict[str, Any] = {
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
    "Counter": Counter,
    "deque": deque,
    "UserDict": UserDict,
    "UserList": UserList,
    "ChainMap": ChainMap,
    "Point": Point,
    "copy": copy,
    "itertools": itertools,
    "warnings": warnings,
}
RESULTS = (
    "v.copy()",
    "copy.copy(v)",
    "copy.deepcopy(v)",
    "v | v",
    "v | {'c': 1}",
    "{'c': 1} | v",
    "v + v",
    "v * 2",
    "2 * v",
    "v[:1]",
    "v & v",
    "v - v",
    "v ^ v",
    "v.union(v)",
    "type(v)(v)",
    "v.__copy__()",
    "-v",
    "+v",
    "v.fromkeys('ab')",
    "v.new_child()",
    "v._replace(a=3)",
)
IN_PLACE = ("v |= v", "v |= {'c': 1}", "v += v", "v *= 2", "v &= v", "v -= v", "v.__init__()", "v.clear()")


def _program(lines: list[str], extra: dict[str, Any]) -> Any:
    namespace: dict[str, Any] = {**_NAMES, **extra, "__name__": "program"}
    exec(
        "def f(x):\n    y = x + 1\n    out = []\n" + "".join(f"    {line}\n" for line in lines) + "    return y * 2, out\n",
        namespace,
    )
    return namespace["f"]


def _attempt(statement: str, shown: str) -> list[str]:
    return [
        "try:",
        f"    {statement}",
        f"    out.append({shown})",
        "except Exception as e:",
        "    out.append((type(e).__name__, str(e)))",
    ]


@pytest.mark.parametrize("extends", [True, False], ids=["a class that extends it", "the type itself"])
@pytest.mark.parametrize("name", MADE)
def test_results_have_the_class_that_python_gives_them(name: str, extends: bool) -> None:
    """Copies, unions, slices and operators."""
    base = _NAMES.get(name) or __builtins__[name]  # type: ignore[index]
    cls = type("T", (base,), {}) if extends else base
    lines = [f"v = {MADE[name]}"]
    for result in RESULTS:
        lines += _attempt(f"r = {result}", "(type(r).__name__, r is v, r == v)")
    for change in IN_PLACE:
        lines += [f"v = w = {MADE[name]}", *_attempt(change, "(type(v).__name__, v is w, len(v))")]
    assert_same_as_eager(_program(lines, {"T": cls}), torch.ones(2), calls=2, graphs=range(1, 100))


class Attributes(OrderedDict[str, Any]):
    """One with an attribute of its own, and arguments of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.calls = len(args)
        super().__init__(*args, **kwargs)


class TenTimes(OrderedDict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value * 10)


class Told(Counter[str]):
    """A Counter that hears of what `update` asks."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)


class TenTimesCounted(Counter[str]):
    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value * 10)


def test_methods_in_c_go_through_what_a_class_overrides() -> None:
    """`__init__`, `__setitem__`, `get`: where CPython's own code asks the class."""

    def program(x: Any) -> Any:
        a = Attributes(a=1)
        b, c = a.copy(), a | {"b": 2}
        t = TenTimes(a=1)
        told, counted = Told(), TenTimesCounted()
        told.update("abca")
        counted.update("aab")
        return (
            x + 1,
            [(type(v).__name__, v.calls, dict(v)) for v in (a, b, c)],
            dict(t),
            dict(t.copy()),
            dict(t | {"b": 2}),
            told.asked,
            dict(told),
            dict(counted),
        )

    assert_same_as_eager(program, torch.ones(2), calls=2)


# CPython 3.13 itself crashes here: popitem() takes the last pair of an order whose dictionary is empty.
CRASHES_OF_PYTHON = {("dict.clear(v)", "v.popitem()"), ("dict.popitem(v)", "v.popitem()")}


def test_the_methods_of_dict_know_nothing_of_an_order() -> None:
    """`dict.__delitem__` takes a key out of an OrderedDict, and leaves it in its order."""
    lines: list[str] = []
    for change in (
        "dict.__delitem__(v, 'a')",
        "dict.pop(v, 'a')",
        "dict.clear(v)",
        "dict.__setitem__(v, 'z', 1)",
        "dict.update(v, z=1)",
        "dict.setdefault(v, 'z', 1)",
        "dict.popitem(v)",
    ):
        for use in (
            "list(v)",
            "v.popitem()",
            "v.copy()",
            "list(v.items())",
            "str(v)",
            "dict.__len__(v)",
            "v == {}",
            "list(dict.keys(v))",
        ):
            if (change, use) in CRASHES_OF_PYTHON:
                continue
            lines += ["v = OrderedDict(a=1, b=2)", *_attempt(f"{change}; r = {use}", "str(r)")]
    assert_same_as_eager(_program(lines, {}), torch.ones(2), calls=2, graphs=range(1, 200))


LOG: list[str] = []


class Abstract(metaclass=ABCMeta):
    def __eq__(self, other: object) -> Any:
        LOG.append("Abstract.eq")
        return NotImplemented

    def __add__(self, other: object) -> Any:
        LOG.append("Abstract.add")
        return NotImplemented

    def __lt__(self, other: object) -> Any:
        LOG.append("Abstract.lt")
        return NotImplemented


class Registered:
    def __eq__(self, other: object) -> Any:
        LOG.append("Registered.eq")
        return NotImplemented

    def __radd__(self, other: object) -> Any:
        LOG.append("Registered.radd")
        return 1

    def __gt__(self, other: object) -> Any:
        LOG.append("Registered.gt")
        return True


Abstract.register(Registered)


def test_a_registered_class_is_not_asked_first() -> None:
    """Only one that really extends the left one's is."""

    def program(x: Any) -> Any:
        LOG.clear()
        return x + 1, Abstract() == Registered(), Abstract() + Registered(), Abstract() < Registered(), list(LOG)

    assert_same_as_eager(program, torch.ones(2), calls=2)


class C: ...


class D:
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)


class E:
    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls, *args)


REFUSED = [
    "C(42)",
    "C.__new__(C, 42)",
    "C().__init__(42)",
    "object.__new__(C, 42)",
    "object.__new__(C, a=42)",
    "object.__init__(C(), 42)",
    "D(42)",
    "E(42)",
    "object.__new__(D, 42)",
    "object.__new__(E, 42)",
    "object(1)",
    "E.__new__(E, 42)",
    "itertools.count('a')",
    "itertools.count('a', 'b')",
    "itertools.count(1, 'b')",
    "itertools.count(None)",
    "itertools.count([])",
    "itertools.repeat(1, 'a')",
    "iter(5, 3)",
    "iter(len, 3)",
    "iter(5)",
    "range(1, 20, x.ndim - 1)",
    "range(1, 20, 0)",
    "len(range(1, 20, 0))",
    "[].mro",
    "[].__name__",
    "{}.__qualname__",
    "[].__hash__",
]


@pytest.mark.parametrize("call", REFUSED)
def test_arguments_are_refused_as_python_refuses_them(call: str) -> None:
    """In the same words."""
    program = _program(_attempt(f"r = {call}", "type(r).__name__"), {"C": C, "D": D, "E": E})
    assert_same_as_eager(program, torch.ones(2), calls=2, graphs=range(1, 3))


def test_a_step_that_varies_may_not_be_zero() -> None:
    """Neither where it is one number of many."""

    def program(x: Any, step: int) -> Any:
        try:
            range(1, 20, step)
            made = 1
        except ValueError as error:
            made = str(error)
        try:
            return x + len(range(1, 20, step)), made
        except ValueError as error:
            return x, made, str(error)

    x = torch.zeros(1)
    assert_same_as_eager(program, x, 3, then=[(x, step) for step in (4, 0, -1, 5, 0)], graphs=range(1, 9))


def test_the_truth_of_not_implemented_warns_each_time() -> None:
    """A DeprecationWarning, until it is an error, from Python 3.14 on."""

    def program(x: Any) -> Any:
        answers: list[Any] = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for truth in (bool, lambda value: "t" if value else "f", operator.not_):
                try:
                    answers.append(truth(NotImplemented))
                except TypeError as error:
                    answers.append(str(error))
        return x + 1, answers, len(warned)

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_copies_of_slices_and_named_tuples_are_new() -> None:
    """`copy` takes slices and exact tuples as they are; `deepcopy` takes apart what it does not know."""

    def program(x: Any) -> Any:
        values = (
            slice(1, [2], None),
            slice(1, 2),
            range(3),
            (1, 2),
            (1, [2]),
            Point(1, 2),
            Point(1, [2]),
            torch.Size([1]),
            frozenset((1,)),
        )
        copies, deep = [copy.copy(v) for v in values], [copy.deepcopy(v) for v in values]
        same = [v is w for v, w in zip(values, copies, strict=True)], [v is w for v, w in zip(values, deep, strict=True)]
        return x + 1, same, copies == list(values), deep == list(values), deep[0].stop is values[0].stop, type(deep[5]).__name__

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_a_list_is_filled_past_what_its_class_overrides() -> None:
    """What the frame did is done once: the replay of a change asks no method of the class."""

    class Loud(list[Any]):
        def __setitem__(self, index: Any, value: Any) -> None:
            LOG.append(f"set {index}")
            super().__setitem__(index, value)

    def program(x: Any, items: Any) -> Any:
        items[0] = 5
        items.append(6)
        return x + 1, list(items)

    assert_same_as_eager(program, torch.ones(2), Loud([1, 2]), calls=2, setup=LOG.clear, observe=lambda: list(LOG))


class Same:
    @classmethod
    def __init_subclass__(cls) -> None: ...


def test_methods_in_c_are_equal_if_they_are_one_method_of_one_object() -> None:
    """Each access makes another object."""

    def program(x: Any) -> Any:
        items, text = [1], "a"
        return (
            x + 1,
            items.append == items.append,
            items.append != items.pop,
            items.append == [1].append,
            C.__init_subclass__ == C.__init_subclass__,
            C.__init_subclass__ == D.__init_subclass__,
            text.join is text.join,
            type(items.append).__name__,
            type(items.__len__).__name__,
            type(C().__gt__).__name__,
            [].__eq__(1),
            (1,).__lt__("a"),
            {1}.__or__([1]),
        )

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_a_tuple_that_nothing_is_added_to_is_itself() -> None:
    """`t[:]`, `t + ()`, `t * 1`: what C returns unchanged is one object; lists and other tuples are copied."""

    def program(x: Any, t: Any) -> Any:
        s, p, items = (1, x), Point(1, 2), [1]
        return (
            x + 1,
            [u is v for v in (s, t) for u in (v[:], v[0:], v[:9:1], v + (), () + v, v * 1, 1 * v, tuple(v))],
            [u is s for u in (s[1:], s[::-1], s[:-1], s * 2, s + (1,))],
            [u is p for u in (p[:], p + (), p * 1)],
            [type(u).__name__ for u in (p[:], p + (), p * 1)],
            [u is items for u in (items[:], items + [], items * 1)],
        )

    assert_same_as_eager(program, torch.ones(2), (1, [2]), calls=2)


class Extended(tuple[Any, ...]):
    """A tuple that is none."""

    __slots__ = ()


def test_what_a_tuple_of_another_class_holds_is_no_tuple_by_itself() -> None:
    """Its slices, sums and products are new tuples."""

    def program(x: Any) -> Any:
        t = Extended((1, 2))
        made = t[:], t + (), () + t, t * 1, 1 * t
        return x + 1, [type(u).__name__ for u in made], [u is t for u in made], made[0] is t[:], t

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_a_list_that_changes_while_it_is_compared_is_read_as_it_is() -> None:
    """CPython reads the lengths again after each pair."""

    def program(x: Any) -> Any:
        class Clears:
            def __eq__(self, other: object) -> bool:
                one.clear()
                other_one.clear()
                return True

        out = []
        for use in ("==", "index", "count", "in"):
            one, other_one = [Clears(), 1], [2, 3]
            try:
                out.append(
                    {
                        "==": lambda: one == other_one,
                        "index": lambda: one.index(3),
                        "count": lambda: one.count(3),
                        "in": lambda: 3 in one,
                    }[use]()
                )
            except ValueError as error:
                out.append(type(error).__name__)
        return x + 1, out

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_an_iterator_of_a_frozenset_goes_on_behind_a_break() -> None:
    """As one of a set does."""

    def program(x: Any) -> Any:
        it, other = iter(frozenset((1, 2, 3))), iter({1, 2, 3})
        first = next(it), next(other)
        print(first)
        return x + 1, first, list(it), list(other)

    assert_same_as_eager(program, torch.ones(2), calls=2)


def test_a_deque_that_changes_while_it_is_searched_says_so() -> None:
    """`in`, `count`, `index` raise RuntimeError, `remove` IndexError, each where the change is noticed."""

    def program(x: Any) -> Any:
        class Clears:
            def __eq__(self, other: object) -> bool:
                items.clear()
                return False

        out: list[Any] = []
        for use in ("in", "count", "index", "remove"):
            items = deque([Clears(), 1, 2])
            try:
                out.append(
                    {
                        "in": lambda: 2 in items,
                        "count": lambda: items.count(2),
                        "index": lambda: items.index(2),
                        "remove": lambda: items.remove(2),
                    }[use]()
                )
            except (RuntimeError, IndexError) as error:
                out.append((type(error).__name__, str(error)))
        return x + 1, out, deque([1, 2]).index(2), deque([1, 2, 2]).count(2), 3 in deque([1])

    assert_same_as_eager(program, torch.ones(2), calls=2)


@pytest.mark.parametrize("state", [42, 0.0, 0, "", None, False, [], {}, (1, [2])], ids=repr)
@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy], ids=lambda function: function.__name__)
def test_a_state_that_is_false_is_a_state(function: Any, state: Any) -> None:
    """`__getstate__` may give anything but None to `__setstate__`."""

    class Kept:
        def __init__(self, foo: Any) -> None:
            self.foo = foo

        def __getstate__(self) -> Any:
            return self.foo

        def __setstate__(self, state: Any) -> None:
            self.foo = state

    def program(x: Any) -> Any:
        kept = Kept(state)
        made = function(kept)
        return x + 1, made.__dict__, made is kept, getattr(made, "foo", 1) is kept.foo

    assert_same_as_eager(program, torch.ones(2), calls=2)


class HidesProtocol(type):
    def __getattribute__(cls, name: str) -> Any:
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return type.__getattribute__(cls, name)


class Uncopyable(metaclass=HidesProtocol): ...


def test_a_class_that_hides_how_it_is_copied_is_not_copied() -> None:
    """`copy.Error`, as in plain Python."""

    def program(x: Any) -> Any:
        y = x + 1
        out = []
        for function in (copy.copy, copy.deepcopy):
            try:
                out.append(type(function(Uncopyable())).__name__)
            except copy.Error as error:
                out.append(str(error))
        return y, out

    assert_same_as_eager(program, torch.ones(2), calls=2)


ASKED: list[tuple[str, str]] = []


class AsksFirst:
    """It hears of each attribute that is looked up."""

    def __init__(self) -> None:
        self.parts = [1]

    def __getattribute__(self, name: str) -> Any:
        ASKED.append(("__getattribute__", name))
        return super().__getattribute__(name)


class AsksLast:
    """It hears of each attribute that is missing."""

    def __init__(self) -> None:
        self.parts = [1]

    def __getattr__(self, name: str) -> Any:
        ASKED.append(("__getattr__", name))
        raise AttributeError(name)


class WithOwnState(AsksFirst):
    """It gives, and takes, a state of its own."""

    def __getstate__(self) -> Any:
        return {"parts": [2]}

    def __setstate__(self, state: Any) -> None:
        self.parts = state["parts"]


class HasNothing(AsksFirst):
    def __init__(self) -> None: ...


class HidesReduce(AsksFirst):
    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return super().__getattribute__(name)


class AnswersForState(AsksFirst):
    def __getattribute__(self, name: str) -> Any:
        return (lambda: {"parts": 7}) if name == "__getstate__" else super().__getattribute__(name)


class AsksAndHolds(dict):  # type: ignore[type-arg]
    def __getattribute__(self, name: str) -> Any:
        ASKED.append(("__getattribute__", name))
        return super().__getattribute__(name)


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy], ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    "cls, breaks",
    [(AsksFirst, 0), (AsksLast, 0), (WithOwnState, 0), (HasNothing, 0), (HidesReduce, 1), (AnswersForState, 1), (AsksAndHolds, 1)],
)
def test_a_copied_object_is_asked_what_it_is_asked_in_eager(cls: Any, breaks: int, function: Any) -> None:
    """Its class hears of the names of the protocol, in their order, and what it answers counts."""

    def program(x: Any) -> Any:
        try:
            made = function(cls())
        except copy.Error as error:
            return x + 1, type(error).__name__
        return x + 1, object.__getattribute__(made, "__dict__")

    assert_same_as_eager(program, torch.ones(2), breaks=breaks, calls=2, setup=ASKED.clear, observe=lambda: list(ASKED))


class Words(str):
    """Text of a class of its own."""


WORDS = Words("abca")
FORMATTED = {
    "__mod__": lambda x: (WORDS.__mod__(()), x + 1),
    "str.format": lambda x: (str.format(WORDS, 3), x + 1),
    "str.__mod__": lambda x: (str.__mod__(WORDS, ()), x + 1),
    "the empty text": lambda x: (Words("") % (), Words("").format(3), Words("").format_map({}), x + 1),
    "a field that is the text": lambda x: (Words("%s") % ("%s",), Words("%s").__mod__(("%s",)), Words("{}").format("{}"), x + 1),
    "% {}": lambda x: (WORDS % {"a": 9}, x + 1),
    "% ()": lambda x: (WORDS % (), x + 1),
    "format": lambda x: (WORDS.format(3), x + 1),
    "format_map": lambda x: (WORDS.format_map({}), x + 1),
    "with a field": lambda x: (Words("a%s") % 3, x + 1),
    "a copy": lambda x: (WORDS[:], WORDS.strip(), WORDS * 1, x + 1),
}


@pytest.mark.parametrize("how", FORMATTED)
def test_text_in_which_nothing_is_replaced_is_the_object_itself(how: str) -> None:
    """Python's writer of texts gives the very object that was formatted, of whatever class it is; other methods make plain text."""
    function = FORMATTED[how]
    assert_same_as_eager(function, torch.ones(2), graphs=1, breaks=0)
    result, expected = dynexplore.optimize("eager")(function)(torch.ones(2))[0], function(torch.ones(2))[0]
    assert (type(result), result is WORDS) == (type(expected), expected is WORDS)


class Numbers(list):
    """A list of a class of its own."""


class Table(dict):
    """A dict of a class of its own."""


class Pair(tuple):
    """A tuple of a class of its own."""


UNBOUND = {
    "list.__iadd__": lambda: (list.__iadd__, Numbers([1]), [2]),
    "list.__imul__": lambda: (list.__imul__, Numbers([1]), 2),
    "list.__add__": lambda: (list.__add__, Numbers([1]), [2]),
    "list.copy": lambda: (list.copy, Numbers([1])),
    "dict.__ior__": lambda: (dict.__ior__, Table(a=1), {2: 3}),
    "dict.copy": lambda: (dict.copy, Table(a=1)),
    "tuple.__mul__": lambda: (tuple.__mul__, Pair([1]), 1),
    "tuple.__getitem__": lambda: (tuple.__getitem__, Pair([1]), slice(None)),
    "str.__str__": lambda: (str.__str__, Words("ab")),
    "str.__format__": lambda: (str.__format__, Words("ab"), ""),
    "str.strip": lambda: (str.strip, Words("ab")),
    "str.__mod__": lambda: (str.__mod__, Words("ab"), ()),
}


@pytest.mark.parametrize("method", UNBOUND)
def test_a_method_taken_from_the_builtin_type_returns_the_object_where_python_does(method: str) -> None:
    """The engine calls it on the content of the object; an operator in place returns the object of the subclass itself."""
    taken, _, *others = UNBOUND[method]()

    def program(x: torch.Tensor, value: object) -> tuple[object, ...]:
        result = taken(value, *others)
        return result, result is value, type(result), x + 1

    def seen(function: object) -> tuple[object, ...]:
        value = UNBOUND[method]()[1]
        result, is_value, kind, _ = function(torch.ones(2), value)
        return result, is_value, kind, result is value, value

    assert seen(dynexplore.optimize("eager")(program)) == seen(program)
    assert_same_as_eager(program, torch.ones(2), UNBOUND[method]()[1], graphs=1, breaks=0)
