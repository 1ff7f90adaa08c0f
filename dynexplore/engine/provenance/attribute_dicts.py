"""The dictionaries that back a value: an object's `__dict__`, a module's registries, the dict under a mapping proxy.

The idea: a dict may be an alias of the `__dict__` of another object (`vars(obj)`, `module._parameters`). Code captured while two
dictionaries were distinct, and one of them was mutated, is valid only for calls in which they are distinct again. The inspection
itself creates no dictionary: since Python 3.11 an object has none until somebody reads its `__dict__`.

In: live values. Out: their dictionaries, and whether two values share one. PyTorch's counterpart: none.
"""

from __future__ import annotations

import gc
from types import MappingProxyType
from typing import Any

from torch import nn

from dynexplore.engine.native import made_dictionary
from dynexplore.engine.raw_attributes import class_proxy, is_a

REGISTRIES = ("_parameters", "_buffers", "_modules")
"""Attributes of a module that hold the dictionaries of its parameters, buffers and submodules."""


def dicts_behind(value: Any) -> list[Any]:
    """The dictionaries whose mutation changes the value, and which other code can also reference."""
    if type(value) is dict:
        return [value]
    if is_a(value, type):
        value = class_proxy(value)
    if type(value) is MappingProxyType:
        return gc.get_referents(value)  # the object has a `__dict__`
    own = made_dictionary(value)
    if own is None:
        return []
    if is_a(value, nn.Module):
        return [own, *(own[name] for name in REGISTRIES if name in own)]
    return [own]


def no_attribute_alias(*values: Any) -> bool:
    """Whether no two of these are the same object or share one attribute dictionary (`self.__dict__ = shared`)."""
    dict_ids = [id(own) for own in map(made_dictionary, values) if own is not None]
    return len({*map(id, values), *dict_ids}) == len(values) + len(dict_ids)


def no_dict_alias(*values: Any) -> bool:
    """Whether none of these dicts backs one of the other values, and no mapping proxy among them is a view of one.

    >>> own = vars(counter := type("Counter", (), {})())
    >>> no_dict_alias({}, {}, counter), no_dict_alias({}, own, counter)
    (True, False)
    """
    dicts = {id(value) for value in values if type(value) is dict}
    seen_through: set[int] = set()
    owned: set[int] = set()
    for value in values:
        if type(value) is not dict:
            backing_dicts = map(id, dicts_behind(value))
            (seen_through if type(value) is MappingProxyType else owned).update(backing_dicts)
    return dicts.isdisjoint(owned) and seen_through.isdisjoint(dicts | owned)
