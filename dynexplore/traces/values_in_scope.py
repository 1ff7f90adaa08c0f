"""Values of a call: what a source of torch's text stands for, looked up without running user code.

The idea: torch's text names a place (`L['model'].layers[0]`), and the locals and globals of the call are known. A value is looked
up where no code of the program runs: in the locals and globals, in instance dicts, under keys of plain dicts, at indices of plain
lists and tuples, and nowhere else. A dict is asked only if all of its keys are plain: any other may have an `__eq__` of the user.

In: the text of a source, and a scope. Out: the value, or UNKNOWN. PyTorch's counterpart: none; a guard evaluates its own text.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from dynexplore.engine.raw_attributes import (
    class_dict,
    class_module,
    class_mro,
    class_qualname,
    has_plain_dict,
    has_python_getattribute,
    instance_dict,
    is_a,
)

Scope = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The locals and globals of a call."""

UNKNOWN = object()
"""Stands for a value that cannot be looked up without running user code."""

_BEGIN = re.compile(r"^(?:L\['(\w+)'\]|G\['(\w+)'\]|([A-Za-z_]\w*))")
_PART = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")


def value_at(source: str, scope: Scope) -> Any:
    """The value under a source of torch, in a call; UNKNOWN if it is not certain.

    >>> value_at("L['d']['n']", ({"d": {"n": 3}}, {})), value_at("xs[1]", ({"xs": [1, 2]}, {}))
    (3, 2)
    """
    begin = _BEGIN.match(source)
    if begin is None:
        return UNKNOWN
    locals_, globals_ = scope
    name = begin[1] or begin[2] or begin[3]
    value = UNKNOWN if begin[2] else locals_.get(name, UNKNOWN)
    if value is UNKNOWN and not begin[1]:
        value = globals_.get(name, UNKNOWN)
    at = begin.end()
    while at < len(source) and value is not UNKNOWN:
        part = _PART.match(source, at)
        if part is None:
            return UNKNOWN
        at = part.end()
        value = _inside(value, *part.groups())
    return value


def length_at(source: str, scope: Scope) -> Any:
    """The length of a plain container; UNKNOWN if it cannot be looked up."""
    value = value_at(source, scope)
    return len(value) if type(value) in (list, tuple, dict, OrderedDict) else UNKNOWN


def _inside(value: Any, name: str | None, key: str | None, index: str | None) -> Any:
    if name is not None:
        return _attribute(value, name)
    if key is not None:
        return _item(value, key)
    if type(value) in (list, tuple) and int(index or 0) < len(value):
        return value[int(index or 0)]
    return UNKNOWN


def _attribute(value: Any, name: str) -> Any:
    """An attribute in an instance dict, where Python finds it there: no data descriptor of the class is before it.

    >>> class Squares:
    ...     n = property(lambda self: 1 / 0)
    >>> squares = Squares()
    >>> vars(squares).update(n=2, m=3)
    >>> _attribute(squares, "m"), _attribute(squares, "n") is UNKNOWN
    (3, True)
    """
    kind = type(value)
    if is_a(value, type) or not has_plain_dict(kind) or has_python_getattribute(kind) or _has_data_descriptor(kind, name):
        return UNKNOWN
    return _item(instance_dict(value), name)


def _has_data_descriptor(kind: type[Any], name: str) -> bool:
    """Whether a class has an attribute of the name that Python asks before the instance dict."""
    descriptor = next((class_dict(base)[name] for base in class_mro(kind) if name in class_dict(base)), None)
    return any({"__set__", "__delete__"}.intersection(class_dict(base)) for base in class_mro(type(descriptor)))


def _item(value: Any, key: str) -> Any:
    """The value under a key of a plain dict whose keys are all plain."""
    if type(value) is not dict or len(value) > _MOST_KEYS or not all(type(name) is str or type(name) is int for name in value):
        return UNKNOWN
    return value.get(key, UNKNOWN)


_MOST_KEYS = 10_000
"""A larger dict is not asked: looking at all of its keys would take too long."""


def key_at(source: str, index: int, scope: Scope) -> Any:
    """The key at an index of a dict; UNKNOWN if it cannot be looked up."""
    value = value_at(source, scope)
    return list(dict.keys(value))[index] if type(value) in (dict, OrderedDict) and index < len(value) else UNKNOWN


def size_at(source: str, name: str, axis: int, scope: Scope) -> str:
    """A size or stride of the tensor under a source, as text; "?" if it cannot be looked up."""
    value = value_at(source, scope)
    if not is_plain_tensor(value) or axis >= value.dim():
        return "?"
    return str((value.shape if name == "size" else value.stride())[axis])


def sizes_at(source: str, scope: Scope) -> list[str]:
    """The sizes of the tensor under a source; [] if they cannot be looked up without running user code."""
    value = value_at(source, scope)
    return [str(size) for size in value.shape] if is_plain_tensor(value) else []


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch's own classes, whose methods run no user code. This file reads logs without torch."""
    return f"{class_module(type(value))}.{class_qualname(type(value))}" in ("torch.Tensor", "torch.nn.parameter.Parameter")
