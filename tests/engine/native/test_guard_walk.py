"""GuardWalk: what it compares, that it agrees with plain Python, and that it runs no user code."""

from __future__ import annotations

import gc
import random
import sys
import types
import weakref
from collections import OrderedDict
from typing import Any

import pytest
import torch
from code_swaps import entry_region, swapped

from dynexplore.engine.native import UNBOUND, Entry, GuardWalk, no_instance_override

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")


class Thing:
    """An object with an ordinary `__dict__`."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Other(Thing):
    """Another class."""


class Slotted:
    """No `__dict__` at all."""

    __slots__ = ("__weakref__",)


def walk(thing: object, *checks: tuple[object, str, object], type_: type | None = None) -> GuardWalk:
    """A walk over one object."""
    return GuardWalk([(thing, type_ or type(thing), checks)])  # type: ignore[list-item]


def test_is_compares_identity() -> None:
    """A check "is" passes while the very object stands under the key, and fails when an equal one does."""
    payload = [1]
    thing = Thing(x=payload, y=2)
    guard = walk(thing, ("x", "is", payload))
    assert guard.check() is True
    thing.x = [1]
    assert guard.check() is False
    assert guard.first_failure() == (0, "x", "is", [1])
    thing.x = payload
    assert guard.check() is True
    del thing.x
    assert guard.check() is False
    assert guard.first_failure() == (0, "x", "is", UNBOUND)
    thing.x = payload  # now it stands last
    assert guard.check() is True
    assert guard.first_failure() is None


def test_is_weak_holds_nothing() -> None:
    """A check "is_weak" compares like "is" but keeps its object only weakly; once that is dead it fails."""
    payload = Thing()
    thing = Thing(x=payload)
    guard = walk(thing, ("x", "is_weak", payload))
    gone = weakref.ref(payload)
    assert guard.check()
    del payload
    thing.x = Thing()
    assert gone() is None
    assert not guard.check()
    thing.x = None
    assert not guard.check()
    with pytest.raises(TypeError, match="weak reference"):
        walk(thing, ("x", "is_weak", 1))


def test_items_compares_a_whole_dict() -> None:
    """A check "items" passes while the dict under the key has exactly these items, in this order: a program may walk them."""
    weight, bias = Thing(), Thing()
    thing = Thing(parameters={"weight": weight, "bias": bias})
    guard = walk(thing, ("parameters", "items", (("weight", "is_weak", weight), ("bias", "is", bias))))
    assert guard.check()
    thing.parameters = {"bias": bias, "weight": weight}
    assert not guard.check()
    thing.parameters = OrderedDict(weight=weight, bias=bias)
    assert guard.check()
    for wrong in (
        {"weight": weight},
        {"weight": weight, "bias": weight},
        {"weight": bias, "bias": bias},
        {"weight": weight, "other": bias},
        {"weight": weight, "bias": bias, "more": bias},
        {},
        None,
        [weight, bias],
        1,
    ):
        thing.parameters = wrong
        assert not guard.check()
        assert guard.first_failure() == (0, "parameters", "items", wrong)
    del thing.parameters
    assert guard.first_failure() == (0, "parameters", "items", UNBOUND)


def test_equal_compares_by_value() -> None:
    """A check "equal", of an object or of an item, passes for another object of the same value."""
    thing = Thing(n=10**30, names={"a": "".join(["x", "y"])})
    guard = walk(thing, ("n", "equal", 10**30), ("names", "items", (("a", "equal", "xy"),)))
    assert guard.check()
    thing.n += 1
    assert guard.first_failure() == (0, "n", "equal", 10**30 + 1)
    thing.n -= 1
    assert guard.check()
    thing.names["a"] = "x"
    assert guard.first_failure() == (0, "names", "items", {"a": "x"})


def test_any_asks_for_the_key_only() -> None:
    """An "any" item passes for every value under its key."""
    thing = Thing(buffers={"mean": 1, 5: 2})
    guard = walk(thing, ("buffers", "items", (("mean", "any", None), (5, "any", None))))
    assert guard.check()
    thing.buffers["mean"] = 2
    assert guard.check()
    thing.buffers = {"mean": 1, 6: 2}
    assert not guard.check()


def test_empty_and_absent() -> None:
    """A check "empty" passes for an empty dict and None; "absent" for no key only."""
    thing = Thing(hooks={}, x=1)
    empty, absent = walk(thing, ("hooks", "empty", None)), walk(thing, ("hooks", "absent", None))
    for value in ({}, OrderedDict(), None):
        thing.hooks = value
        assert (empty.check(), absent.check()) == (True, False)
    for value in ({1: 2}, OrderedDict(a=1), 0, [], ""):
        thing.hooks = value
        assert (empty.check(), absent.check()) == (False, False)
        assert empty.first_failure() == (0, "hooks", "empty", value)
        assert absent.first_failure() == (0, "hooks", "absent", value)
    del thing.hooks
    assert (empty.check(), absent.check()) == (False, True)


def test_class_and_life_of_the_object() -> None:
    """An object of another class fails, and so does a dead one; neither check holds the object."""
    thing = Thing(x=None)
    guard = walk(thing, ("x", "is", None))
    assert guard.check()
    thing.__class__ = Other
    assert not guard.check()
    assert guard.first_failure() == (0, "__class__", "type", Other)
    assert not walk(thing, type_=Thing).check()
    thing.__class__ = Thing
    assert guard.check()
    del thing
    assert not guard.check()
    assert guard.first_failure() == (0, "", "alive", None)


def test_the_first_failure_of_many() -> None:
    """All specs and checks must pass; the first that does not is named by its index."""
    things = [Thing(x=i, y=i) for i in range(5)]
    guard = GuardWalk((thing, Thing, (("x", "is", i), ("y", "is", i))) for i, thing in enumerate(things))
    assert guard.check()
    things[3].y = "y"
    assert not guard.check()
    assert guard.first_failure() == (3, "y", "is", "y")
    things[2].x = "x"
    assert guard.first_failure() == (2, "x", "is", "x")
    assert GuardWalk([]).check()
    assert GuardWalk([]).first_failure() is None


@pytest.mark.parametrize("thing", [Slotted(), Thing(), types.ModuleType("m"), lambda: None, OrderedDict(), {1}])
def test_every_kind_of_object(thing: Any) -> None:
    """Modules, functions, subclasses of builtins and objects without a `__dict__` can be walked."""
    assert walk(thing, ("nothing_here", "absent", None)).check()
    assert not walk(thing, ("nothing_here", "empty", None)).check()
    if hasattr(thing, "__dict__"):
        thing.__dict__["x"] = thing
        assert walk(thing, ("x", "is", thing)).check()
        thing.x = 1
        assert not walk(thing, ("x", "is", thing)).check()
    else:
        assert not walk(thing, ("x", "is", thing)).check()


def test_classes_can_be_walked() -> None:
    """A class's own `__dict__` is walked like that of any object."""

    class Model:
        scale = 3

    guard = walk(Model, ("scale", "is", 3))
    assert guard.check()
    Model.scale = 4
    assert not guard.check()


