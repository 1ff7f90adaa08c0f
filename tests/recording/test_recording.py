"""recording/recording.py: what was recorded can be asked, saved and loaded."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynexplore.engine import events as ev
from dynexplore.engine.errors import RecordingError
from dynexplore.engine.recorder import Recorder
from dynexplore.recording.recording import SCHEMA, Recording, load, resumed_at, save
from dynexplore.recording.upgrades import EVENTS, FIELDS, GUARD_KINDS, upgraded
from dynexplore.views.headline import headline
from sample_recordings import SAMPLES, toy

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked, saved and loaded")


def test_a_recording_answers_questions() -> None:
    """Frames, steps, graphs with nodes, guards, breaks, modified and resume code are plain objects."""
    r = toy()
    assert [entered.code.qualname for entered in r.frames] == ["toy", "__resume_at_32_1"]
    assert r.step(0).op == "RESUME" and r.step(-1).op == "RETURN_VALUE" and len(r.steps) == 38
    assert [node.name for node in r.graphs[0].nodes] == ["a", "b", "abs_1", "add", "truediv", "sum_1", "lt", "output"]
    assert [(graph.name, graph.op_count) for graph in r.graphs] == [("__compiled_fn_0", 5), ("__compiled_fn_3", 2)]
    assert [guard.source for guard in r.guards] == ["a", "torch", "torch.abs", "b", "b", "x"]
    assert [broke.kind for broke in r.breaks] == ["DX104"] and r.breaks[0].stack[0].node == "lt"
    assert [made.name for made in r.resume_functions] == ["__resume_at_32_1", "__resume_at_40_2"]
    modified = r.modified_code(1)
    assert modified is not None and modified.rows[1].arg == "__compiled_fn_0"
    assert r.modified_code(99) is None
    assert r.frame(2).parent == 1 and r.final_attempt(1) == 2 and r.final_attempt(99) == 0
    assert sorted(r.codes) == [1]
    assert r.graph("__compiled_fn_3").frame == 2


def test_its_repr_says_what_is_in_it() -> None:
    """The repr counts and holds no address."""
    assert repr(toy()) == "Recording(toy: 2 frames, 38 steps, 2 graphs, 6 guards)"


def test_a_question_without_an_answer_says_so() -> None:
    """A frame, step or graph that is not there is a lookup error that names what there is."""
    r = toy()
    with pytest.raises(IndexError, match="no step 99: this recording has 38 steps"):
        r.step(99)
    with pytest.raises(KeyError, match="no frame 77"):
        r.frame(77)
    with pytest.raises(KeyError, match="no graph 'g'.*__compiled_fn_0, __compiled_fn_3"):
        r.graph("g")


def test_only_the_last_attempt_counts_for_guards_and_graphs() -> None:
    """What a restarted attempt added is in the events, but not among graphs and guards."""
    r = toy()
    assert {node.attempt for node in r.of_frame(1, ev.NodeAdded)} == {1, 2}
    assert {node.attempt for node in r.graphs[0].nodes} == {2}
    assert {guard.attempt for guard in r.guards if guard.frame == 1} == {2}


def test_graphs_are_put_together_once_until_more_is_recorded() -> None:
    """Views ask for graphs and guards again and again: the answer is kept, and given up when an event comes."""
    recording = toy()
    graphs, guards = recording.graphs, recording.guards
    assert recording.graphs is graphs and recording.guards is guards
    recording.record(replace(recording.of(ev.SubgraphCompiled)[-1], graph="another"))
    assert [graph.name for graph in recording.graphs] == [*(graph.name for graph in graphs), "another"]


class Answer:
    """What can be referenced weakly, as a text cannot."""


def gets_an_event(recording: Recording) -> None:
    recording.record(recording.guards[-1])
    assert recording.frames


def gets_a_title(recording: Recording) -> None:
    recording.title = "another"
    assert recording.once("another question", list) == []


@pytest.mark.parametrize("change", [gets_an_event, gets_a_title])
def test_answers_about_what_a_recording_was_are_released(change: Callable[[Recording], None]) -> None:
    """Not only that to the question that is asked next: an explorer's texts are large, and may never be asked for again."""
    recording = toy()
    kept = weakref.ref(recording.once("question", Answer))
    assert recording.once("question", Answer) is kept() is not None
    change(recording)
    assert kept() is None


def test_a_graph_has_its_nodes_in_its_own_order() -> None:
    """Nodes that were dropped before compilation are not shown, and inputs stand where the graph has them."""
    r = Recording()
    at: dict[str, Any] = {"frame": 1, "attempt": 1}
    for name in ("add", "unused", "x"):
        r.record(ev.NodeAdded(**at, graph="g", name=name, op="placeholder", target=name))
    r.record(ev.SubgraphCompiled(**at, graph="g", backend="eager", node_count=2, op_count=0, nodes=("x", "add")))
    assert [node.name for node in r.graphs[0].nodes] == ["x", "add"]


