"""Serialization of records: to plain data for a recording's JSON, and back.

The idea: the type annotations of a record determine how it is written and read. Fields with their default value are omitted;
values and code objects occur in many events, so each is stored once in a table and referenced by index. The reader validates
everything: an unknown field, a wrong type or an index out of range is an error that names the field.

In: records of events.py, and plain data. Out: plain data, and records. PyTorch's counterpart: none.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording import sanity


def names(record: Any) -> tuple[str, ...]:
    """The names of a record's fields, in order."""
    cls: Any = type(record)
    return _field_names(cls)


@functools.cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _defaults(cls: Any) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


class Pool:
    """Converts records to plain data; ValueViews and CodeViews are moved to tables and replaced by their index."""

    def __init__(self) -> None:
        self.tables: dict[type, list[dict[str, Any]]] = {ev.ValueView: [], ev.CodeView: []}
        self._places: dict[ev.ValueView | ev.CodeView, int] = {}

    def plain(self, value: Any) -> Any:
        """A value as lists, dicts, strings and numbers."""
        if isinstance(value, tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, (ev.ValueView, ev.CodeView)):
            place = self._places.get(value)
            if place is None:
                table = self.tables[type(value)]
                place = self._places[value] = len(table)
                table.append(self._fields(value))
            return place
        if isinstance(value, ev.Event):
            return {"event": type(value).__name__, **self._fields(value)}
        if dataclasses.is_dataclass(value):
            return self._fields(value)
        return value

    def _fields(self, record: Any) -> dict[str, Any]:
        """The fields that differ from their defaults: most fields of a step have the default."""
        cls: Any = type(record)
        defaults = _defaults(cls)
        pairs = ((name, getattr(record, name)) for name in names(record))
        return {name: self.plain(value) for name, value in pairs if name not in defaults or not _same(value, defaults[name])}


def _same(value: object, default: object) -> bool:
    # 0 == False == 0.0, but the JSON round trip must preserve the type
    if isinstance(value, float) and isinstance(default, float) and math.copysign(1.0, value) != math.copysign(1.0, default):
        return False  # -0.0 == 0.0
    return type(value) is type(default) and value == default


Tables = dict[type, list[Any]]
_Parse = Callable[[Any, Tables], Any]


def record_of(cls: Any, row: object, tables: Tables) -> Any:
    """Create a record from plain data. Raises TypeError, ValueError or LookupError if the data is invalid."""
    if not isinstance(row, dict):
        raise TypeError(f"{cls.__name__} is not an object")
    parsers = _parsers(cls)
    fields = {}
    for name, value in row.items():
        if name == "event":
            continue
        if name not in parsers:
            raise ValueError(f"{cls.__name__} has no field {name!r}")
        fields[name] = parsers[name](value, tables)
    return cls(**fields)


@functools.cache
def _parsers(cls: Any) -> dict[str, _Parse]:
    defaults = _defaults(cls)
    return {name: parser_of(hint, name, -1 if defaults.get(name) == -1 else 0) for name, hint in typing.get_type_hints(cls).items()}


def parser_of(hint: Any, name: str, lowest: int | None = None) -> _Parse:
    """A function that reads a value of this annotated type, and raises TypeError for a value of another type.

    An int counts something and is at least `lowest`, unless that is None: an element of a tensor may be any number.
    """
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        # float last: it also accepts ints, and would convert them to float
        parts = sorted(typing.get_args(hint), key=lambda part: part is float)
        return _union_parser([parser_of(part, name, None if float in parts else lowest) for part in parts], name)
    if origin is tuple:
        items = typing.get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return _list_parser(parser_of(items[0], name, lowest), name)
        return _fixed_parser([parser_of(item, name, lowest) for item in items], name)
    if hint in (ev.ValueView, ev.CodeView):
        return _table_parser(hint, name)
    if dataclasses.is_dataclass(hint):
        return lambda value, tables: record_of(typing.cast(type, hint), value, tables)
    accepted = (int, float) if hint is float else (hint,)

    def parse_scalar(value: Any, tables: Tables) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"{name} is {type(value).__name__}, not {getattr(hint, '__name__', hint)}")
        if hint is float:
            return sanity.finite(name, value)
        return value if hint is not int or lowest is None else sanity.countable(name, value, lowest)

    return parse_scalar


def _union_parser(parsers: list[_Parse], name: str) -> _Parse:
    def parse(value: Any, tables: Tables) -> Any:
        for parser in parsers:
            try:
                return parser(value, tables)
            except TypeError:
                continue
        raise TypeError(f"{name} has a value of a wrong type ({type(value).__name__})")

    return parse


def _list_parser(item: _Parse, name: str) -> _Parse:
    def parse(value: Any, tables: Tables) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"{name} is not a list")
        return tuple([item(each, tables) for each in value])

    return parse


def _fixed_parser(items: list[_Parse], name: str) -> _Parse:
    def parse(value: Any, tables: Tables) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise TypeError(f"{name} is not a list of {len(items)}")
        return tuple([item(each, tables) for item, each in zip(items, value, strict=True)])

    return parse


def _table_parser(cls: type, name: str) -> _Parse:
    def parse(value: Any, tables: Tables) -> Any:
        table = tables.get(cls, [])
        if type(value) is not int or not 0 <= value < len(table):
            raise TypeError(f"{name} does not refer to a {cls.__name__}")
        return table[value]

    return parse
