"""Texts of containers: their items' own methods are called while Python walks the container."""

from __future__ import annotations

import collections
import functools
import re
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


class OwnText(str):
    """A text of the program's own."""


class TextWithItems(str):
    """`%` is no mapping's, though it has items."""

    def __getitem__(self, key: Any) -> Any:
        return 7


class OwnBytes(bytes):
    """Bytes of the program's own."""


class OwnTuple(tuple):  # type: ignore[type-arg]
    """A tuple of the program's own."""


class HasItems:
    """Any object with `__getitem__` is a mapping to `%`."""

    def __getitem__(self, key: Any) -> Any:
        return 7

    def __repr__(self) -> str:
        return "HasItems()"


class Formats(str):
    """Formats otherwise."""

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, dict) else ("own", other)


PERCENT_VALUES: dict[str, Callable[[], Any]] = {
    "text": lambda: "a", "own text": lambda: OwnText("a"), "text with items": lambda: TextWithItems("a"), "bytes": lambda: b"a",
    "own bytes": lambda: OwnBytes(b"a"), "bytearray": lambda: bytearray(b"a"), "own tuple": lambda: OwnTuple((1,)),
    "items": HasItems,
    "dict": lambda: {"a": 1}, "list": lambda: [1], "number": lambda: 3, "none": lambda: None, "no values": lambda: (),
}  # fmt: skip


@pytest.mark.parametrize("over_a_break", [False, True], ids=["argument", "over a break"])
@pytest.mark.parametrize("name", PERCENT_VALUES)
def test_percent_with_each_kind_of_value(name: str, over_a_break: bool) -> None:
    """What is a mapping, what is one value, and what has bytes: CPython asks the type."""
    make = PERCENT_VALUES[name]

    def program(x: Any, given: Any) -> Any:
        results: list[Any] = []
        value = given
        if over_a_break:
            value = make()
            torch._dynamo.graph_break()
        for text in ("ab", "%s", "%(a)s", "%s %s", b"ab", b"%s", Formats("%s")):
            try:
                results.append(text % value)
            except TypeError as error:
                results.append(str(error))
        return x + 1, results

    assert_same_as_eager(program, torch.ones(2), make(), calls=2, graphs=range(1, 9))


def test_a_format_method_is_looked_up_on_the_class() -> None:
    """One that is set on the object is not called."""

    class Own:
        def __format__(self, spec: str) -> str:
            return f"class {spec}"

    def fn(x: torch.Tensor, own: Any) -> Any:
        return x + 1, f"{own:>3}", format(own), "{:a}".format(own)

    own: Any = Own()
    own.__format__ = lambda spec: "object"
    assert_same_as_eager(fn, torch.ones(3), own)


class Named:
    def __str__(self) -> str:
        return "named"


class Shown:
    def __repr__(self) -> str:
        return "shown"


class Metaclass(type):
    pass


FORMATTED: dict[str, Any] = {
    "an object with __str__": Named(), "an object with __repr__": Shown(), "its class": Named,
    "a class of a metaclass": Metaclass("C", (), {}),
    "int": int, "None": None, "list": [1], "tuple": (1,), "dict": {1: 2}, "bytes": b"", "range": range(3), "slice": slice(3),
    "frozenset": frozenset(), "a function of C": len, "a dtype": torch.float32, "a number": 3, "a text": "t",
    "an error": ValueError("v"),
}  # fmt: skip
FORMATS: dict[str, Callable[[Any], str]] = {
    "str.format": lambda value: "{0:^10}".format(value),
    "an f-string": lambda value: f"{value:^10}",
    "format()": lambda value: format(value, "^10"),
    "its own": lambda value: type(value).__format__(value, "^10"),
    "a nested specification": lambda value: "{:{}}".format(value, "^10"),
    "converted": lambda value: f"{value!s:^10}",
    "empty": lambda value: format(value, ""),
}


@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("what", FORMATTED)
def test_only_a_type_with_a_format_of_its_own_takes_a_specification(what: str, how: str) -> None:
    """object.__format__ refuses one, and names the type."""
    formatted = FORMATS[how]

    def told(value: Any) -> str:
        try:
            return formatted(value)
        except TypeError as error:
            return str(error)

    value = FORMATTED[what]
    assert_same_as_eager(lambda x: (x + 1, told(value)), torch.ones(2), calls=2, graphs=range(1, 4))


@pytest.mark.parametrize("cls", [Named, Shown])
@pytest.mark.parametrize("how", [how for how in FORMATS if how != "its own"])
def test_an_object_of_the_frame_takes_no_specification(how: str, cls: Any) -> None:
    """The same for one made in the frame."""
    formatted = FORMATS[how]

    def program(x: torch.Tensor) -> Any:
        try:
            text = formatted(cls())
        except TypeError as error:
            text = str(error)
        return x + 1, text

    assert_same_as_eager(program, torch.ones(2), calls=2, graphs=1, breaks=0)


PATTERN = re.compile("[a-z]")
MATCHED: list[str] = []


def noted(match: re.Match[str]) -> str:
    """A replacement that leaves a trace."""
    MATCHED.append(match.group())
    return match.group().upper()


class Replaced(str):
    """A class that makes the replacement."""

    def __new__(cls, match: re.Match[str]) -> Replaced:
        return super().__new__(cls, noted(match))


REPLACEMENTS: dict[str, Any] = {
    "function": noted, "lambda": lambda match: noted(match), "partial": functools.partial(noted), "class": Replaced,
    "method of C": re.Match.group, "text": r"<\g<0>>",
}  # fmt: skip
SUBSTITUTIONS: dict[str, Callable[[Any, str], Any]] = {
    "sub": lambda what, text: PATTERN.sub(what, text),
    "subn": lambda what, text: PATTERN.subn(repl=what, string=text, count=1),
    "re.sub": lambda what, text: re.sub(PATTERN, what, text),
    "re.subn": lambda what, text: re.subn("b", what, text),
}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_replacement_is_called_for_each_match_of_each_call(replacement: str) -> None:
    """It is code of the program: it does not run while the graph is captured, and runs in later calls."""
    what = REPLACEMENTS[replacement]

    def program(x: torch.Tensor, text: str) -> Any:
        return x + 1, [substitute(what, text) for substitute in SUBSTITUTIONS.values()], len(MATCHED)

    then = [(torch.ones(2), "ab1"), (torch.ones(2), "q")]
    assert_same_as_eager(program, torch.ones(2), "ab1", then=then, setup=MATCHED.clear, observe=MATCHED.copy)