def test_malformed_specs() -> None:
    """What is not a spec is a TypeError or ValueError that says what is wanted."""
    thing = Thing()
    for wrong, error, words in [
        (1, TypeError, "iterable"),
        ([1], TypeError, "a spec is a tuple"),
        ([(thing, Thing)], TypeError, "a spec is a tuple"),
        ([(thing, 1, ())], TypeError, "a spec is a tuple"),
        ([(thing, Thing, [])], TypeError, "a spec is a tuple"),
        ([(1, int, ())], TypeError, "weak reference"),
        ([(thing, Thing, (1,))], TypeError, "a check is a tuple"),
        ([(thing, Thing, (("x", "is"),))], TypeError, "a check is a tuple"),
        ([(thing, Thing, (("x", "equals", 1),))], ValueError, "must be one of 'is', 'is_weak', 'equal', 'items'"),
        ([(thing, Thing, (("x", 5, 1),))], ValueError, "must be one of"),
        ([(thing, Thing, (("x", "any", 1),))], ValueError, "must be one of"),
        ([(thing, Thing, (("x", "items", (("y", "items", ()),)),))], ValueError, "must be one of 'is', 'is_weak', 'equal', 'any'"),
        ([(thing, Thing, (("x", "items", 1),))], TypeError, 'payload of an "items" check'),
        ([(thing, Thing, (([], "is", 1),))], TypeError, "unhashable"),
    ]:
        with pytest.raises(error, match=words):
            GuardWalk(wrong)  # type: ignore[arg-type]


