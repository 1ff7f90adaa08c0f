"""`__dict__` of objects: attributes that are deleted and stored again leave it as Python does, in the same order; what was taken of
it follows the object."""

from __future__ import annotations

import copy
import itertools
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(2)
LOG: list[str] = []


class Plain:
    a = 0

    def __init__(self) -> None:
        self.v, self.nn = 1, 2


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = 1


class Loud(Plain):
    """Says when an attribute is deleted."""

    def __delattr__(self, name: str) -> None:
        LOG.append(name)
        super().__delattr__(name)


def order(value: Any) -> list[str]:
    return list(vars(value))


def stores_again(x, o):
    del o.v
    o.w = 3
    o.v = 2
    return x * o.v, list(o.__dict__)


def test_an_attribute_that_is_stored_again_goes_to_the_end() -> None:
    """The instance's dictionary has the order in which attributes were stored."""
    given = Plain()
    report = assert_same_as_eager(stores_again, X, given, graphs=1, breaks=0)
    assert report.value[1] == ["nn", "w", "v"]


def stores_again_and_prints(x, o):
    del o.v
    o.v = x + 1
    print(list(vars(o)))
    return o.v * 2


def test_the_order_is_right_at_a_break() -> None:
    """What runs behind a break sees the same order."""
    assert_same_as_eager(stores_again_and_prints, X, Plain(), graphs=2)


def hides_for_a_while(x, o):
    o.a = 5
    x = x * o.a
    del o.a
    return x + o.a


def test_an_attribute_over_one_of_the_class_that_is_deleted_again() -> None:
    """Nothing is deleted that the object never had."""
    assert_same_as_eager(hides_for_a_while, X, Plain(), calls=2, graphs=1, breaks=0)


def fills_a_slot_for_a_while(x, o):
    o.left = 3
    del o.left
    o.left = 4
    return x * o.left


def test_a_slot_that_is_deleted_and_filled() -> None:
    """The same for an attribute in a slot."""
    assert_same_as_eager(fills_a_slot_for_a_while, X, Slotted(), graphs=1, breaks=0)


def deletes(x, o):
    del o.v
    return x * o.nn


def test_a_method_that_deletes_runs_once() -> None:
    """`__delattr__` of the program was interpreted: it does not run again when changes are replayed."""
    assert_same_as_eager(deletes, X, Loud(), setup=LOG.clear, observe=lambda: list(LOG), graphs=1, breaks=0)


HOST: dict[str, Any] = {}
MODULE = types.ModuleType("a_module_of_the_test")


def sets_and_deletes(x):
    host = HOST["host"]
    host.z = 2
    del host.z
    return x + 1


def sets_deletes_and_sets(x):
    host = HOST["host"]
    host.z = 2
    del host.z
    host.z, host.y = 3, 4
    return x + 1


def deletes_alone(x):
    del HOST["host"].z
    return x + 1


def sets_and_deletes_of_a_module(x):
    MODULE.z = 2
    del MODULE.z
    return x + 1


def sets_and_deletes_a_global(x):
    global z
    z = 2
    del z
    return x + 1


class Bare:
    pass


HOSTS: dict[str, Callable[[], Any]] = {"object": Bare, "slots": lambda: type("S", (), {"__slots__": ("z", "y")})(),
                                       "function": lambda: lambda: None, "module of torch": torch.nn.Module}
FUNCTIONS = (sets_and_deletes, sets_deletes_and_sets, deletes_alone)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("function", "make"), [
    *((function, make) for function in FUNCTIONS for make in HOSTS.values()),
    (sets_and_deletes_of_a_module, Bare), (sets_and_deletes_a_global, Bare),
])  # fmt: skip
def test_whether_an_attribute_was_there_is_another_thing_in_another_call(function: Any, make: Any, first: bool) -> None:
    """What the frame sets before it deletes it may have been there or not: nothing is raised, nothing stays."""
    sys.modules[MODULE.__name__] = MODULE
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(function)
    for there in (first, not first, first, first):
        outcomes = []
        for one in (function, compiled):
            HOST["host"] = host = make()
            for owner in (host, MODULE):
                vars(MODULE).pop("z", None)
                globals().pop("z", None)
                if there:
                    owner.z = globals()["z"] = 1
            try:
                result = str(one(X))
            except (AttributeError, NameError) as error:
                result = f"{type(error).__name__}: {error}"
            left = hasattr(host, "z"), list(getattr(host, "__dict__", ())), hasattr(MODULE, "z"), "z" in globals()
            outcomes.append((result, left))
        assert outcomes[0] == outcomes[1]
    assert backend.graphs


# -- the `__dict__` and what was taken of it follow the object, and the object follows them


class Three:
    def __init__(self) -> None:
        self.a, self.b, self.c = 1, 2, 3


class Read(Three):
    """Has a property of the name that is stored in the `__dict__`."""

    @property
    def q(self) -> int:
        return 77


