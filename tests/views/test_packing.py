"""views/packing.py: columns instead of lists of objects, and nothing lost."""

from __future__ import annotations

import json
from itertools import accumulate, chain
from typing import Any

import pytest

from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.packing import COLUMNS, DELTAS, KINDS, NAMES, PREFIX, VALUES, WHICH, packed
from sample_recordings import SAMPLES


def unpacked(data: Any) -> Any:
    """What the browser makes of it."""
    if isinstance(data, list):
        return [unpacked(one) for one in data]
    if not isinstance(data, dict):
        return data
    if DELTAS in data:
        numbers = list(accumulate(data[DELTAS]))
        return [data[PREFIX] + str(number) for number in numbers] if PREFIX in data else numbers
    if NAMES in data:
        return dict(zip(chain.from_iterable(map(unpacked, data[NAMES])), unpacked(data[VALUES]), strict=True))
    if COLUMNS not in data:
        return {key: unpacked(value) for key, value in data.items()}
    columns = {name: iter(unpacked(column)) for name, column in data[COLUMNS].items()}
    kinds = data[KINDS]
    which = unpacked(data[WHICH]) if WHICH in data else [0] * len(unpacked(data[COLUMNS][kinds[0][0]]))
    return [{name: next(columns[name]) for name in kinds[kind]} for kind in which]


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_lost(name: str) -> None:
    """Unpacked it is what it was, and it is smaller."""
    data = json.loads(json.dumps(explorer_data(SAMPLES[name]())))
    there = json.loads(json.dumps(packed(data)))
    assert unpacked(there) == data
    assert len(json.dumps(there)) < 0.97 * len(json.dumps(data))


ODD = {
    "no fields": [{}] * 5,
    "numbers": [7, 8, 9, 10, 30, 31],
    "negative": [-1, -2, -3, -1000, 5, 6],
    "truth": [True, False, True, True],
    "texts": ["step:007", "step:8", "step:9", "step:10"],
    "counted": ["step:9", "step:10", "step:11", "step:4", "step:4"],
    "plain": ["1", "2", "3", "40"],
    "long": [f"n{10**20 + at}" for at in range(5)],
    "ends": ["a\n1", "a\n2", "a\n3", "a\n4", "a\n50"],
    "many": {**{f"step:{at}": [at] for at in range(50)}, **{f"node:1:n{at}": [at, 0] for at in range(9)}, "": None},
    "names": {f"name{at}": {"x": [1, 2]} for at in range(50)},
    "fractions": [1.5, 2, 3, 4],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_lists(name: str) -> None:
    """Whatever looks almost like something that counts on comes back as it was."""
    there = unpacked(json.loads(json.dumps(packed(ODD[name]))))
    assert there == ODD[name] and json.dumps(there, sort_keys=True) == json.dumps(ODD[name], sort_keys=True)


def test_objects_of_several_kinds() -> None:
    """Objects with other fields, and tables in tables."""
    data = [{"a": [{"b": at}] * 4} for at in range(3)] + [{"c": None}]
    assert packed(data)[KINDS] == [["a"], ["c"]] and unpacked(packed(data)) == data
    assert packed([{"a": 1}, 2, 3, 4, 5]) == [{"a": 1}, 2, 3, 4, 5]
