"""Deep copies of the program's own objects: what was shared is shared in the copy, whoever makes it.

copy.py (CPython) keeps a memo of all that has been copied; `__deepcopy__` gets it and may hand it on.
"""

from __future__ import annotations

import copy
import math
import types
from collections import OrderedDict
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(2)


class Alone:
    """Copies itself without the memo."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.value + 1)


class HandsOn(Alone):
    """Has its value copied with the memo that it got."""

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(copy.deepcopy(self.value, memo))


class Notes(Alone):
    """Writes itself into the memo, as objects in circles do."""

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.value = copy.deepcopy(self.value, memo)
        return made


class Counts(Alone):
    """Looks into the memo."""

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(len(memo))


def copied(x: Any, values: list[Any]) -> Any:
    made = copy.deepcopy(values)
    same = [[one is other for other in made] for one in made]
    held = [getattr(value, "value", None) for value in made]
    return x + len(made), same, [[one is other for other in held] for one in held], made[0] is values[0]


def shared(kind: Any, value: Any) -> list[Any]:
    one = kind(value)
    return [one, one, kind(value), value]


@pytest.mark.parametrize("values", [
    shared(Alone, 1), shared(HandsOn, [1]), shared(Notes, [1]), shared(Counts, [1]),
    [one := ([2],), one], [two := {3}, two], [three := frozenset({4}), three], [four := [5], four], [len, Alone],
], ids=["alone", "hands on", "notes", "counts", "tuples", "sets", "frozen sets", "lists", "atoms"])
def test_what_is_shared_is_shared_in_a_deep_copy(values: list[Any]) -> None:
    """An object with a `__deepcopy__`, a set and a tuple are copied once, however often they are met."""
    assert_same_as_eager(copied, X, values, calls=2)


def test_the_memo_of_a_deep_copy_goes_through_the_objects_own_method() -> None:
    """`copy.deepcopy(part, memo)` in a `__deepcopy__` is traced: one graph, no break."""
    assert_same_as_eager(copied, X, shared(HandsOn, [1]), graphs=1, breaks=0)


def copies_a_module(x: Any) -> Any:
    try:
        return x + 1, copy.deepcopy(math)
    except TypeError as error:
        return x + 2, str(error)


def test_a_python_module_is_not_copied() -> None:
    """copy.deepcopy raises TypeError for it."""
    assert_same_as_eager(copies_a_module, X)


def ordered(x: torch.Tensor, given: OrderedDict[str, Any]) -> Any:
    made = OrderedDict(a=x)
    made.note, made.more = x * 2, made  # type: ignore[attr-defined]
    del made.more  # type: ignore[attr-defined]
    copies = [copy.copy(made), copy.deepcopy(made), made.copy(), copy.copy(given), copy.deepcopy(given)]
    texts = []
    for lacks in (made, given):
        try:
            texts.append(lacks.lacking)  # type: ignore[attr-defined]
        except AttributeError as error:
            texts.append(str(error))
    return made, given, copies, texts, [hasattr(one, "note") for one in (made, given, *copies)]


def noted(*note: Any) -> OrderedDict[str, Any]:
    """An OrderedDict with an attribute, or without."""
    given = OrderedDict(b=1)
    for value in note:
        given.note = value  # type: ignore[attr-defined]
    return given


def test_attributes_of_an_ordered_dict_are_copied() -> None:
    """Unlike a dict it may have some; `copy.copy` and `copy.deepcopy` copy them, its own `copy` does not."""
    compiled = dynexplore.optimize("eager")(ordered)
    for note in ((), ([1],), (2,), ()):
        expected, answer = ordered(X, noted(*note)), compiled(X, noted(*note))
        assert answer[3:] == expected[3:]
        for one, other in zip([*answer[:2], *answer[2]], [*expected[:2], *expected[2]], strict=True):
            assert list(one) == list(other) and str(vars(one)) == str(vars(other))
        assert answer[2][0].note is answer[0].note
    assert not dynexplore.graph_breaks()
    assert graphs_compiled() == 3


def writes_attributes(x: torch.Tensor, given: OrderedDict[str, Any]) -> Any:
    given.note = given.note + 1  # type: ignore[attr-defined]
    given.made = x * 2  # type: ignore[attr-defined]
    given["c"] = given.made  # type: ignore[attr-defined]
    torch._dynamo.graph_break()
    del given.note  # type: ignore[attr-defined]
    return given["c"] + 1, hasattr(given, "note")


def test_attributes_of_an_ordered_dict_are_written_back() -> None:
    """What the program sets and deletes on one that existed before is set and deleted."""
    expected, given = noted(1), noted(1)
    assert dynexplore.optimize("eager")(writes_attributes)(X, given)[1:] == writes_attributes(X, expected)[1:] == (False,)
    assert str(vars(given)) == str(vars(expected)) and list(given) == list(expected)
    assert graphs_compiled() == 2


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("place", ["made", "argument", "inside"])
def test_a_read_only_view_of_a_dict_cannot_be_copied(how: Any, place: str) -> None:
    """CPython raises "cannot pickle 'mappingproxy' object"; the copy was a dict."""

    def copies(x: Any, given: Any) -> Any:
        view = types.MappingProxyType({"a": x}) if place == "made" else given
        y = x + 1
        try:
            return y, how(view)
        except TypeError as error:
            return y, str(error)

    view: Any = types.MappingProxyType({"b": 2})
    assert_same_as_eager(copies, torch.ones(2), [view] if place == "inside" else view, calls=2)
