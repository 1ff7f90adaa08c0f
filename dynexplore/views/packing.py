"""Lists of objects as tables: the data of a large recording in two thirds of the bytes.

Which idea lives here: most of an exported file is lists of objects that have the same few fields, and most of each object is
the fields' names. So such a list becomes `{"$keys": [[names], ...], "$rows": [[which names, value, ...], ...]}`; all else stays
as it is and can be read.

In:  the data of explorer_data.py.
Out: `packed(data)`, plain data again. static/explorer/unpack.js undoes it (a test has it do so).

PyTorch has no counterpart.
"""

from __future__ import annotations

from typing import Any

KEYS, ROWS = "$keys", "$rows"

FEW = 4
"""A shorter list is left as it is."""


def packed(data: Any) -> Any:
    """Return the same data with its lists of objects as tables.

    >>> packed({"a": [{"x": at, "y": 0} for at in range(4)]})
    {'a': {'$keys': [['x', 'y']], '$rows': [[0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 3, 0]]}}
    """
    if isinstance(data, dict):
        return {key: packed(value) for key, value in data.items()}
    if not isinstance(data, (list, tuple)):
        return data
    if len(data) < FEW or not all(isinstance(one, dict) for one in data):
        return [packed(one) for one in data]
    kinds: dict[tuple[str, ...], int] = {}
    rows = [[kinds.setdefault(tuple(one), len(kinds)), *map(packed, one.values())] for one in data]
    return {KEYS: [list(names) for names in kinds], ROWS: rows}
