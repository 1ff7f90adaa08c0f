"""views/links.py: no item is a dead end, and links go both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.links import Links
from sample_recordings import SAMPLES, inlined, items_of, toy


@pytest.mark.parametrize("name", SAMPLES)
def test_no_item_is_a_dead_end(name: str) -> None:
    """Each node, guard, break, modified instruction, step and slot leads to an original instruction and a span."""
    recording = SAMPLES[name]()
    links = Links(recording)
    codes = recording.codes
    for item in items_of(recording):
        assert links.instructions(item), item
        assert links.spans(item), item
        for key in links.instructions(item):
            _, code, offset = key.split(":")
            assert codes[int(code)].resumes == -1, f"{item} leads to a resume function's instruction"
            assert int(offset) in {row.offset for row in codes[int(code)].rows}


@pytest.mark.parametrize("name", SAMPLES)
def test_links_go_both_ways(name: str) -> None:
    """Whatever an item leads to leads back to it: items, instructions and spans."""
    recording = SAMPLES[name]()
    links = Links(recording)
    for item in items_of(recording):
        for other in links.related(item):
            assert item in links.related(other), (item, other)


def test_a_node_leads_to_all_that_belongs_to_it() -> None:
    """From `lt`: its instruction, span, steps in both attempts, its value; not the nodes of other instructions."""
    recording = toy()
    related = Links(recording).related("node:1:lt")
    assert {"instruction:1:28", "span:1:11:7:11:18", "value:1:1:11", "value:1:2:11"} <= related
    assert not any(key.startswith("node:") for key in related)
    assert len([key for key in related if key.startswith("step:")]) == 2


def test_a_break_meets_the_modified_code_of_the_next_attempt() -> None:
    """The break of attempt 1 and the instruction emitted for it in attempt 2 belong together."""
    recording = toy()
    position = list(recording).index(recording.breaks[0])
    assert f"modified:1:{14}" in Links(recording).related(f"break:{position}")


def test_a_modified_instruction_without_an_origin_leads_to_where_it_comes_from() -> None:
    """Loading an input leads to the input's first use, the graph call to all nodes, a resume call to its target."""
    links = Links(toy())
    assert links.instructions("modified:1:4") == {"instruction:1:2"}
    assert links.instructions("modified:1:6") == {"instruction:1:20"}
    assert {"instruction:1:10", "instruction:1:16", "instruction:1:28"} <= links.instructions("modified:1:2")
    assert links.instructions("modified:1:16") == {"instruction:1:32"}
    assert links.instructions("modified:1:24") == {"instruction:1:32"}


def test_a_resume_functions_instructions_are_the_original_ones() -> None:
    """What happens in a resume function lights up in the function it continues."""
    links = Links(toy())
    assert links.instructions("node:2:mul") == {"instruction:1:36"}
    assert links.spans("node:2:mul") == {"span:1:12:12:12:18"}
    assert "node:2:mul" in links.related("instruction:1:36")


def test_an_inlined_callee_has_its_own_instructions() -> None:
    """A node made in a callee leads into the callee's code."""
    assert Links(inlined()).instructions("node:1:relu") == {"instruction:7:6"}


def test_a_span_leads_to_its_instructions() -> None:
    """A span of the source lights up the instructions on it and what they caused."""
    related = Links(toy()).related("span:1:11:7:11:18")
    assert {"instruction:1:28", "instruction:1:30", "node:1:lt"} <= related


def test_a_slot_leads_to_where_its_value_was_made() -> None:
    """A stack slot belongs to the instruction that made its value, however long ago."""
    recording = toy()
    links = Links(recording)
    step = next(step for step in recording.steps if step.offset == 14)
    assert links.instructions(links.slot(step, 0)) >= {"instruction:1:2"}
    assert links.instructions(links.slot(step, 1)) == {"instruction:1:14"}


def test_what_has_no_instruction_is_placed_at_the_entry() -> None:
    """A guard on global state leads to the first instruction of the function."""
    recording = Recording()
    for event in toy():
        changed = isinstance(event, ev.GuardInstalled) and event.index == 1
        recording.record(replace(event, offset=-1, kind="GRAD_MODE") if changed else event)  # type: ignore[call-arg]
    assert Links(recording).instructions("guard:1:1") == {"instruction:1:0"}


def test_an_unknown_item_is_related_to_nothing() -> None:
    """Asking for something that is not there is no error."""
    links = Links(toy())
    assert links.related("node:1:nothing") == frozenset() and links.related("instruction:99:0") == frozenset()


def test_the_table_is_plain() -> None:
    """as_plain is items -> keys, as JSON holds them, and says the same as related()."""
    links = Links(toy())
    plain = links.as_plain()
    assert plain["node:1:lt"] == ["instruction:1:28", "span:1:11:7:11:18"]
    assert set(plain["node:1:lt"]) == links.instructions("node:1:lt") | links.spans("node:1:lt")


def test_a_recording_without_frames_has_no_links() -> None:
    """An empty recording has an empty table."""
    assert Links(Recording()).as_plain() == {}
