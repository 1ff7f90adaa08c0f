"""views/packing.py: tables instead of lists of objects, and nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.packing import KEYS, ROWS, packed
from sample_recordings import SAMPLES


def unpacked(data: Any) -> Any:
    """What the browser makes of it."""
    if isinstance(data, list):
        return [unpacked(one) for one in data]
    if not isinstance(data, dict):
        return data
    if KEYS not in data:
        return {key: unpacked(value) for key, value in data.items()}
    return [dict(zip(data[KEYS][kind], map(unpacked, values), strict=True)) for kind, *values in data[ROWS]]


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_lost(name: str) -> None:
    """Unpacked it is what it was, and it is smaller."""
    data = json.loads(json.dumps(explorer_data(SAMPLES[name]())))
    there = json.loads(json.dumps(packed(data)))
    assert unpacked(there) == data
    assert len(json.dumps(there)) < 0.97 * len(json.dumps(data))


def test_objects_of_several_kinds() -> None:
    """Objects with other fields, and tables in tables."""
    data = [{"a": [{"b": at}] * 4} for at in range(3)] + [{"c": None}]
    assert packed(data)[KEYS] == [["a"], ["c"]] and unpacked(packed(data)) == data
    assert packed([{"a": 1}, 2, 3, 4, 5]) == [{"a": 1}, 2, 3, 4, 5]
