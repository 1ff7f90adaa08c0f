"""Sentences of the running Python about other types and counts than those with which they were provoked."""

from __future__ import annotations

from typing import Any

import pytest

from dynexplore.engine.variables import error_messages

pytestmark = pytest.mark.plain("compares texts with what Python raises")


class Refusing:
    """Has no hash, no truth and no items."""

    __hash__ = None  # type: ignore[assignment]
    __bool__ = None


def said(source: str, **values: Any) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        exec(source, values)
    return str(caught.value)


def test_they_are_what_python_says() -> None:
    """A key, a member, a container, a truth, an element of an update, too many values."""
    name = f"{Refusing.__module__}.Refusing" if error_messages.NAMES_CONTAINER else "Refusing"
    reason = "unhashable type: 'Refusing'"
    assert error_messages.no_key(name, reason) == said("{}[r]", r=Refusing())
    assert error_messages.no_member(name, reason) == said("{r}", r=Refusing())
    assert error_messages.no_container("Refusing") == said("1 in r", r=Refusing())
    assert error_messages.no_boolean("Refusing") == said("bool(r)", r=Refusing())
    assert error_messages.no_update_element(1) == said("dict([(1, 2), 3])")


@pytest.mark.parametrize("value", [[1, 2, 3], (1, 2, 3, 4), {1: 2, 3: 4, 5: 6}])
def test_too_many_values_are_counted_where_python_counts_them(value: Any) -> None:
    """Of a list, a tuple and a dict, from Python 3.14 on."""
    assert error_messages.too_many_values(2, len(value), type(value)) == said("a, b = value", value=value)
    assert error_messages.too_many_values(2, len(value), enumerate) == said("a, b = iter(value)", value=value)
