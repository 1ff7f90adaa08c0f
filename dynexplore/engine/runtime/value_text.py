"""How a value of the user's program is shown in a record: its text, without running any code of the program.

Which idea lives here: `repr` belongs to the program. It may print, count, change the object, read a tensor that a GPU is still
computing, or take seconds for a long list; a program that is observed must not notice it. So values are written by type: what
CPython prints for the built-in types, part by part and only until the text is long enough; a tensor by dtype, shape and device; a
named tuple, a dataclass or an enum member as the standard library prints it; any other object as `object.__repr__` does.

In:  any value.
Out: `value_text`, at most `limit` characters.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from dynexplore.engine.events import clip, safe_repr, without_addresses
from dynexplore.engine.raw_attributes import class_dict, class_module, class_mro, is_a, module_name
from dynexplore.engine.runtime.object_attributes import attributes_of

__all__ = ["value_text"]

_ATOMS: tuple[type[Any], ...] = (
    int, float, complex, str, bytes, bytearray, range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator,
    types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.GeneratorType, types.CoroutineType, types.FrameType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
"""Types whose repr, in C, asks nothing of another object."""
_EXACT = (decimal.Decimal, datetime.date, datetime.timedelta, re.Pattern, pathlib.PosixPath, pathlib.WindowsPath)
"""Types whose repr asks nothing of another object; a class that extends one may have its own."""
_TEXTS: dict[type[Any], Callable[[Any, slice], Any]] = {text: text.__getitem__ for text in (str, bytes, bytearray)}
_BRACKETS: dict[type[Any], tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}")}
_DEEPEST = 8
_MOST_BITS = 10_000
"""Of a number whose digits are written: a longer one may be converted by Python code, which a program can replace."""


def value_text(value: object, limit: int = 240) -> str:
    """Return `value` as text of at most `limit` characters, shortened in the middle.

    >>> value_text([1, (torch.ones(2, 3), "a"), {"k": None}])
    "[1, (float32[2, 3] cpu, 'a'), {'k': None}]"
    >>> class Loud(list):
    ...     def __repr__(self):
    ...         print("asked")
    >>> value_text({"loud": Loud([1])})
    "{'loud': Loud([1])}"
    """
    parts, length = [], 0
    try:
        for part in _parts(value, limit, _DEEPEST):
            parts.append(part)
            length += len(part)
            if length > 2 * limit:
                break
    except Exception as error:  # a container that another thread changes, a tensor without a shape: the program has to go on
        parts.append(f"<{type(error).__name__}>")
    return clip("".join(parts), limit)


def _parts(value: Any, limit: int, depth: int) -> Iterator[str]:
    """The text, piece by piece."""
    if not depth:
        yield "..."
        return
    if _asks_nothing(value):
        yield safe_repr(value, limit)
        return
    for base, write in _WRITERS.items():
        if is_a(value, base):
            yield from write(value, limit, depth)
            return
    yield from _object(value, limit, depth)


def _asks_nothing(value: Any) -> bool:
    """Whether the repr of a value of the standard library or of numpy runs no code of the program."""
    numpy = sys.modules.get("numpy")
    is_scalar = numpy is not None and class_module(type(value)) == "numpy" and is_a(value, numpy.generic)
    return is_scalar or any(type(value) is each for each in _EXACT)


def _base_of(cls: type[Any], bases: Iterable[type[Any]]) -> type[Any]:
    """Which of the built-in types a class is or extends; by identity, because a metaclass may have its own `__eq__`."""
    return next(base for base in bases if any(own is base for own in class_mro(cls)))


def _tensor(value: torch.Tensor, limit: int, depth: int) -> Iterator[str]:
    with torch._C.DisableTorchFunctionSubclass():
        shape = ", ".join(map(str, value.shape))
        text = f"{str(value.dtype).removeprefix('torch.')}[{shape}] {value.device}"
    yield text


def _module(value: torch.nn.Module, limit: int, depth: int) -> Iterator[str]:
    yield type(value).__qualname__


def _atom(value: Any, limit: int, depth: int) -> Iterator[str]:
    """A value without parts. Of a class of the program: in parentheses behind the name of the class."""
    base = _base_of(type(value), _ATOMS)
    if base is int and int.bit_length(value) > _MOST_BITS:
        text = f"<an integer of {int.bit_length(value)} bits>"
    else:
        write: Any = base.__repr__
        text = without_addresses(write(_TEXTS[base](value, slice(0, 2 * limit)) if base in _TEXTS else value))
    yield text if type(value) is base else f"{type(value).__qualname__}({text})"


def _constant(value: Any, limit: int, depth: int) -> Iterator[str]:
    yield repr(value)


def _type(value: type[Any], limit: int, depth: int) -> Iterator[str]:
    yield type.__repr__(value)  # a metaclass may have its own


def _sequence(value: Any, limit: int, depth: int) -> Iterator[str]:
    """A list, tuple or set, read by the methods of the built-in type."""
    base = _base_of(type(value), _BRACKETS)
    fields = _named_tuple_fields(type(value)) if base is tuple else None
    items = base.__iter__(value)
    if fields is not None:
        yield from _fields(type(value).__qualname__, zip(fields, items, strict=False), limit, depth)
        return
    size = base.__len__(value)
    opening, closing = _BRACKETS[base]
    if type(value) is not base:
        opening, closing = f"{type(value).__qualname__}({opening}", f"{closing})"
    if base is set and not size:
        opening, closing = f"{type(value).__qualname__}(", ")"
    if base is tuple and size == 1:
        closing = f",{closing}"
    yield from _listed(opening, (_parts(item, limit, depth - 1) for item in items), closing)


def _frozenset(value: Any, limit: int, depth: int) -> Iterator[str]:
    items = (_parts(item, limit, depth - 1) for item in frozenset.__iter__(value))
    opening, closing = ("({", "})") if frozenset.__len__(value) else ("(", ")")
    yield from _listed(type(value).__qualname__ + opening, items, closing)


def _deque(value: Any, limit: int, depth: int) -> Iterator[str]:
    items = (_parts(item, limit, depth - 1) for item in collections.deque.__iter__(value))
    yield from _listed(f"{type(value).__qualname__}([", items, "])")


def _mapping(value: Any, limit: int, depth: int) -> Iterator[str]:
    """A dict of any class, as its own items are."""
    items = (_item(key, item, limit, depth) for key, item in dict.items(value))
    name = "" if type(value) is dict else type(value).__qualname__
    yield from _listed(f"{name}({{" if name else "{", items, "})" if name else "}")


def _item(key: Any, item: Any, limit: int, depth: int) -> Iterator[str]:
    yield from _parts(key, limit, depth - 1)
    yield ": "
    yield from _parts(item, limit, depth - 1)


def _method(value: types.MethodType, limit: int, depth: int) -> Iterator[str]:
    function = value.__func__
    yield f"<bound method {function.__qualname__ if is_a(function, types.FunctionType) else '?'} of "
    yield from _parts(value.__self__, limit, depth - 1)
    yield ">"


def _member(cls: type[Any], name: str, value: object) -> Any:
    """An attribute of a C type, read by the type's own descriptor."""
    return class_dict(cls)[name].__get__(value, type(value))


