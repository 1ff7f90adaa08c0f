"""Error messages that differ between Python versions: provoked once in the running Python, then reused with other type names.

The idea: the engine detects the error, because it knows the operand's type, but it has no such object with which to raise it. The
same error is therefore provoked with an object of a known type, and that type's name is replaced in the message.

In: type names, counts. Out: the text of the exception. PyTorch's counterpart: torch/_dynamo writes these messages itself
(`raise_observed_exception` in exc.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PLAIN = "unhashable type: 'list'"


class _Probe:
    """An object that is neither true nor false: `bool()` of it raises."""

    __bool__ = None


def _message_of(mistake: Callable[[], Any]) -> str:
    try:
        mistake()
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("Python takes what was a mistake")


_KEY = _message_of(lambda: {}[[]])  # type: ignore[index]
_MEMBER = _message_of(lambda: {[]})
_CONTAINER = _message_of(lambda: 0 in object())  # type: ignore[operator]
_BOOLEAN = _message_of(lambda: bool(_Probe()))
_UPDATE_ELEMENT = _message_of(lambda: dict([0]))  # type: ignore[list-item]

#: whether Python wraps the message of a failing hash() with the container's name (3.14 and later)
NAMES_CONTAINER = _KEY != _PLAIN


def no_key(type_name: str, reason: str) -> str:
    """The message if a value of this type, whose hash raised `reason`, is used as a dict key."""
    return _KEY.replace(_PLAIN, "\0").replace("list", type_name).replace("\0", reason)


def no_member(type_name: str, reason: str) -> str:
    """The message if a value of this type, whose hash raised `reason`, is put into a set."""
    return _MEMBER.replace(_PLAIN, "\0").replace("list", type_name).replace("\0", reason)


def no_container(type_name: str) -> str:
    """The message if the right operand of `in` has this type and is no container."""
    return _CONTAINER.replace("object", type_name, 1)


def no_boolean(type_name: str) -> str:
    """The message of `bool(value)` if the class of this name defines `__bool__ = None`."""
    return _BOOLEAN.replace("_Probe", type_name)


def no_update_element(index: int) -> str:
    """The message of `dict.update` if an element of the sequence is no pair."""
    return _UPDATE_ELEMENT.replace("#0", f"#{index}")


def too_many_values(expected: int, count: int, kind: type[Any]) -> str:
    """The message of `a, b = value` if a value of this type has more items."""
    value: Any = kind(zip(range(count), range(count), strict=True)) if kind is dict else kind(range(count))
    return _message_of(lambda: exec(f"{'_, ' * expected} = value", {"value": value}))
