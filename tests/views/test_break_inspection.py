"""The break inspector's data: all that is known of a break, from records alone."""

from __future__ import annotations

import json

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import break_inspection, links
from sample_recordings import toy


def position(recording: Recording) -> int:
    return next(number for number, event in enumerate(recording) if isinstance(event, ev.GraphBroke))


def test_a_break_with_all_its_parts() -> None:
    """Reason, remedy, place with its columns, stack and locals, and what each resume function received when it ran."""
    recording = toy()
    data = json.loads(json.dumps(break_inspection.inspection_data(recording)))
    found = data[links.break_key(position(recording))]
    broke = recording.breaks[0]
    assert (found["kind"], found["why"], found["fix"]) == (broke.kind, broke.why, broke.fix)
    (place,) = found["places"]
    assert place["code"][place["from"] : place["to"]] == "b.sum() < 0"
    assert [local["name"] for local in found["locals"]] == [name for name, _ in broke.live_locals]
    first, second = found["resume"]
    assert (first["name"], first["offset"]) == ("__resume_at_32_1", 32)
    ran = {name: view.text for name, view in recording.frames[1].arguments}
    assert ran and first["received"] == [
        {"name": name, "value": ran.get(name, "")} for name in recording.resume_functions[0].parameters
    ]
    assert {argument["value"] for argument in second["received"]} == {""}


def test_as_text_the_resume_function_stands_beside_what_it_continues() -> None:
    """The text holds the report, what was received, and a table of instructions."""
    recording = toy()
    text = break_inspection.inspection(recording, recording.breaks[0])
    assert "Graph break DX104" in text and "__resume_at_32_1 received" in text
    assert "the same" in text


def test_a_place_without_columns_has_none() -> None:
    """Where the columns are not known nothing is marked."""
    r = Recording()
    frame = r.next_frame_id()
    r.record(ev.GraphBroke(frame=frame, kind="DX1", title="t", reason="r", user_stack=(ev.UserFrame("a.py", 3, "f"),)))
    (found,) = break_inspection.inspection_data(r).values()
    assert found["places"] == [{"place": "a.py:3 in f", "code": "", "from": 0, "to": 0}]