def test_a_recording_is_a_recorder() -> None:
    """Frame numbers count from 1, and events keep their order."""
    recorder: Recorder = Recording()
    assert [recorder.next_frame_id() for _ in range(3)] == [1, 2, 3]


def test_offsets_of_a_resumed_frame_count_in_what_it_continues() -> None:
    """A resume function's frame is read in the original code, also when only the resume function was recorded."""
    whole = toy()
    assert whole.original_code(2) == whole.frames[0].code and resumed_at(whole.frames[1].code) == 32
    part = Recording()
    for event in whole:
        if event.frame == 2:
            part.record(event)
    original, rebuilt = whole.original_code(2), part.original_code(2)
    assert [(row.offset, row.op, row.line, row.target) for row in rebuilt.rows] == [
        (row.offset, row.op, row.line, row.target) for row in original.rows
    ]
    assert (rebuilt.id, rebuilt.resumes) == (original.id, -1) and list(part.codes) == [original.id]
    assert resumed_at(original) == -1 and whole.code_of(whole.steps[-1]) == original


# -- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_json_and_back_is_the_same(name: str, tmp_path: Path) -> None:
    """A recording read back equals the one that was saved, and goes on numbering its frames."""
    r = SAMPLES[name]()
    back = Recording.from_json(r.to_json())
    assert back == r and list(back.events) == list(r.events) and back.title == r.title
    assert back.next_frame_id() == max(event.frame for event in r) + 1
    save(r, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == r


def test_reading_imports_no_torch(tmp_path: Path) -> None:
    """A saved recording is loaded and asked in a process where importing torch is impossible."""
    save(toy(), tmp_path / "r.json")
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        assert name.split('.')[0] not in ('torch', 'numpy'), name\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from dynexplore.recording.recording import load\n"
        f"print(load({str(tmp_path / 'r.json')!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Recording(toy: 2 frames")


def test_whose_engine_it_is_goes_along() -> None:
    """A recording of torch.compile's captures says so, also read again or redacted, and equals none of this engine's."""
    r = Recording(title="f", engine="torch.compile")
    r.rank = 3
    for back in (Recording.from_json(r.to_json()), Recording.from_json(r.to_json(redact=True)), copy.deepcopy(r)):
        assert (back.engine, back.rank, back.process) == ("torch.compile", 3, r.process)
    assert r != Recording(title="f") and Recording(title="f").engine == "dynexplore"
    with pytest.raises(ValueError, match="the engine is 'jit', not one of dynexplore, torch.compile"):
        Recording(engine="jit")


@pytest.mark.parametrize("schema", [1, 2])
def test_older_files_load(schema: int) -> None:
    """What knew neither engine nor clock is read as this engine's; when and where it was recorded is not known."""
    new = {"engine", "process", "rank", "clock"}
    old = {name: value for name, value in toy().to_plain().items() if name not in new}
    r = Recording.from_plain({**old, "schema": schema})
    assert r == toy() and r.engine == "dynexplore"
    assert r.process is None and r.rank is None and r.moment(0) is None
    assert Recording.from_json(r.to_json()) == r


def test_files_of_the_schema_before_targets_load() -> None:
    """A file of schema 3, saved by the version that wrote it: calls name no target, and all else is there."""
    saved = (Path(__file__).parent / "saved" / "schema_3.json").read_text(encoding="utf-8")
    assert json.loads(saved)["schema"] == 3
    r = Recording.from_json(saved)
    assert [began.target for began in r.of(ev.CallBegan)] == ["", ""] and not r.of(ev.TargetChosen)
    assert (len(r.graphs), len(r.breaks), len(r.of(ev.SubgraphCompiled))) == (3, 1, 3)
    assert headline(r).summary == "toy: 3 graphs, 1 graph break, 0 recompiles."
    again = json.loads(r.to_json())
    assert again["schema"] == SCHEMA and Recording.from_plain(again) == r


def test_files_of_the_schema_before_all_reasons_load() -> None:
    """A file of schema 5, saved by the version that wrote it: of each miss the first guard is known, and no line that called."""
    saved = (Path(__file__).parent / "saved" / "schema_5.json").read_text(encoding="utf-8")
    assert json.loads(saved)["schema"] == 5
    r = Recording.from_json(saved)
    assert len(r.of(ev.GuardFailed)) == 2 and not r.of(ev.GuardAlsoFailed)
    assert {failed.needed_at for failed in r.of(ev.GuardFailed)} == {None}
    assert {entered.caller for entered in r.frames} == {None} and {seen.seconds for seen in r.of(ev.ValueObserved)} == {0.0}
    assert headline(r).summary.startswith("told: 4 graphs, 2 graph breaks on 1 line, 2 recompiles")
    again = json.loads(r.to_json())
    assert again["schema"] == SCHEMA and Recording.from_plain(again) == r