def _partial(value: Any, limit: int, depth: int) -> Iterator[str]:
    function, positional, named = (_member(functools.partial, name, value) for name in ("func", "args", "keywords"))
    arguments = [_parts(item, limit, depth - 1) for item in (function, *positional)]
    keywords = [_field(name, item, limit, depth) for name, item in dict.items(named) if type(name) is str]
    yield from _listed(f"{type(value).__qualname__}(", [*arguments, *keywords], ")")


def _namespace(value: types.SimpleNamespace, limit: int, depth: int) -> Iterator[str]:
    yield from _fields("namespace", _own_fields(value), limit, depth)


def _enum_member(value: enum.Enum, limit: int, depth: int) -> Iterator[str]:
    own = dict(_own_fields(value))
    name, number = own.get("_name_"), own.get("_value_")
    yield f"{type(value).__qualname__}.{name}" if type(name) is str else f"{type(value).__qualname__}({value_text(number, limit)})"


def _size(value: torch.Size, limit: int, depth: int) -> Iterator[str]:
    yield f"torch.Size([{', '.join(map(int.__repr__, tuple.__iter__(value)))}])"


def _slice(value: slice, limit: int, depth: int) -> Iterator[str]:
    yield from _listed("slice(", (_parts(part, limit, depth - 1) for part in (value.start, value.stop, value.step)), ")")


