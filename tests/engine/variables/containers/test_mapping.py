"""Dicts as trackers."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import pytest
import torch
from engine.variables.fake_context import FakeContext, plain, raised

from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.error_messages import no_key
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable

pytestmark = pytest.mark.plain("asks trackers in a context without translator")

UNHASHABLE = "unhashable type: 'list'"


def test_an_existing_dict_guards_what_is_asked_of_it() -> None:
    """Building a dict costs a guard on its type; a value its own when it is read, a question its answer, a walk one on all keys."""
    ctx = FakeContext()
    d = ctx.argument({"a": 1, "b": 2, 3: 4})
    assert ctx.guards == [("arg", "TYPE_MATCH")]
    assert plain(ctx, d.get_item(ctx, ConstantVariable("b"))) == 2
    assert plain(ctx, d.get_item(ctx, ConstantVariable(3))) == 4
    assert plain(ctx, d.contains(ctx, ConstantVariable("a"))) is True
    assert plain(ctx, d.contains(ctx, ConstantVariable("c"))) is False
    assert ctx.guards[1:] == [("arg['b']", "EQUALS"), ("arg[3]", "EQUALS"), ("arg", "NAME_PRESENT"), ("arg", "NAME_ABSENT")]
    assert plain(ctx, d.length(ctx)) == 3
    assert ("arg", "DICT_KEYS") in ctx.guards


@pytest.mark.parametrize("odd", [True, 1.0, 1 + 0j], ids=repr)
def test_a_key_that_equals_an_integer_is_that_key(odd: Any) -> None:
    """Where a dict has a key that equals the one asked for without being of its type, all keys are relied on."""
    ctx = FakeContext()
    d = ctx.argument({odd: 5})
    assert plain(ctx, d.get_item(ctx, ConstantVariable(1))) == 5


def test_keys_that_are_objects_are_guarded_by_identity() -> None:
    """A key that hashes by identity is the n-th key of the dict, and this very object."""
    ctx = FakeContext()
    key = torch.relu
    d = ctx.argument({key: 1, "b": 2})
    assert len(d.entries) == 2
    assert ("list(arg)[0]", "ID_MATCH") in ctx.guards
    assert plain(ctx, d.get_item(ctx, ctx.made(key))) == 1


def test_equal_keys_are_one_key() -> None:
    """1, 1.0 and True are the same key, and the first one stays."""
    ctx = FakeContext()
    d = DictVariable()
    for key, value in ((1, "int"), (1.0, "float"), (True, "bool"), ((1, 2), "tuple"), ((1.0, 2), "other")):
        d.set_item(ctx, ctx.made(key), ctx.made(value))
    assert [repr(key) for key in plain(ctx, d)] == ["1", "(1, 2)"]
    assert list(plain(ctx, d).values()) == ["bool", "other"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("__setitem__", "c", 3), {"a": 1, "b": 2, "c": 3}), (("__setitem__", "a", 9), {"a": 9, "b": 2}),
        (("__delitem__", "a"), {"b": 2}), (("pop", "a"), {"b": 2}), (("pop", "z", None), {"a": 1, "b": 2}),
        (("popitem",), {"a": 1}), (("setdefault", "c", 5), {"a": 1, "b": 2, "c": 5}), (("clear",), {}),
        (("update", {"b": 5}), {"a": 1, "b": 5}), (("update", [("c", 1)]), {"a": 1, "b": 2, "c": 1}),
        (("__ior__", {"d": 4}), {"a": 1, "b": 2, "d": 4}),
    ],
    ids=str,
)  # fmt: skip
def test_a_change_is_noted_and_made_in_place(change: tuple[Any, ...], expected: dict[str, int]) -> None:
    """Each changing method tells the journal and changes the tracker, and the live dict stays as it is."""
    ctx = FakeContext()
    live = {"a": 1, "b": 2}
    d = ctx.argument(live)
    ctx.method(d, *change)
    assert plain(ctx, d) == expected
    assert list(plain(ctx, d)) == list(expected)
    assert live == {"a": 1, "b": 2}
    assert ctx.journal.is_changed(d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("__getitem__", "q"), "KeyError: q"), (("pop", "q"), "KeyError: q"), (("__delitem__", "q"), "KeyError: q"),
        (("__getitem__", []), f"TypeError: {no_key('list', UNHASHABLE)}"),
        (("gone",), "AttributeError: 'dict' object has no attribute 'gone'"),
    ],
    ids=str,
)  # fmt: skip
def test_errors(call: tuple[Any, ...], message: str) -> None:
    """What is not there raises what Python raises."""
    ctx = FakeContext()
    with pytest.raises(ObservedException) as error:
        ctx.method(ctx.made({"a": 1}), *call)
    assert raised(error.value) == message


def test_views_are_live_and_iterators_notice_growth() -> None:
    """A view shows later changes; an iterator of a dict that grew raises."""
    ctx = FakeContext()
    d = ctx.made({"a": 1})
    keys = d.call_method(ctx, "keys", [], {})
    iterator = d.iterate(ctx)
    assert iterator.next_item(ctx) is not None
    ctx.method(d, "__setitem__", "b", 2)
    assert plain(ctx, keys) == ["a", "b"]
    with pytest.raises(ObservedException) as error:
        iterator.next_item(ctx)
    assert raised(error.value) == "RuntimeError: dictionary changed size during iteration"


def test_ordered_dicts_compare_their_order() -> None:
    """Two OrderedDicts are equal only in the same order; a dict does not mind."""
    ctx = FakeContext()
    one, other = ctx.made(OrderedDict(a=1, b=2)), ctx.made(OrderedDict(b=2, a=1))
    assert compare(ctx, "==", one, other).as_constant() is False
    assert compare(ctx, "==", one, ctx.made({"b": 2, "a": 1})).as_constant() is True
    ctx.method(one, "move_to_end", "a")
    assert compare(ctx, "==", one, other).as_constant() is True


def test_a_default_dict_makes_what_is_missing() -> None:
    """A missing key calls the factory and is stored; `get` does not."""
    ctx = FakeContext()
    d = ctx.argument(defaultdict(list))
    assert ctx.method(d, "get", "k") is None
    assert not ctx.journal.changed
    assert ctx.method(d, "__getitem__", "k") == []
    assert plain(ctx, d) == {"k": []}
    assert ctx.journal.is_changed(d)


def test_union_keeps_the_left_type() -> None:
    """`|` makes a new dict whose type the left side decides, unless it is a plain dict."""
    ctx = FakeContext()
    plain_dict, ordered = ctx.made({"a": 1}), ctx.made(OrderedDict(b=2))
    assert binary(ctx, "|", ordered, plain_dict).python_type() is OrderedDict
    assert binary(ctx, "|", plain_dict, ordered).python_type() is OrderedDict
    assert binary(ctx, "|", plain_dict, plain_dict).python_type() is dict


def test_keys_of_another_type_are_another_dict() -> None:
    """The guard on keys tells 1 from True and from 1.0, although they are equal."""
    from dynexplore.engine.provenance.guards import GUARD_KINDS

    holds = GUARD_KINDS["DICT_KEYS"].holds
    assert holds({1: 0, "a": 0}, (1, "a"))
    assert not holds({True: 0, "a": 0}, (1, "a"))
    assert not holds({"a": 0, 1: 0}, (1, "a"))