def test_files_of_the_schema_before_prices_load() -> None:
    """A file of schema 6, saved by the version that wrote it: no guards are timed, no CUDA graph is known."""
    saved = (Path(__file__).parent / "saved" / "schema_6.json").read_text(encoding="utf-8")
    assert json.loads(saved)["schema"] == 6
    r = Recording.from_json(saved)
    assert not r.of(ev.GuardsTimed) and not r.of(ev.CudaGraphLogged)
    assert headline(r).summary.startswith("halved: ") and len(r.of(ev.Recompiled)) == 1
    again = json.loads(r.to_json())
    assert again["schema"] == SCHEMA and Recording.from_plain(again) == r


def test_files_of_the_schema_before_stacks_load() -> None:
    """A file of schema 7, saved by the version that wrote it: no callers and no phases are known."""
    saved = (Path(__file__).parent / "saved" / "schema_7.json").read_text(encoding="utf-8")
    assert json.loads(saved)["schema"] == 7
    r = Recording.from_json(saved)
    assert [entered.stack for entered in r.frames] == [()] and not r.of(ev.PhaseSpan)
    assert headline(r).summary.startswith("torch.compile of trace makes one graph of 2 operators")
    again = json.loads(r.to_json())
    assert again["schema"] == SCHEMA and Recording.from_plain(again) == r


def test_renamed_kinds_of_guards_are_read_under_their_new_names() -> None:
    """A file of schema 4, saved by the version that wrote it: each of its guards has the kind that it has today."""
    saved = (Path(__file__).parent / "saved" / "schema_4.json").read_text(encoding="utf-8")
    assert json.loads(saved)["schema"] == 4 and all(f'"{old}"' in saved for old in GUARD_KINDS)
    r = Recording.from_json(saved)
    assert set(GUARD_KINDS.values()) <= {guard.kind for guard in r.guards}
    assert not set(GUARD_KINDS).intersection(guard.kind for guard in r.guards)
    assert not r.of(ev.Specialized)  # that version recorded of no size why it is static
    again = json.loads(r.to_json())
    assert again["schema"] == SCHEMA and Recording.from_plain(again) == r


def test_renamed_events_and_fields_are_read_under_their_new_names() -> None:
    """A file of schema 4 with events, fields and rows of memory under their old names is read with those of today."""
    saved = (Path(__file__).parent / "saved" / "schema_4.json").read_text(encoding="utf-8")
    old_rows = json.loads(saved)["events"]
    r = Recording.from_json(saved)
    old_operations = [row["what"] for row in old_rows if row["event"] == "MutationNoted"]
    assert old_operations and [event.operation for event in r.of(ev.MutationRecorded)] == old_operations
    old_roles = [row["what"] for row in old_rows if row["event"] == "ValueObserved"]
    assert [event.role for event in r.of(ev.ValueObserved)] == old_roles and {"input", "node"} < set(old_roles)
    assert [node.allocated for planned in r.of(ev.MemoryPlanned) for node in planned.nodes] == [4] * 7


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"event": "MemoryPlanned", "nodes": [{"made": 1, "kept": 2}], "kept": [3]},
         {"event": "MemoryPlanned", "nodes": [{"allocated": 1, "saved": 2}], "saved": [3]}),
        ({"event": "MemoryPlanned", "nodes": 1}, {"event": "MemoryPlanned", "nodes": 1}),
        ({"event": "ArtifactMade", "part": "ir"}, {"event": "ArtifactEmitted", "part": "ir"}),
        ({"event": "ResumeFunctionMade"}, {"event": "ResumeFunctionCreated"}),
        ({"event": "DivergenceFound"}, {"event": "DivergenceDetected"}),
    ],
)  # fmt: skip
def test_each_renamed_event_has_a_row(old: dict[str, Any], new: dict[str, Any]) -> None:
    """An event under its old name becomes the one of today, with its fields; what is damaged stays as it is."""
    assert upgraded(old, 1) == new == upgraded(new, 1)
    assert set(EVENTS.values()) <= ev.EVENTS.keys() and set(FIELDS) <= ev.EVENTS.keys()


def damaged(**changes: Any) -> str:
    return json.dumps({**toy().to_plain(), **changes})


def with_number(event: str, field: str, number: int) -> str:
    """The first event of that class with another number."""
    plain: Any = toy().to_plain()
    next(row for row in plain["events"] if row["event"] == event)[field] = number
    return json.dumps(plain)