class Through(Three):
    """Sets and deletes by methods of its own."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)


GIVEN: list[Any] = []


def started(iterator: Any) -> Any:
    next(iterator, None)
    return iterator


def removes_and_puts(o: Any) -> None:
    del o.c
    o.c = 9


def moves(o: Any) -> None:
    value = o.a
    del o.a
    o.a = value


def moves_items(d: Any) -> None:
    d["a"] = d.pop("a")
    d.popitem()


def puts_and_removes(o: Any) -> None:
    o.q = 1
    del o.q


def unites(d: Any) -> None:
    d |= {"q": 1}


TAKEN: dict[str, Callable[[Any], Any]] = {
    "dict": lambda d: d, "keys": lambda d: d.keys(), "values": lambda d: d.values(), "items": lambda d: d.items(),
    "iterator": iter, "iterator of items": lambda d: iter(d.items()), "reversed": reversed,
    "started": lambda d: started(iter(d.values()))}
CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "nothing": lambda o, d, x: None, "attribute": lambda o, d, x: setattr(o, "r", 1),
    "over": lambda o, d, x: setattr(o, "a", x + 1), "deleted": lambda o, d, x: delattr(o, "a"),
    "item": lambda o, d, x: d.__setitem__("q", 1), "delete item": lambda o, d, x: d.__delitem__("b"),
    "pop": lambda o, d, x: d.pop("a"), "pop default": lambda o, d, x: d.pop("q", None), "pop missing": lambda o, d, x: d.pop("q"),
    "popitem": lambda o, d, x: d.popitem(), "clear": lambda o, d, x: d.clear(), "update": lambda o, d, x: d.update(q=1, a=x.sum()),
    "setdefault": lambda o, d, x: d.setdefault("q", 3), "none there": lambda o, d, x: d.setdefault("b", 3),
    "again": lambda o, d, x: removes_and_puts(o), "once": lambda o, d, x: puts_and_removes(o), "united": lambda o, d, x: unites(d),
    "copied": lambda o, d, x: d.copy().clear(), "moved": lambda o, d, x: (len(d), moves(o)),
    "moved items": lambda o, d, x: moves_items(d)}
OWNERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "argument": (Three, lambda o: o), "new": (Three, lambda o: Three()), "copy": (Three, copy.copy),
    "property": (Read, lambda o: o), "methods": (Through, lambda o: o), "global": (Three, lambda o: GIVEN[0])}


def takes_and_changes(x, given, own, take, change, breaks):
    o = own(given)
    d = o.__dict__
    taken = take(d)
    if breaks:
        dynexplore.graph_break()
    try:
        change(o, d, x)
        left = str(list(taken))
    except (AttributeError, KeyError, RuntimeError) as error:
        left = repr(error)
    return x * 2, left, list(vars(o)), str(d), len(d), "a" in d, d.get("q"), d == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(("owner", "taken", "breaks"), [
    *itertools.product(("argument", "new"), TAKEN, (False, True)), *itertools.product(OWNERS, ("dict", "items"), (False,)),
])  # fmt: skip
def test_what_was_taken_of_a_dict_follows_the_object(owner: str, taken: str, breaks: bool) -> None:
    """Views and iterators of `__dict__` show the object as it is when they are read; a change of either is a change of both."""
    make, own = OWNERS[owner]
    for name, change in CHANGES.items():
        dynexplore.reset()
        backend = CountingBackend()
        compiled = dynexplore.optimize(backend)(takes_and_changes)
        outcomes: list[list[Any]] = [[], []]
        for said, function in zip(outcomes, (takes_and_changes, compiled), strict=True):
            given = make()
            GIVEN[:] = [given]
            for call in range(2):
                result = function(X[:1] + call, given, own, TAKEN[taken], change, breaks)
                said.append((str(result), str(vars(given))))
        assert outcomes[0] == outcomes[1], name
        assert backend.graphs


class OwnDict(dict):  # type: ignore[type-arg]
    """Its items are its attributes."""

    def __init__(self, **items: object) -> None:
        super().__init__(**items)
        self.__dict__ = self


OWN_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": lambda o, x: setattr(o, "a", x), "item": lambda o, x: o.__setitem__("a", x), "update": lambda o, x: o.update(a=x),
    "delete": lambda o, x: delattr(o, "b"), "pop": lambda o, x: o.pop("b"), "setdefault": lambda o, x: o.setdefault("z", x),
    "unites": lambda o, x: o.__ior__({"a": x}), "clear": lambda o, x: o.clear(), "nothing": lambda o, x: None,
    "united": lambda o, x: unites(o), "of dict": lambda o, x: dict.update(o, a=x),
    "set by dict": lambda o, x: dict.__setitem__(o, "a", x),
    "popped by dict": lambda o, x: dict.pop(o, "b")}


def changes_its_own_dict(x, change):
    o = GIVEN[0]
    y = x * o.a
    change(o, x)
    return y, getattr(o, "a", None), o.get("a"), hasattr(o, "b"), "b" in o, len(o), o.get("z"), getattr(o, "z", None)


def item_of_its_own_dict(x, change):
    o, x = GIVEN[0], x + 1
    o["a"] = x
    del o["b"]
    change(o, x)
    return x * o.a, hasattr(o, "b"), o


@pytest.mark.parametrize("function", [changes_its_own_dict, item_of_its_own_dict])
@pytest.mark.parametrize("change", OWN_CHANGES)
def test_an_object_that_is_its_own_dict(change: str, function: Any) -> None:
    """Reading it is captured; each change, of an item or of an attribute, is seen as both."""
    outcomes = []
    backend = CountingBackend()
    for run in (function, dynexplore.optimize(backend)(function)):
        GIVEN[:] = [OwnDict(a=2, b=3)]
        try:
            outcomes.append(str(run(X, OWN_CHANGES[change])))
        except (AttributeError, KeyError) as error:
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1]
    assert backend.graphs
    if change == "nothing" and function is changes_its_own_dict:
        assert len(backend.graphs) == 1 and not dynexplore.counters["graph_break"]


class Ordered:
    """Its `__dict__` is no plain dict."""

    def __init__(self) -> None:
        self.__dict__ = OrderedDict(a=1, b=2)


def reorders(x, o):
    vars(o).move_to_end("a")
    return x + o.a, list(vars(o)), type(vars(o)).__name__


def is_itself(x, o):
    return x + o.a, vars(o) is o, type(vars(o)).__name__


@pytest.mark.parametrize(("program", "make"), [(reorders, Ordered), (is_itself, lambda: OwnDict(a=2))])
def test_a_dict_of_another_type(program: Any, make: Any) -> None:
    """The `__dict__` of an object may be of any class that extends dict: the graph breaks where it is read."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(program)
    for _ in range(2):
        assert str(compiled(X, make())) == str(program(X, make()))
    assert backend.graphs


