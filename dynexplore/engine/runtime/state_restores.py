"""Functions that restore single objects to their current state: names, dictionaries, functions, classes, caches and generators.

The idea: each is made before the first run of a call, and called before each later one. What has not changed is not written,
because something may be iterating over it. No code of the user runs: no `__setattr__` of a metaclass, no `__hash__` of a key.

In: an object. Out: a function without arguments that restores it. PyTorch's counterpart: none; its tools copy modules only.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import operator
import os
import random
import threading
from collections.abc import Callable
from typing import Any

from dynexplore.engine.native import made_dictionary
from dynexplore.engine.raw_attributes import is_a, keys_of, values_of
from dynexplore.engine.runtime import numpy_state
from dynexplore.engine.runtime.object_attributes import class_attributes, local_attributes
from dynexplore.engine.runtime.reachable_state import CACHE

EMPTY = object()
"""The value of a name that has none."""


def restore_name(namespace: dict[str, Any], name: str, value: Any) -> None:
    """Bind a name again, unless it is bound to the same object."""
    if namespace.get(name, EMPTY) is not value:
        namespace[name] = value


def function_restore(function: Any) -> Callable[[], None]:
    """A function that restores the attributes of a function, except those that torch.compile sets."""
    saved = dict(made_dictionary(function) or {})

    def restore() -> None:
        own = made_dictionary(function) or {}
        for name in [name for name in own if name not in saved and not name.startswith(("_torchdynamo", "_dynamo"))]:
            del own[name]
        for name, value in saved.items():
            restore_name(own, name, value)

    return restore


def class_restore(cls: type) -> Callable[[], None]:
    """A function that restores the attributes of a class, without calling its metaclass."""
    saved = class_attributes(cls)

    def restore() -> None:
        now = class_attributes(cls)
        for name in now.keys() - saved.keys():
            type.__delattr__(cls, name)
        for name, value in saved.items():
            if now.get(name, EMPTY) is not value:
                type.__setattr__(cls, name, value)

    return restore


def state_restore(state: Any) -> Callable[[], object] | None:
    """A function that restores what an object holds as a whole: a generator's state, a context variable's value, a cache that was
    empty; None if nothing does.
    """
    if is_a(state, random.Random):
        return functools.partial(state.setstate, state.getstate())
    if numpy_state.is_generator(state):
        return numpy_state.generator_restore(state)
    if is_a(state, contextvars.ContextVar):
        value = state.get(EMPTY)
        value = _default_of(state) if value is EMPTY else value
        return (lambda: state.set(value) and None if state.get(EMPTY) is not value else None) if value is not EMPTY else None
    if is_a(state, threading.local):
        return rebind(local_attributes(state))
    if is_a(state, CACHE) and not state.cache_info().currsize:
        return functools.partial(_emptied, state)
    return None


def environment_restore() -> Callable[[], None]:
    """A function that restores `os.environ`, and with it what C code sees."""
    saved = dict(os.environ)

    def restore() -> None:
        for name in os.environ.keys() - saved.keys():
            del os.environ[name]
        for name, value in saved.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    return restore


def _default_of(variable: contextvars.ContextVar[Any]) -> Any:
    try:
        return variable.get()
    except LookupError:
        return EMPTY


def _emptied(cache: Any) -> None:
    if cache.cache_info().currsize:
        cache.cache_clear()


def rebind(container: Any) -> Callable[[], None]:
    """A function that restores the keys and objects of a dict or set if they have changed, and the order of keys. Copies have the
    hashes of the original, so that no `__hash__` of the user runs; an OrderedDict asks its keys for theirs.
    """
    if is_a(container, set):
        elements = set(container)  # as `set.copy`, but a plain set
        return lambda: _rebind_set(container, elements)
    content, (keys, values) = dict.copy(container), _keys_and_values(container)

    def restore() -> None:
        now = _keys_and_values(container)
        if len(now[0]) == len(keys) and all(map(operator.is_, now[0], keys)) and all(map(operator.is_, now[1], values)):
            return
        if is_a(container, collections.OrderedDict):
            collections.OrderedDict.clear(container)
            for key, value in zip(keys, values, strict=True):
                collections.OrderedDict.__setitem__(container, key, value)
        else:
            dict.clear(container)
            dict.update(container, content)

    return restore


def _keys_and_values(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and values in the order of the container."""
    if is_a(container, collections.OrderedDict):
        return keys_of(container), values_of(container)
    return list(dict.keys(container)), list(dict.values(container))


def _rebind_set(container: Any, elements: set[Any]) -> None:
    if set(map(id, set.__iter__(container))) != set(map(id, elements)):
        set.clear(container)
        set.update(container, elements)
