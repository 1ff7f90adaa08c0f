"""Whatever somebody does to a saved recording: it is read and shown, or it is a RecordingError in one sentence.

Random changes of the JSON of recordings: numbers that cannot be, other types, parts that are missing or stand twice. What can
still be read goes through every view, as text, as page and as the explorer's data.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynexplore.engine.errors import RecordingError
from dynexplore.recording.recording import Recording
from sample_recordings import inlined, look_at, toy

pytestmark = pytest.mark.plain("reads and shows recordings that are made by hand")

Path = tuple[Any, ...]

ABSURD: list[Any] = [
    -1, -2, 0, 1, 7, -(10**6), 10**9, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", "x", "1", None, True, [], {}, [[]], [1],
    {"event": "x"},
]  # fmt: skip


def places(plain: Any, path: Path = ()) -> Iterator[Path]:
    """The path of each part of nested lists and dicts."""
    if path:
        yield path
    parts = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


WHOLE: list[Any] = [json.loads(recording().to_json()) for recording in (toy, inlined)]
PLACES = [list(places(plain)) for plain in WHOLE]


def change(plain: Any, path: Path, how: str, value: Any) -> None:
    """Change one part; nothing where an earlier change has taken it away."""
    owner = plain
    for key in path[:-1]:
        if not isinstance(owner, (dict, list)) or (key not in owner if isinstance(owner, dict) else key >= len(owner)):
            return
        owner = owner[key]
    key = path[-1]
    if not isinstance(owner, (dict, list)) or (key not in owner if isinstance(owner, dict) else key >= len(owner)):
        return
    if how == "set":
        owner[key] = copy.deepcopy(value)
    elif how == "shift" and type(owner[key]) is int and type(value) is int:
        owner[key] += value
    elif how == "drop":
        del owner[key]
    elif how == "double" and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(owner[key]))


@st.composite
def damaged_recordings(draw: st.DrawFn) -> str:
    number = draw(st.integers(0, len(WHOLE) - 1))
    plain = copy.deepcopy(WHOLE[number])
    for _ in range(draw(st.integers(1, 4))):
        path = PLACES[number][draw(st.integers(0, len(PLACES[number]) - 1))]
        change(plain, path, draw(st.sampled_from(["set", "set", "shift", "drop", "double"])), draw(st.sampled_from(ABSURD)))
    return json.dumps(plain)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(damaged_recordings())
def test_a_damaged_recording_is_shown_or_refused(damaged: str) -> None:
    """No change of a saved recording gives another exception than RecordingError, or one of more than a line."""
    try:
        recording = Recording.from_json(damaged)
    except RecordingError as error:
        assert "\n" not in str(error)
        return
    look_at(recording)


def test_whole_recordings_are_shown() -> None:
    """What the changes start from goes through every view."""
    for plain in WHOLE:
        look_at(Recording.from_plain(plain))
