"""Raw attribute access: read attributes without running the program's own code.

The idea: inspection must have no side effects. A guard, or a tracker that reads a live object, must not run a `__getattribute__`
of the program, of the object's class or of a metaclass: it might count, print, raise, or return something else.
`object.__getattribute__` and `type`'s own slots return what is stored.

In: a live object and a name. Out: the stored value. PyTorch's counterpart: none; it mirrors CPython's Objects/object.c
(PyObject_GenericGetAttr).
"""

from __future__ import annotations

import gc
from collections import OrderedDict, deque
from collections.abc import Iterator
from types import (
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from dynexplore.engine.native import made_dictionary, names_of_class

class_dict: Any = names_of_class
"""A class's own `__dict__`, without the keys that are not text: a lookup would call their `__eq__`."""
class_proxy: Any = type.__dict__["__dict__"].__get__
"""A class's own `__dict__` with all keys."""
class_mro: Any = type.__dict__["__mro__"].__get__
"""A class's own `__mro__`: the classes in which a name is looked up, in order."""
class_flags: Any = type.__dict__["__flags__"].__get__
"""What CPython notes about a class (Py_TPFLAGS)."""
class_name: Any = type.__dict__["__name__"].__get__
class_qualname: Any = type.__dict__["__qualname__"].__get__
"""A class's own names, whatever its metaclass answers."""
_class_offset: Any = type.__dict__["__dictoffset__"].__get__
_MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT: CPython stores the attributes, with or without a dictionary
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: defined in C, even if the other flag is set, too


def instance_dict(value: object) -> dict[str, Any]:
    """An object's own `__dict__`.

    A C object without one does not get one by being inspected: CPython may check whether it has one (a partial of such a partial
    is flattened, functoolsmodule.c).

    >>> from functools import partial
    >>> given = partial(print)
    >>> instance_dict(given), made_dictionary(given)
    ({}, None)
    """
    if is_a(value, type):
        return class_proxy(value)  # type: ignore[no-any-return]
    own = made_dictionary(value)
    if own is not None:
        return own
    flags, offset = class_flags(type(value)), _class_offset(type(value))
    if offset and not flags & _MANAGED_DICT:
        return {}
    return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]


def has_plain_dict(cls: type[Any]) -> bool:
    """Whether the `__dict__` of instances is their own dictionary: no property of the program has that name.

    >>> class Own:
    ...     __dict__ = property(lambda self: 1 / 0)
    >>> has_plain_dict(type("Plain", (), {})), has_plain_dict(ModuleType), has_plain_dict(Own), has_plain_dict(int)
    (True, True, False, False)
    """
    descriptor = next((class_dict(base)["__dict__"] for base in class_mro(cls) if "__dict__" in class_dict(base)), None)
    return type(descriptor) is GetSetDescriptorType or type(descriptor) is MemberDescriptorType


def is_a(value: object, *classes: type[Any]) -> bool:
    """`isinstance` by an object's type only; the built-in one would otherwise also read the object's `__class__`."""
    return issubclass(type(value), classes)


def module_name(module: ModuleType) -> str | None:
    """The name of a module, from its own dictionary. None if it has none, as one that `__init__` has not seen.

    >>> module_name(gc), module_name(ModuleType.__new__(ModuleType))
    ('gc', None)
    """
    name = instance_dict(module).get("__name__")
    return name if is_a(name, str) else None


def bound_method(function: MethodDescriptorType, owner: object) -> Any:
    """A bound C method. The type is passed explicitly: Python 3.12 reads it for some methods without checking that there is one."""
    return function.__get__(owner, type(owner))


def is_subtype(cls: type[Any], base: type[Any]) -> bool:
    """Whether a class extends another: CPython's PyType_IsSubtype, which asks no `__subclasscheck__`.

    >>> from collections.abc import Sized
    >>> is_subtype(bool, int), is_subtype(list, Sized), issubclass(list, Sized)
    (True, False, True)
    """
    return any(owner is base for owner in class_mro(cls))  # `in` would call the `__eq__` of a metaclass


def is_heap_type(cls: type[Any]) -> bool:
    """Whether a class was allocated at run time: by a class statement, a call of a metaclass, or C code that does the same.

    >>> is_heap_type(int), is_heap_type(type("Plain", (), {}))
    (False, True)
    """
    return bool(class_flags(cls) & _HEAP_TYPE)


def is_immutable_type(cls: type[Any]) -> bool:
    """Whether the attributes of a class cannot be assigned: it is defined in C.

    >>> is_immutable_type(int), is_immutable_type(type("Plain", (), {}))
    (True, False)
    """
    return bool(class_flags(cls) & _IMMUTABLE)


