"""A class's name in what Python writes about a value: a text of a member, an error about an index."""

from __future__ import annotations

import enum
import itertools
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest
import torch
from programs.before_and_after import X

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


@pytest.mark.parametrize("base", [enum.Enum, enum.IntEnum, enum.Flag])
def test_an_enumeration_is_renamed(base: Any) -> None:
    """The texts of a member name its class, which may have another name in the next call."""

    def f(x: torch.Tensor, member: Any) -> Any:
        return x + 1, f"{member}", f"{member!r}", str(member), "%s" % (member,), [member].__repr__(), member.__repr__()

    seen = []
    for called in (f, dynexplore.optimize("eager")(f)):
        cls: Any = base("Color", ["RED", "BLUE"])
        before = called(X, cls.RED)[1:]
        cls.__name__ = "Other"
        seen.append([before, called(X, cls.RED)[1:]])
    assert seen[0] == seen[1]
    assert "Other" in str(seen[1][1])
    assert graphs_compiled() == 2


class Huge:
    """An index that no C integer holds."""

    def __index__(self) -> int:
        return 1 << 100


def asks(x: torch.Tensor, index: Any) -> Any:
    texts = []
    items = [1, 2]
    for ask in (
        lambda: items[index], lambda: (1, 2)[index], lambda: items * index, lambda: items.pop(index),
        lambda: items.insert(index, 1), lambda: items.__setitem__(index, 1), lambda: items.__delitem__(index),
    ):  # fmt: skip
        try:
            ask()
        except (IndexError, OverflowError) as error:
            texts.append((type(error).__name__, str(error)))
    return x + 1, texts, items


@pytest.mark.parametrize("index", [Huge(), 1 << 100])
def test_an_index_that_does_not_fit(index: Any) -> None:
    """Python names the class of what was given, not that of the number behind it."""
    assert_same_as_eager(asks, X, index)


class Parts:
    """What a format string asks for by name."""

    def __init__(self) -> None:
        self._value, self._ctx, self.behind = 3, 4, self

    def __repr__(self) -> str:
        return "R"


FORMATS = [
    "{0.__class__.__name__} {0.__class__}", "{0.__doc__} {0.__module__}", "{0._value} {0._ctx} {0.behind!r} {0.behind.behind._ctx}",
    "{0.__init__.__name__}", "{0.nothing}", "{0[1]}", "{0:x}",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMATS)
def test_a_format_that_asks_for_parts_gets_those_of_the_value(text: str) -> None:
    """While a text is made something else stands in for the value: neither its class nor what it keeps is seen."""

    def program(x: torch.Tensor, parts: Any) -> Any:
        return x * 2, text.format(parts)

    assert_same_as_eager(program, X, Parts(), graphs=None if text in FORMATS[:4] else range(2))


def test_an_error_of_formatting_names_the_class() -> None:
    """`%d` of an object without a number."""
    assert_same_as_eager(lambda x, parts: (x * 2, "%d" % parts), X, Parts(), graphs=range(2))


def of_functions(x: torch.Tensor, function: Any) -> Any:
    shown = str(torch.sin), repr(len), f"{torch.Tensor.add}", f"{function!r}", str([function])
    try:
        return x + 1, shown, f"{len:>30}"
    except TypeError as error:
        return x + 2, shown, str(error)


def test_texts_of_functions() -> None:
    """A function that is the same in each call has the same text, with its address: modes that log what is called write it."""
    compiled = dynexplore.optimize("eager")(of_functions)
    for function in (torch.cos, asks, torch.Tensor.add, dict.get):
        assert compiled(X, function)[1:] == of_functions(X, function)[1:]
    assert not dynexplore.graph_breaks()
    asks.__qualname__ = "renamed"
    try:
        assert compiled(X, asks)[1:] == of_functions(X, asks)[1:]
    finally:
        asks.__qualname__ = "asks"
    assert graphs_compiled() == 5


def test_types_made_in_c_have_their_full_name() -> None:
    """CPython's messages call a class of C `collections.deque`, and one of Python by its last name."""

    def refused(x: torch.Tensor) -> Any:
        texts = []
        values = [OrderedDict(a=1), deque([1]), defaultdict(int), itertools.count(), [1], Parts(), torch.Size([1]), x.dtype]
        for value in values:
            for ask in (lambda: value.lacking, lambda: value(), lambda: {}[value] if type(value) in UNHASHABLE else None):
                try:
                    ask()
                except (AttributeError, TypeError) as error:
                    texts.append(str(error))
        return x + 1, texts

    assert_same_as_eager(refused, X, graphs=1, breaks=0)


UNHASHABLE = (OrderedDict, deque, defaultdict, list)