def test_no_user_code_runs() -> None:
    """Keys and values with hostile `__eq__`, `__hash__` and `__getattr__` are compared by identity and never called."""
    calls = []

    class Hostile(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            calls.append("eq")
            raise RuntimeError

        def __hash__(self) -> int:
            if armed:
                calls.append("hash")
            return hash("x")

        def __bool__(self) -> bool:
            calls.append("bool")
            raise RuntimeError

    class Guarded(Thing):
        def __getattribute__(self, name: str) -> Any:
            if armed:
                calls.append(name)
            return super().__getattribute__(name)

    armed = False
    key, value = Hostile("x"), Hostile("v")
    thing = Guarded(a=1, inner={})
    thing.__dict__[key] = value
    thing.inner[key] = value
    guard = walk(
        thing,
        (key, "is", value),
        ("inner", "items", ((key, "is", value),)),
        ("b", "absent", None),
        ("x", "absent", None),
        ("a", "is", 1),
    )
    failing = walk(thing, ("x", "is", value))
    armed = True
    assert guard.check()
    assert not failing.check()
    assert guard.first_failure() is None
    armed = False
    assert calls == []


def plainly(specs: list[Any]) -> bool:
    """What a walk should answer, in Python."""
    missing = object()
    for thing, class_, checks in specs:
        if type(thing) is not class_:
            return False
        for key, kind, payload in checks:
            value = thing.__dict__.get(key, missing)
            if kind == "is" and value is not payload:
                return False
            if kind == "absent" and value is not missing:
                return False
            if kind == "empty" and value is not None and value != {}:
                return False
            if kind == "items" and (
                type(value) is not dict
                or value.keys() != {item[0] for item in payload}
                or any(item[1] == "is" and value[item[0]] is not item[2] for item in payload)
            ):
                return False
    return True


def test_it_agrees_with_python_through_random_changes() -> None:
    """Through thousands of random mutations of objects and their dicts the walk answers what Python answers."""
    values = [None, 1, "a", (), [], {}, {"w": 1}, {"w": 1, "b": 2}]
    things = [Thing(a=1, b={}, c={"w": 1, "b": 2}) for _ in range(3)]
    specs = [
        (
            thing,
            Thing,
            (("a", "is", 1), ("b", "empty", None), ("d", "absent", None), ("c", "items", (("w", "is", 1), ("b", "any", None)))),
        )
        for thing in things
    ]
    guard, rng, passed = GuardWalk(specs), random.Random(0), 0
    original = {"a": 1, "b": values[5], "c": values[7]}
    for step in range(20_000):
        thing = rng.choice(things)
        key = rng.choice("abcde")
        action = rng.randrange(8)
        if action == 0:
            thing.__dict__.pop(key, None)
        elif action == 1:
            setattr(thing, key, rng.choice(values))
        elif action == 2:
            thing.__dict__ = dict(rng.sample(list(thing.__dict__.items()), len(thing.__dict__)))
        elif action == 3 and isinstance(thing.__dict__.get("c"), dict):
            thing.c = dict(thing.c)
            thing.c[rng.choice("wbx")] = rng.choice([1, 2])
        elif action == 4:
            thing.__dict__[rng.choice([1, 2.5, ("k",)])] = 1
        elif action == 5:
            thing.__dict__.clear()
            thing.__dict__.update(original)
        else:
            for each in things:
                each.__dict__.pop("d", None)
                each.__dict__.update(original)
        expected = plainly(specs)
        passed += expected
        assert guard.check() is expected, step
        assert (guard.first_failure() is None) is expected
    assert 2000 < passed < 18_000


def test_an_entry_with_a_walk_hits_while_it_passes() -> None:
    """An entry's walk is asked before its check: where it fails, the check does not even run."""
    thing, checked = Thing(training=True), []

    def fn():
        return "original"

    def fast():
        return "fast"

    entry = Entry(lambda *_: checked.append(1) or True, fast.__code__, (), 0, walk(thing, ("training", "is", True)))
    call = swapped(entry_region(fn, entry), fn)
    assert call() == "fast"
    thing.training = False
    assert call() == "original"
    del thing
    assert call() == "original"
    assert checked == [1]


def test_a_walk_leaks_nothing() -> None:
    """Making, checking, failing and dropping walks leaves reference counts as they were; cycles are collected."""
    payload, thing = object(), Thing(x=None, y={"k": None})
    specs = [(thing, Thing, (("x", "is", payload), ("y", "items", (("k", "is", payload), ("l", "is_weak", thing)))))]

    def cycle():
        guard = GuardWalk(specs)  # type: ignore[arg-type]
        guard.check()
        guard.first_failure()
        with pytest.raises(ValueError):
            GuardWalk([*specs, (thing, Thing, (("x", "no", payload),))])  # type: ignore[list-item]

    cycle()
    gc.collect()
    counts = [sys.getrefcount(each) for each in (payload, thing, specs, Thing)]
    for _ in range(1000):
        cycle()
    assert [sys.getrefcount(each) for each in (payload, thing, specs, Thing)] == counts
    holder = Thing()
    holder.walk = walk(thing, ("x", "is", holder))
    gone = weakref.ref(holder)
    assert weakref.ref(holder.walk)() is holder.walk
    del holder
    gc.collect()
    assert gone() is None


class WithNames:
    """A class with a method, a constant and a property."""

    constant = 1

    def method(self) -> int:
        return 1

    @property
    def computed(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, True),
        ({"other": 1}, True),
        ({"other": 1, "method": 2}, False),
        ({"constant": 2}, False),
        ({"computed": 2}, True),
        ({1: 2}, False),
    ],
)
def test_what_an_object_hides_of_its_class(own: dict[Any, Any], expected: bool) -> None:
    """An attribute of its own comes before methods and constants of its class, and not before properties."""
    thing = WithNames()
    thing.__dict__.update(own)
    assert no_instance_override(thing) is expected


