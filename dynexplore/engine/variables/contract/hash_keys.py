"""Hash keys of values that are equal when their parts are, and that are no tuples.

The idea: containers keep real dicts and sets of hash keys (`VariableTracker.hash_key`). A key has to be equal to another where the
values are, and where a program asks for `hash(value)`, the key has the value's own hash. So a tuple that stands for something else
must not be one: the tuple `(P, 1)` is another key than the dataclass `P(1)`, and `hash(P(1))` is that of its fields alone.
"""

from __future__ import annotations


class _Parts(tuple[object, ...]):
    """Equal to another of the same kind with the same parts."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class FieldsKey(_Parts):
    """A frozen dataclass: its class, and the keys of the fields that it compares."""

    __slots__ = ()

    def __hash__(self) -> int:
        """As the method that `dataclass` writes computes it."""
        return hash(self[1:])


class MethodKey(_Parts):
    """A bound method: its function, and the tracker of the object, of which the identity counts."""

    __slots__ = ()
