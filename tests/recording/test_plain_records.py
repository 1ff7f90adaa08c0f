"""recording/plain_records.py: any record goes to plain data and back unchanged, and values and code are held once."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import toy

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked, saved and loaded")


def test_values_and_codes_are_stored_once() -> None:
    """JSON holds each value and each code object once, however often events show it."""
    data = json.loads(toy().to_json())
    assert len(data["codes"]) == 5
    assert len(data["values"]) == len({json.dumps(value) for value in data["values"]}) < 20


def strategy_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return st.one_of([strategy_of(part) for part in parts])
    if origin is tuple and parts[-1] is Ellipsis:
        return st.lists(strategy_of(parts[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(strategy_of(part) for part in parts))
    if dataclasses.is_dataclass(hint):
        return records(typing.cast(type, hint))
    scalars: dict[type, st.SearchStrategy[Any]] = {
        int: st.integers(0, 2**63 - 1),
        str: st.text(st.characters(codec="utf-8"), max_size=5),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return scalars[hint]


def records(cls: type) -> st.SearchStrategy[Any]:
    fields = {name: strategy_of(hint) for name, hint in typing.get_type_hints(cls).items()}
    if cls is ev.CodeView:
        fields["rows"] = st.just(())  # rows must be in order, and all places inside them: see toy()
    if "entry" in fields:
        fields["entry"] = st.integers(1, 2**63 - 1)  # a file that counts from 0 is an older one, and read as such
    return st.builds(cls, **fields)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(st.one_of([records(cls) for cls in ev.EVENTS.values()]), max_size=6))
def test_any_events_go_to_json_and_back(events: list[ev.Event]) -> None:
    """Whatever the events hold, reading back what was written gives equal events with equal types."""
    r = Recording()
    for event in events:
        r.record(event)
    back = Recording.from_json(r.to_json())
    assert [repr(event) for event in back] == [repr(event) for event in events]


def test_minus_zero_is_not_the_default_zero() -> None:
    """A field that differs from its default in its sign only is kept."""
    recording = Recording()
    recording.record(ev.GraphRan(frame=0, graph="", run=0, seconds=-0.0))
    back = Recording.from_json(recording.to_json())
    assert math.copysign(1.0, back.of(ev.GraphRan)[0].seconds) == -1.0