def test_asking_what_is_hidden_makes_no_dictionary() -> None:
    """What has no `__dict__` hides nothing, and what has none yet gets none: a new tensor stays as small as it was."""
    tensor = torch.ones(2)
    size = sys.getsizeof(gc.get_referents(tensor))
    assert no_instance_override(tensor)
    assert no_instance_override(3)
    assert sys.getsizeof(gc.get_referents(tensor)) == size


class Sharing:
    """Its objects share a table of keys, and each has values of its own."""

    def __init__(self) -> None:
        self.hooks: dict[str, int] = {}
        self.items = {"a": 1}
        self.flag = True


WRITES = {
    "attribute": lambda thing: setattr(thing, "flag", False),
    "deleted": lambda thing: delattr(thing, "flag"),
    "in the dictionary": lambda thing: vars(thing).update(flag=False),
    "an equal dictionary": lambda thing: setattr(thing, "items", {"a": 2}),
    "another dictionary": lambda thing: setattr(thing, "__dict__", {**vars(thing), "flag": False}),
    "new attribute": lambda thing: setattr(thing, "late", 1),
    "below": lambda thing: thing.items.update(a=2),
    "a key more below": lambda thing: thing.items.update(b=1),
    "was empty": lambda thing: thing.hooks.update(a=1),
    "what was empty is another": lambda thing: setattr(thing, "hooks", {"a": 1}),
}


@pytest.mark.parametrize("looked_at", [False, True], ids=["values beside the object", "its dictionary was made"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_each_way_to_write_is_seen_after_many_that_passed(write: Any, looked_at: bool) -> None:
    """The versions that stand for all checks are of the dictionaries that are written to, whoever holds the values."""
    thing = Sharing()
    if looked_at:
        vars(thing)
    guard = walk(
        thing, ("flag", "is", True), ("late", "absent", None), ("hooks", "empty", None), ("items", "items", (("a", "is", 1),))
    )
    assert all(guard.check() for _ in range(3))
    write(thing)
    assert guard.check() is False
    assert guard.check() is False


def test_what_was_put_back_passes_again() -> None:
    """A version that differs is no miss: what stands there is asked, and the new version stands for it."""
    thing = Sharing()
    hooks = thing.hooks
    guard = walk(thing, ("flag", "is", True), ("hooks", "empty", None))
    for _ in range(3):
        assert guard.check()
        thing.flag, thing.hooks = False, {"a": 1}
        assert not guard.check()
        thing.flag, thing.hooks = True, hooks
        assert guard.check()
        hooks["a"] = 1
        assert not guard.check()
        del hooks["a"]
