"""Which dictionaries stand behind a value: that of an object's attributes, those that a module registers in, the dict of a window.

The idea: a dict may be what another object keeps its attributes in (`vars(obj)`, `module._parameters`). What changes one of
them, captured when they were apart, is good only for calls in which they are apart again. To look makes no dictionary: an
object has none until somebody asks for it (3.11 and later).

In: live values. Out: dictionaries, and whether two values share one. PyTorch has no counterpart.
"""

from __future__ import annotations

import gc
from types import MappingProxyType
from typing import Any

from torch import nn

from dynexplore.engine.native import made_dictionary
from dynexplore.engine.raw_attributes import class_dict, is_a

REGISTRIES = ("_parameters", "_buffers", "_modules")
"""Attributes of a module that are dictionaries of its parameters, buffers and submodules."""


def dictionaries_behind(value: Any) -> list[Any]:
    """The dictionaries that change when the value does, if somebody else can hold them."""
    if type(value) is dict:
        return [value]
    if is_a(value, type):
        value = class_dict(value)
    if type(value) is MappingProxyType:
        return gc.get_referents(value)  # of which it has one
    own = made_dictionary(value)
    if own is None:
        return []
    if is_a(value, nn.Module):
        return [own, *(own[name] for name in REGISTRIES if name in own)]
    return [own]


def attributes_apart(*values: Any) -> bool:
    """Whether no two of these are one object, or keep their attributes in one dictionary (`self.__dict__ = shared`)."""
    made = [id(own) for own in map(made_dictionary, values) if own is not None]
    return len({*map(id, values), *made}) == len(values) + len(made)


def dictionaries_apart(*values: Any) -> bool:
    """Whether none of these dicts is behind one of the other values, and no window is one onto them, or onto what is behind them.

    >>> own = vars(counter := type("Counter", (), {})())
    >>> dictionaries_apart({}, {}, counter), dictionaries_apart({}, own, counter)
    (True, False)
    """
    dicts = {id(value) for value in values if type(value) is dict}
    seen_through: set[int] = set()
    owned: set[int] = set()
    for value in values:
        if type(value) is not dict:
            behind = map(id, dictionaries_behind(value))
            (seen_through if type(value) is MappingProxyType else owned).update(behind)
    return dicts.isdisjoint(owned) and seen_through.isdisjoint(dicts | owned)
