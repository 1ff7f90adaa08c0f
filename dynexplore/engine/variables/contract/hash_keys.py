"""Hash keys of values that compare by their parts but are not tuples: frozen dataclasses and bound methods.

The idea: dict and set trackers are keyed by `VariableTracker.hash_key`. Two keys must be equal exactly if the values are, and
`hash(key)` must be the value's own hash if the program asks for it. A plain tuple of the parts would break both rules: the tuple
`(P, 1)` is a different key from the dataclass `P(1)`, and `hash(P(1))` covers the fields alone.

In: the parts. Out: a hashable key. PyTorch's counterpart: `HashableTracker` in torch/_dynamo/variables/hashable.py.
"""

from __future__ import annotations


class _Parts(tuple[object, ...]):
    """Equal to another key of the same class with the same parts."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class FieldsKey(_Parts):
    """The key of a frozen dataclass: its class, and the keys of the fields that take part in comparison."""

    __slots__ = ()

    def __hash__(self) -> int:
        """The same value as the `__hash__` that `dataclass` generates."""
        return hash(self[1:])


class MethodKey(_Parts):
    """The key of a bound method: its function, and the tracker of `__self__`, compared by identity."""

    __slots__ = ()
