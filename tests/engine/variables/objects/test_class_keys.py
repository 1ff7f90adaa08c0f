"""Classes whose `__dict__` has a key that is not text: the engine calls no `__eq__` of it; lookups that would are Python's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

ASKED: list[str] = []


class Key:
    """A key with the hash of a name, equal to none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        ASKED.append(self.name)
        return False


class Text(str):
    """Text of another class, which compares as text."""


def class_with(*keys: object) -> type[Any]:
    """A class with a method, an attribute `name` and these keys."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return type("Made", (), {**dict.fromkeys(keys, 1), "name": 2, "method": lambda self: 3})


USES: dict[str, Callable[[Any], Any]] = {
    "attribute of the class": lambda cls: cls.name,
    "attribute of an instance": lambda cls: cls().name,
    "method": lambda cls: cls().method(),
    "missing": lambda cls: getattr(cls, "nothing", 4),
    "of an instance": lambda cls: hasattr(cls(), "nothing"),
    "stored": lambda cls: setattr(cls, "new", 5) or cls.new,
    "call": lambda cls: isinstance(cls(), cls),
    "own names": lambda cls: len(vars(cls)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("keys", [(Key("name"),), (Key("nothing"), Key("other")), (Key("__init__"),), (3,), (Text("name"), 3), ()])
def test_values_are_those_of_eager(keys: tuple[object, ...], use: str) -> None:
    """Whatever is asked of the class, in two calls."""
    cls, ask = class_with(*keys), USES[use]

    def fn(x: torch.Tensor) -> Any:
        return x + 1, ask(cls)

    assert_same_as_eager(fn, torch.ones(2), calls=2)


@pytest.mark.parametrize("use", USES)
def test_the_engine_compares_no_such_key(use: str) -> None:
    """A key whose hash is that of no name that is looked up is never asked, whatever the engine reads."""
    cls, ask = class_with(Key("other")), USES[use]

    def fn(x: torch.Tensor) -> Any:
        return x + 1, ask(cls)

    ASKED.clear()
    assert_same_as_eager(fn, torch.ones(2), calls=2)
    assert not ASKED


def test_a_class_may_name_no_module() -> None:
    """A class made where there is no `__name__`, and its instances."""
    space: dict[str, Any] = {}
    exec("class Nameless(list): pass", space)
    cls = space["Nameless"]

    def fn(x: torch.Tensor, given: Any) -> Any:
        made = cls([3])
        given.append(made[0])
        return x + 1, made, len(given)

    assert_same_as_eager(fn, torch.ones(2), cls([1]), graphs=1, breaks=0)