def unions(x, o, d):
    other = OrderedDict(z=1)
    made = vars(o) | other, d | other, other | d, vars(o) | d, {} | other, d | defaultdict(int)
    return x + 1, [type(one).__name__ for one in made]


def test_the_union_has_the_type_of_the_subclass() -> None:
    """`dict | OrderedDict` is an OrderedDict, whatever the engine tracks the dict as."""
    assert_same_as_eager(unions, X, Plain(), {"a": 1}, graphs=1, breaks=0)


def lists_a_module(x):
    module = torch.nn.ReLU()
    x = x + 1
    return x * 2, list(vars(module))


def lists_a_given_module(x, module):
    module.bias = torch.nn.Parameter(torch.ones(1))
    module.other = 3
    return x * 2, list(vars(module)), "bias" in vars(module), vars(module).get("weight")


def test_the_dict_of_a_module() -> None:
    """Parameters are in registries, and those are in the dict."""
    assert_same_as_eager(lists_a_module, X, graphs=1, breaks=1)
    assert_same_as_eager(lists_a_given_module, X, torch.nn.Linear(1, 1))


IDENTITY = {
    "is": "answer = d is {view}",
    "is, the other way": "answer = {view} is d",
    "is not": "answer = d is not {view}",
    "in a list": "answer = [{view}].index(d) if d in [{view}] else None",
    "equal": "answer = ({view},) == (d,)",
    "through a name": "e = {view}; answer = e is d",
    "through an attribute": "o.own = d; answer = o.own is {view}; del o.own",
    "another object": "answer = vars(Plain()) is {view}, d is vars(Plain())",
    "another object's": "p = Plain(); p.__dict__ = d; answer = vars(p) is {view}",
}
WHERE = {
    "argument": ("x, o, d", "pass"),
    "argument in front": ("x, d, o", "pass"),
    "read before": ("x, o, d", "d['v'], {view}, o.v"),
    "attribute": ("x, o, holder", "d = holder.d"),
    "item": ("x, o, items", "d = items[0]"),
    "global": ("x, o", "d = HOST['d']"),
}


@pytest.mark.parametrize("view", ["vars(o)", "o.__dict__"])
@pytest.mark.parametrize("where", WHERE)
def test_a_dict_that_came_in_is_the_objects_own_or_not(where: str, view: str) -> None:
    """What is asked about the identity of an object's `__dict__` and of another dict has eager's answer in each call."""
    parameters, first = WHERE[where]
    wrong = []
    for name, body in IDENTITY.items():
        lines = f"def program({parameters}):\n    {first}\n    {body}\n    return x + 1, answer\n".format(view=view)
        space = dict(globals())
        exec(lines, space)

        def call(function: Callable[..., Any], is_own: bool) -> Any:
            o = Plain()
            d = vars(o) if is_own else dict(vars(o))
            HOST["d"] = d
            given = {"o": o, "d": d, "holder": types.SimpleNamespace(d=d), "items": [d]}
            return function(X, *[given[parameter] for parameter in parameters.split(", ")[1:]])[1]

        for order_of_calls in ((True, False, True), (False, True)):
            dynexplore.reset()
            backend = CountingBackend()
            compiled = dynexplore.optimize(backend)(space["program"])
            for is_own in order_of_calls:
                expected, actual = call(space["program"], is_own), call(compiled, is_own)
                if actual != expected:
                    wrong.append(f"{name}, {order_of_calls}, {is_own}: eager {expected}, engine {actual}")
            assert backend.graphs
    assert not wrong, "\n".join(wrong)
