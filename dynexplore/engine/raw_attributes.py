"""Reading attributes past the program's own code.

The idea: to look is not to run. A guard, or a tracker that asks what a live object holds, must not run a `__getattribute__` of the
program, of the object's class or of a metaclass: it might count, print, raise, or answer for something else.
`object.__getattribute__` and `type`'s own slots read what is there.

In: a live object and a name. Out: what stands there. Mirrors CPython's Objects/object.c (PyObject_GenericGetAttr).
"""

from __future__ import annotations

import gc
from collections import OrderedDict, deque
from collections.abc import Iterator
from types import MappingProxyType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from dynexplore.engine.native import made_dictionary

class_dict: Any = type.__dict__["__dict__"].__get__
"""A class's own `__dict__`."""
class_mro: Any = type.__dict__["__mro__"].__get__
"""The classes in which a name is looked up, in order."""
_class_flags: Any = type.__dict__["__flags__"].__get__
_class_name: Any = type.__dict__["__name__"].__get__
_class_offset: Any = type.__dict__["__dictoffset__"].__get__
_MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT: CPython itself keeps the attributes, with or without a dictionary
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: made in C, where it has the other flag, too


def instance_dict(value: object) -> dict[str, Any]:
    """An object's own `__dict__`.

    An object of C that has none yet gets none from being looked at: CPython may ask whether it has (a partial of such a partial
    is one partial, functoolsmodule.c).

    >>> from functools import partial
    >>> given = partial(print)
    >>> instance_dict(given), made_dictionary(given)
    ({}, None)
    """
    if is_a(value, type):
        return class_dict(value)  # type: ignore[no-any-return]
    own = made_dictionary(value)
    if own is not None:
        return own
    flags, offset = _class_flags(type(value)), _class_offset(type(value))
    if offset and not flags & _MANAGED_DICT:
        return {}
    return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]


def is_a(value: object, *classes: type[Any]) -> bool:
    """`isinstance` by an object's type alone; where that says no, `isinstance` goes on and asks the object for its `__class__`."""
    return issubclass(type(value), classes)


def bound_method(function: MethodDescriptorType, owner: object) -> Any:
    """A method of C, bound. The type is named: Python 3.12 reads it for some methods without asking whether there is one."""
    return function.__get__(owner, type(owner))


def is_c_type(cls: type[Any]) -> bool:
    """Whether a class is one of C, and no class statement's."""
    return bool(not _class_flags(cls) & _HEAP_TYPE or _class_flags(cls) & _IMMUTABLE)


def name_in_messages(cls: type[Any]) -> str:
    """The name by which CPython's own messages call a class: of one that is made in C it is the full one (`tp_name`).

    >>> from collections import deque
    >>> name_in_messages(deque), name_in_messages(list)
    ('collections.deque', 'list')
    """
    name, module = _class_name(cls), class_dict(type)["__module__"].__get__(cls) if is_c_type(cls) else "builtins"
    return name if module == "builtins" else f"{module}.{name}"


ABSENT = object()
"""What stands where there is nothing: no guard takes it for anything."""


def item_of(container: Any, key: Any) -> Any:
    """`container[key]` by the C type below the container's class: no `__getitem__` and no `__missing__` is asked.

    >>> from collections import defaultdict
    >>> rows = defaultdict(list, one=1)
    >>> item_of(rows, "one"), len(rows)
    (1, 1)
    >>> item_of(rows, "two")
    Traceback (most recent call last):
    KeyError: 'two'
    """
    container = behind(container)
    kind = type(container)
    if issubclass(kind, dict):
        value = dict.get(container, key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value
    return _layout(kind, list, tuple, deque).__getitem__(container, key)


def behind(container: Any) -> Any:
    """What a mappingproxy shows, of whatever class that is; any other container itself.

    >>> behind(MappingProxyType({"a": 1}))
    {'a': 1}
    """
    return gc.get_referents(container)[0] if type(container) is MappingProxyType else container


def keys_of(container: Any) -> list[Any]:
    """`list(container)` of a dict or set, by the C type below its class."""
    container = behind(container)
    if is_a(container, OrderedDict):
        return _ordered_keys(container)
    return list(_layout(type(container), dict, set, frozenset).__iter__(container))


def values_of(container: Any) -> list[Any]:
    """`list(container.values())`, by the C type below its class."""
    container = behind(container)
    if is_a(container, OrderedDict):
        values = {id(key): value for key, value in dict.items(container)}
        return [values[id(key)] for key in _ordered_keys(container)]
    return list(_layout(type(container), dict).values(container))


def _ordered_keys(container: OrderedDict[Any, Any]) -> list[Any]:
    """The keys of an OrderedDict in its order; CPython's own walk looks each of them up again, and may ask a `__eq__`."""
    keys = list(dict.__iter__(container))
    if all(type(key) is str for key in keys):
        return list(OrderedDict.__iter__(container))
    # odictobject.c (odict_traverse): the keys in their order, then what the dict below has, values and keys
    return gc.get_referents(container)[: -2 * len(keys)][-len(keys) :]


def _layout(kind: type[Any], *layouts: Any) -> Any:
    for layout in layouts:
        if issubclass(kind, layout):
            return layout
    raise TypeError(f"a {kind.__qualname__} has no such items")


def own_attribute(value: object, name: str) -> Any:
    """What an object's own `__dict__` has under a name."""
    return instance_dict(value)[name]


def closure_values(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function closes over, by name; a cell that is not assigned yet is left out.

    >>> list(closure_values((lambda number: lambda: number)(3)))
    [('number', 3)]
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def plain_attribute(value: Any, name: str) -> Any:
    """`value.name` as the C type below the object's class reads it: a slot, an attribute of C, what a class has."""
    own = (class_dict(owner).get("__getattribute__") for owner in class_mro(type(value)))
    return next(method for method in own if type(method) is WrapperDescriptorType)(value, name)


def has_python_getattribute(cls: type[Any]) -> bool:
    """Whether reading an attribute of an instance runs a `__getattribute__` of the program."""
    if not _class_flags(cls) & _HEAP_TYPE:
        return False
    for owner in class_mro(cls):
        method = class_dict(owner).get("__getattribute__")
        if method is not None:
            return type(method) is not WrapperDescriptorType
    return False


def tells_its_class(cls: type[Any]) -> bool:
    """Whether `instance.__class__` is the instance's type, and no code of the program is run to say so."""
    if has_python_getattribute(cls):
        return False
    return next(class_dict(owner)["__class__"] for owner in class_mro(cls) if "__class__" in class_dict(owner)) is _CLASS_OF


_CLASS_OF = class_dict(object)["__class__"]
