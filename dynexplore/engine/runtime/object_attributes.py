"""The attributes of an object, read without code of the user: in its dictionary, its slots, its class, and for one thread.

In: an object or a class. Out: names with their values. PyTorch's counterpart: none; it mirrors CPython's Objects/typeobject.c.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from typing import Any

from dynexplore.engine.raw_attributes import class_dict, class_mro, has_plain_dict, instance_dict, is_a, is_heap_type


def class_attributes(cls: type) -> dict[str, Any]:
    """The attributes of a class itself, without those that Python or a decorator has made, such as `__doc__`.

    >>> class Counter:
    ...     count = 0
    >>> class_attributes(Counter)
    {'count': 0}
    """
    return {name: value for name, value in class_dict(cls).items() if not (name.startswith("__") and name.endswith("__"))}


def local_attributes(value: threading.local) -> dict[str, Any]:
    """The attributes that an object of `threading.local` has in this thread."""
    own: dict[str, Any] = threading.local.__getattribute__(value, "__dict__")
    return own


def attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object: those in its dictionary, and in its slots.

    >>> list(attributes_of(types.SimpleNamespace(a=1)))
    [('a', 1)]
    """
    yield from dict.items(instance_dict(value)) if has_plain_dict(type(value)) else ()
    for name, slot in slots_of(type(value)):
        try:
            yield name, slot.__get__(value)
        except AttributeError:
            continue


def slots_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The descriptors of the slots of a class that a class statement made.

    >>> class Pair:
    ...     __slots__ = ("a", "b")
    >>> [name for name, _ in slots_of(Pair)]
    ['a', 'b']
    """
    for base in class_mro(cls):
        if is_heap_type(base):
            yield from ((name, slot) for name, slot in class_dict(base).items() if is_a(slot, types.MemberDescriptorType))
