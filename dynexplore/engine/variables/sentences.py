"""Sentences that CPython says in other words from version to version: asked of the running Python, once, by provoking them.

The idea: what is wrong with an operand is found by the engine, which knows its type but has no such object; how Python puts it is
found by making the same mistake with an object of a known type, whose name is then exchanged.

In: names of types, counts. Out: the text of the exception.
torch/_dynamo words such exceptions itself (exc.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PLAIN = "unhashable type: 'list'"


class _Probe:
    """An object that refuses to be true or false."""

    __bool__ = None


def _provoked(mistake: Callable[[], Any]) -> str:
    try:
        mistake()
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("Python takes what was a mistake")


_KEY = _provoked(lambda: {}[[]])  # type: ignore[index]
_MEMBER = _provoked(lambda: {[]})
_CONTAINER = _provoked(lambda: 0 in object())  # type: ignore[operator]
_BOOLEAN = _provoked(lambda: bool(_Probe()))
_UPDATE_ELEMENT = _provoked(lambda: dict([0]))  # type: ignore[list-item]

#: whether Python says more of a key or a member that has no hash than what its hash raised
NAMES_THE_PLACE = _KEY != _PLAIN


def no_key(type_name: str, reason: str) -> str:
    """A value of this type, whose hash raised `reason`, is no key of a dict."""
    return _KEY.replace(_PLAIN, "\0").replace("list", type_name).replace("\0", reason)


def no_member(type_name: str, reason: str) -> str:
    """A value of this type, whose hash raised `reason`, is no member of a set."""
    return _MEMBER.replace(_PLAIN, "\0").replace("list", type_name).replace("\0", reason)


def no_container(type_name: str) -> str:
    """`in` asks an object of this type."""
    return _CONTAINER.replace("object", type_name, 1)


def no_boolean(type_name: str) -> str:
    """The class of this name says `__bool__ = None`."""
    return _BOOLEAN.replace("_Probe", type_name)


def no_update_element(index: int) -> str:
    """What `dict.update` says of an element of a sequence that is no pair."""
    return _UPDATE_ELEMENT.replace("#0", f"#{index}")


def too_many_values(expected: int, count: int, kind: type[Any]) -> str:
    """`a, b = value` for a value of this type that has more items."""
    value: Any = kind(zip(range(count), range(count), strict=True)) if kind is dict else kind(range(count))
    return _provoked(lambda: exec(f"{'_, ' * expected} = value", {"value": value}))
