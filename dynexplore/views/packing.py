"""Columnar encoding of lists of objects: a large recording in a third of the bytes, and in a tenth when compressed.

The idea: most of an exported file is lists of objects with the same few fields, and most of each object is the fields' names.
So such a list becomes `{"$kinds": [[names], ...], "$which": [kind of each object], "$columns": {name: values}}`: similar values
are adjacent, which compresses best. A list of increasing numbers, or of texts that end in such numbers ("step:17"), is
delta-encoded, and a dictionary with many keys becomes two lists. All else is unchanged and readable. Only the order of
dictionary keys changes: similar ones become adjacent.

In: the data of explorer_data.py. Out: `packed(data)`, plain data again; `compressed(data)`, the same as text that needs no
escaping in HTML. static/explorer/unpack.js reverses both (a test runs it). PyTorch's counterpart: none.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

KINDS, WHICH, COLUMNS, DELTAS, PREFIX, NAMES, VALUES = "$kinds", "$which", "$columns", "$deltas", "$prefix", "$names", "$values"

FEW = 4
"""A shorter list is left unchanged."""

MANY = 40
"""A dictionary with so many keys is encoded as two lists."""

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,14})", re.DOTALL)

_PLAIN = {str, int, bool, float, type(None)}
"""Types without parts."""

_SAFE = bytes.maketrans(b"<&", b".,")
"""Characters of base 85 with a meaning in HTML -> characters that base 85 does not use."""


def packed(data: Any) -> Any:
    """Return the same data with its lists of objects in columnar form.

    >>> packed({"a": [{"x": at * 3, "y": "n"} for at in range(4)]})
    {'a': {'$kinds': [['x', 'y']], '$columns': {'x': [0, 3, 6, 9], 'y': ['n', 'n', 'n', 'n']}}}
    >>> packed([{"at": f"step:{20 + 3 * at}"} for at in range(6)])["$columns"]
    {'at': {'$prefix': 'step:', '$deltas': [20, 3, 3, 3, 3, 3]}}
    """
    if isinstance(data, dict):
        return _many(data) if len(data) >= MANY else {key: packed(value) for key, value in data.items()}
    if not isinstance(data, (list, tuple)):
        return data
    kinds = set(map(type, data))
    if len(data) >= FEW and kinds == {dict}:
        return _table(data)
    counted = _counted(data, kinds) if len(data) >= FEW else None
    if counted is not None:
        return counted
    return list(data) if kinds <= _PLAIN else [packed(item) for item in data]


def _table(rows: Any) -> dict[str, Any]:
    """A list of objects by field; each object has the fields of its kind."""
    kinds: dict[tuple[str, ...], int] = {}
    which = [kinds.setdefault(tuple(row), len(kinds)) for row in rows]
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    # objects without fields: only this contains their number
    more = {WHICH: packed(which)} if len(kinds) > 1 or not any(kinds) else {}
    return {KINDS: [list(names) for names in kinds], **more, COLUMNS: {name: packed(column) for name, column in columns.items()}}


def _many(data: dict[str, Any]) -> dict[str, Any]:
    """A dictionary as its keys, with similar ones adjacent, and its values."""
    named = {str(name): value for name, value in data.items()}
    names = sorted(named, key=lambda name: name.rpartition(":")[0])
    return {NAMES: _runs(names), VALUES: packed([named[name] for name in names])}


def _runs(names: list[str]) -> list[Any]:
    """Keys in runs of the same prefix, each packed separately."""
    runs: list[list[str]] = []
    before = None
    for name in names:
        head = name.rpartition(":")[0]
        if head != before or not head:
            runs.append([])
        runs[-1].append(name)
        before = head
    return [packed(run) for run in runs]


def _counted(values: Any, kinds: set[type]) -> dict[str, Any] | None:
    """The delta encoding of numbers, or of texts with a common prefix that end in numbers; None if that is not shorter."""
    more: dict[str, Any] = {}
    if kinds == {int}:
        numbers = list(values)
    elif kinds == {str} and (counted := _one_beginning(values)) is not None:
        more[PREFIX], numbers = counted
    else:
        return None
    deltas = [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]
    columns = {**more, DELTAS: deltas}
    return columns if len(str(columns)) < len(str(values)) else None


def _one_beginning(values: Sequence[str]) -> tuple[str, list[int]] | None:
    """The common prefix of all texts, and the numbers that they end in; None if there is none."""
    numbers, beginning = [], None
    for value in values:
        match = _NUMBERED.fullmatch(value)
        if match is None or match[1] != (beginning := match[1] if beginning is None else beginning):
            return None
        numbers.append(int(match[2]))
    return (beginning, numbers) if beginning is not None else None


def compressed(data: Any) -> str:
    """Return packed data as text for a <script>: JSON, zlib, base 85 without < and &.

    >>> compressed({})
    'c-pJ31ponc0Qm'
    """
    text = json.dumps(packed(data), ensure_ascii=False, separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).translate(_SAFE).decode()
