"""Attributes that are deleted and stored again, or stored and deleted: the object ends as Python leaves it, in the same order."""

from __future__ import annotations

from typing import Any

import torch

from engine_checks import assert_same_as_eager

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
