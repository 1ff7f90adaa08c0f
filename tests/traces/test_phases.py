"""traces/phases.py: begins and ends of phases become spans, in the log and in a file for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from traces.traced_jobs import entry, line, traced_job
from views.trace_format import problems_of

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.traces.folder import open_traces
from dynexplore.views.perfetto import as_json, slices_of

pytestmark = pytest.mark.plain("it reads logs of torch.compile")


def phase(name: object, kind: str, milliseconds: object) -> str:
    moment = 1.79e15 + 1000 * milliseconds if isinstance(milliseconds, int | float) else milliseconds
    return entry("chromium_event", {}, json.dumps({"name": name, "ts": moment, "args": {}, "ph": kind, "pid": 0, "tid": 0}))


def job(folder: Path, *phases: str, after: str = "") -> Recording:
    log = line({"str": ["/jobs/model.py", 0]})
    log += entry("dynamo_start", {"stack": [{"line": 11, "name": "scaled", "filename": 0}]}) + "".join(phases)
    log += entry("compilation_metrics", {"co_name": "scaled", "guard_count": 1, "entire_frame_compile_time_s": 0.5}) + after
    (folder / "dedicated_log_torch_trace_a.log").write_text(log, encoding="utf-8")
    return open_traces(folder).recording


def spans(recording: Recording) -> list[tuple[str, float, float]]:
    return [(span.phase, round(span.begin, 6), round(span.seconds, 6)) for span in recording.of(ev.PhaseSpan)]


def test_a_begin_and_the_next_end_of_that_name_are_a_span(tmp_path: Path) -> None:
    """Nested phases of one name are told apart, outer ones come first."""
    recording = job(
        tmp_path, phase("backend_compile", "B", 0), phase("pass", "B", 10), phase("pass", "B", 20), phase("pass", "E", 30),
        phase("pass", "E", 50), phase("backend_compile", "E", 400),
    )  # fmt: skip
    assert spans(recording) == [("backend_compile", 0.0, 0.4), ("pass", 0.01, 0.04), ("pass", 0.02, 0.01)]


def test_what_is_no_span_is_left_out(tmp_path: Path) -> None:
    """A begin without an end, an end without a begin, one too short to see, and events that are damaged."""
    damaged = entry("chromium_event", {}, "{") + entry("chromium_event", {}, "[1]") + phase("x", "B", "soon") + phase(3, "B", 0)
    recording = job(tmp_path, damaged, phase("a", "B", 0), phase("b", "E", 1), phase("c", "B", 2), phase("c", "E", 2.1))
    assert spans(recording) == []


def test_phases_lie_in_their_frame_and_those_of_backward_behind_it(tmp_path: Path) -> None:
    """The slices nest; without times a phase of the backward graph is left out, for another frame may lie there."""
    backward = phase("bw", "B", 2000) + phase("bw", "E", 2500)
    recording = job(tmp_path, phase("fw", "B", 0), phase("fw", "E", 400), after=backward)
    assert [each.name for each in slices_of(recording)] == ["scaled", "fw"]
    assert problems_of(json.loads(as_json(recording))) == []


def test_a_real_log_becomes_a_trace_that_nests() -> None:
    """Each phase of a real job is a slice below the function whose compilation it belongs to."""
    recording = open_traces(traced_job()[0]).recording
    data = json.loads(as_json(recording))
    assert problems_of(data) == []
    slices = {event["name"]: event for event in data["traceEvents"] if event["ph"] == "X"}
    assert {"toy", "scaled", "backend_compile", "bytecode_tracing"} <= slices.keys()
    assert slices["backend_compile"]["cat"] == "phase" and slices["backend_compile"]["args"]["place"].startswith("job.py:")
    assert len(recording.of(ev.PhaseSpan)) > 10