def is_c_type(cls: type[Any]) -> bool:
    """Whether a class is defined in C, and not by a class statement."""
    return not is_heap_type(cls) or is_immutable_type(cls)


def class_module(cls: type[Any]) -> str:
    """The module that a class names; "" if it names none, as a class made where there is no `__name__`.

    >>> class_module(int), class_module(type("Nameless", (), {"__module__": 3}))
    ('builtins', '')
    """
    try:
        name = _module_of(cls)
    except AttributeError:
        return ""
    return name if is_a(name, str) else ""


_module_of: Any = type.__dict__["__module__"].__get__


def name_in_messages(cls: type[Any]) -> str:
    """The name of a class in CPython's own messages: for one defined in C it is the full one (`tp_name`).

    >>> from collections import deque
    >>> name_in_messages(deque), name_in_messages(list)
    ('collections.deque', 'list')
    """
    name, module = class_name(cls), class_dict(type)["__module__"].__get__(cls) if is_c_type(cls) else "builtins"
    return name if module == "builtins" else f"{module}.{name}"


ABSENT = object()
"""The result if there is no value: it is equal to no value in any guard."""


def item_of(container: Any, key: Any) -> Any:
    """`container[key]` by the C base type of the container: no `__getitem__` and no `__missing__` is called.

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
    """The mapping behind a mappingproxy, of any class; any other container itself.

    >>> behind(MappingProxyType({"a": 1}))
    {'a': 1}
    """
    return gc.get_referents(container)[0] if type(container) is MappingProxyType else container


def keys_of(container: Any) -> list[Any]:
    """`list(container)` of a dict or set, by its C base type."""
    container = behind(container)
    if is_a(container, OrderedDict):
        return _ordered_keys(container)
    return list(_layout(type(container), dict, set, frozenset).__iter__(container))


def values_of(container: Any) -> list[Any]:
    """`list(container.values())`, by its C base type."""
    container = behind(container)
    if is_a(container, OrderedDict):
        values = {id(key): value for key, value in dict.items(container)}
        return [values[id(key)] for key in _ordered_keys(container)]
    return list(_layout(type(container), dict).values(container))


def _ordered_keys(container: OrderedDict[Any, Any]) -> list[Any]:
    """The keys of an OrderedDict in its order; CPython's own iteration looks each of them up again, and may call an `__eq__`."""
    keys = list(dict.__iter__(container))
    if all(type(key) is str for key in keys):
        return list(OrderedDict.__iter__(container))
    # odictobject.c (odict_traverse): the keys in order, then the values and keys of the underlying dict
    return gc.get_referents(container)[: -2 * len(keys)][-len(keys) :]


def _layout(kind: type[Any], *layouts: Any) -> Any:
    for layout in layouts:
        if issubclass(kind, layout):
            return layout
    raise TypeError(f"a {kind.__qualname__} has no such items")


def own_attribute(value: object, name: str) -> Any:
    """The value under a name in an object's own `__dict__`."""
    return instance_dict(value)[name]


def closure_values(function: Any) -> Iterator[tuple[str, Any]]:
    """The values in a function's closure, by name; empty cells are omitted.

    >>> list(closure_values((lambda number: lambda: number)(3)))
    [('number', 3)]
    """
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def plain_attribute(value: Any, name: str) -> Any:
    """`value.name` as read by the C base type of the object: a slot, a C attribute, a class attribute."""
    own = (class_dict(owner).get("__getattribute__") for owner in class_mro(type(value)))
    return next(method for method in own if type(method) is WrapperDescriptorType)(value, name)


def has_python_getattribute(cls: type[Any]) -> bool:
    """Whether reading an attribute of an instance runs a `__getattribute__` of the program."""
    if not is_heap_type(cls):
        return False
    for owner in class_mro(cls):
        method = class_dict(owner).get("__getattribute__")
        if method is not None:
            return type(method) is not WrapperDescriptorType
    return False


def literal_text(value: Any) -> str:
    """`repr(value)` of a plain value; a number that has more digits than Python converts is written in hexadecimal."""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return hex(value)
    try:
        return repr(value)
    except ValueError:
        if isinstance(value, tuple):
            return f"({', '.join(map(literal_text, value))}{',' * (len(value) == 1)})"
        return f"a {type(value).__name__}"


_MOST_BITS = 10_000  # a longer number may be converted by `_pylong`, whose functions a program can replace


def tells_its_class(cls: type[Any]) -> bool:
    """Whether `instance.__class__` is the instance's type, without running user code to compute it."""
    if has_python_getattribute(cls):
        return False
    return next(class_dict(owner)["__class__"] for owner in class_mro(cls) if "__class__" in class_dict(owner)) is _CLASS_OF


_CLASS_OF = class_dict(object)["__class__"]
