"""Values of a call: what a source of torch's text stands for, looked up without running user code.

The idea: torch's text names a place (`L['model'].layers[0]`), and the locals and globals of the call are known. A value is looked
up where no code of the program runs: in the locals and globals, in instance dicts, under keys of plain dicts, at indices of plain
lists and tuples, and nowhere else.

In: the text of a source, and a scope. Out: the value, or UNKNOWN. PyTorch's counterpart: none; a guard evaluates its own text.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

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
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return UNKNOWN
        return attributes.get(name, UNKNOWN) if type(attributes) is dict else UNKNOWN
    if key is not None:
        return value.get(key, UNKNOWN) if type(value) is dict else UNKNOWN
    if type(value) in (list, tuple) and int(index or 0) < len(value):
        return value[int(index or 0)]
    return UNKNOWN


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
    return f"{type(value).__module__}.{type(value).__qualname__}" in ("torch.Tensor", "torch.nn.parameter.Parameter")
