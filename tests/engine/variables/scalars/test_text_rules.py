"""Texts of containers: their items' own methods are called while Python walks the container."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager


class Item:
    def __init__(self, change: Callable[[], object]) -> None:
        self.change = change

    def __repr__(self) -> str:
        self.change()
        return "Item"

    __hash__ = object.__hash__


CHANGES: dict[str, Callable[[], Any]] = {
    "list, shorter": lambda: (items := [], items.extend([Item(lambda: items.pop())] * 5))[0],
    "list, another item": lambda: (items := [1, 2], items.append(Item(lambda: items.__setitem__(0, 5))))[0],
    "list in a list": lambda: (items := [], items.append([Item(lambda: items.append(1))]), items.append(2))[0],
    "dict, another value": lambda: (items := {}, items.update({1: Item(lambda: items.update({1: 3}))}))[0],
}
SHOWN: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, Item(list), [Item(list)]],
    "dict": lambda: {1: Item(list), "k": [Item(list)]},
    "deque": lambda: collections.deque([Item(list)]),
    "set": lambda: {Item(list)},
}


@pytest.mark.parametrize("container", CHANGES)
def test_an_item_changes_the_container_that_is_shown(container: str) -> None:
    """Python walks the container as it is by then: the graph breaks, and Python does."""

    def program(x: torch.Tensor) -> Any:
        items = CHANGES[container]()
        return x + 1, f"{items!r}", len(items)

    assert_same_as_eager(program, torch.ones(2), calls=2)


@pytest.mark.parametrize("container", SHOWN)
def test_items_with_texts_of_their_own(container: str) -> None:
    """A container that its items leave alone is shown in the graph."""

    def program(x: torch.Tensor) -> Any:
        items = SHOWN[container]()
        return x + 1, repr(items), str(items), f"{items}", "%s" % (items,)

    assert_same_as_eager(program, torch.ones(2), graphs=1, breaks=0, calls=2)