def _exception(value: BaseException, limit: int, depth: int) -> Iterator[str]:
    arguments = _member(BaseException, "args", value)
    yield from _listed(f"{type(value).__qualname__}(", (_parts(part, limit, depth - 1) for part in arguments), ")")


def _python_module(value: types.ModuleType, limit: int, depth: int) -> Iterator[str]:
    yield f"<module {module_name(value)!r}>"


def _object(value: Any, limit: int, depth: int) -> Iterator[str]:
    """An object of another class: a dataclass by its fields, anything else by the name of its class."""
    if "__dataclass_fields__" in class_dict(type(value)) and _is_generated_repr(class_dict(type(value)).get("__repr__")):
        names = class_dict(type(value))["__dataclass_fields__"]
        yield from _fields(type(value).__qualname__, (pair for pair in _own_fields(value) if pair[0] in names), limit, depth)
        return
    numpy = sys.modules.get("numpy")
    if numpy is not None and is_a(value, numpy.ndarray):
        yield f"{type(value).__qualname__} {numpy.ndarray.dtype.__get__(value)}{list(numpy.ndarray.shape.__get__(value))}"
    else:
        yield without_addresses(object.__repr__(value))


def _own_fields(value: object) -> Iterator[tuple[str, Any]]:
    return ((name, item) for name, item in attributes_of(value) if type(name) is str)


def _is_generated_repr(method: Any) -> bool:
    """Whether a `__repr__` is the one that `dataclasses` writes."""
    return is_a(method, types.FunctionType) and getattr(method, "__wrapped__", method).__code__.co_filename == "<string>"


def _named_tuple_fields(cls: type[Any]) -> Iterable[str] | None:
    """The names of the fields, if the class or one that it extends was made by `collections.namedtuple`."""
    fields = next((class_dict(base)["_fields"] for base in class_mro(cls) if "_fields" in class_dict(base)), None)
    return fields if type(fields) is tuple and all(type(name) is str for name in fields) else None


def _fields(name: str, fields: Iterable[tuple[str, Any]], limit: int, depth: int) -> Iterator[str]:
    yield from _listed(f"{name}(", (_field(field, item, limit, depth) for field, item in fields), ")")


def _field(name: str, item: Any, limit: int, depth: int) -> Iterator[str]:
    yield f"{name}="
    yield from _parts(item, limit, depth - 1)


def _listed(opening: str, items: Iterable[Iterator[str]], closing: str) -> Iterator[str]:
    yield opening
    for number, item in enumerate(items):
        if number:
            yield ", "
        yield from item
    yield closing


_WRITERS: dict[type[Any], Callable[[Any, int, int], Iterator[str]]] = {
    torch.Tensor: _tensor,
    torch.nn.Module: _module,
    type(None): _constant,
    bool: _constant,
    type(NotImplemented): _constant,
    type(...): _constant,
    enum.Enum: _enum_member,
    type: _type,
    types.MethodType: _method,
    torch.Size: _size,
    **dict.fromkeys(_BRACKETS, _sequence),
    frozenset: _frozenset,
    collections.deque: _deque,
    dict: _mapping,
    functools.partial: _partial,
    types.SimpleNamespace: _namespace,
    slice: _slice,
    BaseException: _exception,
    types.ModuleType: _python_module,
    **dict.fromkeys(_ATOMS, _atom),
}