def with_row(field: str, number: int) -> str:
    """The first row of the first code object with another number."""
    plain: Any = toy().to_plain()
    plain["codes"][0]["rows"][0][field] = number
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a dynexplore recording: it is not JSON"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1, 2]", "is JSON, but not a dynexplore recording"),
        ("{}", "is JSON, but not a dynexplore recording"),
        (damaged(schema=SCHEMA + 1), f"has schema {SCHEMA + 1}, and this dynexplore reads up to {SCHEMA}"),
        (damaged(schema=None), "damaged: its schema version is missing"),
        (damaged(events=None), "damaged: events is not a list"),
        (damaged(events=[{"event": "Nonsense"}]), "damaged: event 0 cannot be read .missing or unknown 'Nonsense'"),
        (damaged(events=[{"event": "PhaseTimed"}]), "damaged: event 0 cannot be read"),
        (damaged(events=["PhaseTimed"]), "damaged: event 0 cannot be read"),
        (damaged(values=[]), "damaged: event 0 cannot be read .*does not refer to a ValueView"),
        (damaged(values=[{"id": "one"}]), "damaged: id is str, not int"),
        (damaged(values=[{"id": 1, "kind": "K", "text": "t", "colour": "red"}]), "ValueView has no field 'colour'"),
        (damaged(events=[{"event": "PhaseTimed", "frame": 1, "phase": "p", "seconds": True}]), "seconds is bool"),
        (damaged(cut={"nonsense": 1}), "damaged: "),
        (damaged(title=3), "the title is not text"),
        (damaged(engine="jit"), "damaged: the engine is 'jit', not one of"),
        (damaged(engine=["dynexplore"]), "damaged: the engine is"),
        (damaged(process="me"), "damaged: the number of the process has a value of a wrong type"),
        (damaged(rank=-2), "the number of the process is -2, not from 0"),
        (damaged(clock=[]), "damaged: "),
        (damaged(cut={"reason": "", "position": "x", "frame": 0, "left_out": 0}), "position is str, not int"),
        (damaged(events={}), "events is not a list"),
        (damaged(values=[{"id": -5, "kind": "K", "text": "t"}]), "id is -5, not from 0"),
        (damaged(values=[{"id": 2**64, "kind": "K", "text": "t"}]), "id is a number of 65 bits, not from 0"),
        (damaged(events=[{"event": "PhaseTimed", "frame": -1, "phase": "p", "seconds": 1.0}]), "frame is -1, not from 0"),
        (damaged(events=[{"event": "PhaseTimed", "frame": 1, "phase": "p", "seconds": float("nan")}]), "not a finite number"),
        (damaged(events=[{"event": "PhaseTimed", "frame": 1, "phase": "p", "seconds": float("inf")}]), "not a finite number"),
        (damaged(events=[{"event": "PhaseTimed", "frame": 1, "phase": "p", "seconds": 10**400}]), "seconds .* has 1329 bits"),
        (with_number("GraphBroke", "offset", 10_000), "GraphBroke stands at offset 10000, beyond the end of toy"),
        (with_number("InstructionStepped", "offset", 10_000), "InstructionStepped stands at offset 10000, beyond"),
        (with_number("InstructionStepped", "offset", -2), "offset is -2, not from -1"),
        (with_row("target", 9_999), "the jump at offset 0 goes to 9999, where there is no instruction"),
        (with_row("offset", 9_999), "the rows of toy are not in order"),
    ],
    ids=lambda text: text if len(text) < 100 else "file",  # a recording as an id would differ between the processes of a run
)
def test_a_damaged_recording_gives_one_sentence(text: str, says: str) -> None:
    """Whatever is wrong with a saved recording, the error is one line that says what."""
    with pytest.raises(RecordingError, match=says) as caught:
        Recording.from_json(text)
    assert "\n" not in str(caught.value)


def test_every_key_may_be_missing() -> None:
    """A recording that lacks any one of its parts is damaged, and says so."""
    whole = toy().to_plain()
    for key in whole.keys() - {"holds", "versions", "job"}:  # sentences for people, and what a process by itself has not
        with pytest.raises(RecordingError, match="recording"):
            Recording.from_plain({name: value for name, value in whole.items() if name != key})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file, or one that is no text, is one sentence with its name."""
    with pytest.raises(RecordingError, match=r"cannot read '.*none\.json'"):
        load(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordingError, match=r"cannot read '.*binary\.json'"):
        load(tmp_path / "binary.json")


def test_entries_of_an_older_file_are_counted_from_one() -> None:
    """Files were written in which entries counted from 0: every event says the number that a person reads now."""
    data = json.loads(toy().to_json())
    rows = [row for row in data["events"] if row.get("entry", -1) > 0]
    for row in rows:
        row["entry"] -= 1
    back = Recording.from_json(json.dumps(data))
    assert len(rows) > 3 and list(back) == list(toy())
    assert back.next_entry_number() == max(added.entry for added in back.of(ev.CacheEntryAdded)) + 1
