"""Logs that torch 2.6, 2.7, 2.8 and 2.10 wrote of one job (logs/job.py): what is read of each, and what each lacks."""

from __future__ import annotations

import functools
import lzma
import tempfile
from pathlib import Path

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.traces.folder import open_traces
from dynexplore.traces.short_reasons import parse_short_reason
from dynexplore.views import text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.headline import headline

pytestmark = pytest.mark.plain("it reads logs of torch.compile")

LOGS = Path(__file__).parent / "logs"
VERSIONS = ("2.6", "2.7", "2.8", "2.10")


@functools.cache
def log_of(version: str) -> str:
    """The log of a version, as text; cut_log.py cut it."""
    return lzma.decompress((LOGS / f"torch_{version}.log.xz").read_bytes()).decode("utf-8")


@functools.cache
def told(version: str) -> Recording:
    """What a log says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dedicated_log_torch_trace_x.log"
        path.write_text(log_of(version), encoding="utf-8")
        opened = open_traces(path)
    assert not opened.notices
    return opened.recording


each_version = pytest.mark.parametrize("version", VERSIONS)


@each_version
def test_graphs_and_frames_are_those_that_torch_counted(version: str) -> None:
    """The job printed torch's counters: 14 graphs and 20 operators, one of them in the graph that its backend refused."""
    recording = told(version)
    assert len(recording.graphs) == 14
    assert sum(graph.op_count for graph in recording.graphs) == 19
    assert len(recording.frames) == 17
    inputs = {one.graph: one.inputs[-2:] for one in recording.of(ev.SubgraphCompiled) if one.graph.startswith("6/")}
    assert inputs == {"6/0": ("x",), "6/1": ("x", "n"), "6/2": ("x", "n")}


@each_version
def test_breaks_have_cause_remedy_and_line(version: str) -> None:
    """Also of a version that says a cause in one line: print, item, a branch on a value, and print under fullgraph."""
    breaks = [(one.title.partition(" call")[0], one.user_stack[-1].line) for one in told(version).breaks]
    assert breaks == [
        ("Failed to trace builtin operator", 16),
        ("Unsupported Tensor.item()", 22),
        ("Data-dependent branching", 27),
        ("Failed to trace builtin operator", 53),
    ]
    assert all(one.why and one.fix for one in told(version).breaks)


@each_version
def test_recompiles_name_the_guard(version: str) -> None:
    """A number, a size and an attribute: the guard that said no, and the entry that it belongs to."""
    failed = [(one.source, one.expected) for one in told(version).of(ev.GuardFailed)[:4]]
    assert failed[:3] == [("n", "2"), ("x", "float32[2] cpu"), ("n", "2")]
    assert failed[3] in (("gain.by", "2"), ("gain.__dict__", "without the key 'by'"))
    assert all(one.entry for one in told(version).of(ev.GuardFailed))


@each_version
def test_failures_are_told(version: str) -> None:
    """The backend that refuses, and the limit of two entries, of which no version says the number beside the failure."""
    recording = told(version)
    assert [(one.backend, one.error) for one in recording.of(ev.BackendFailed)] == [
        ("refuses", "RuntimeError: this backend refuses")
    ]
    assert [(one.function, one.limit, one.reason) for one in recording.of(ev.CacheLimitReached)] == [("counted", 2, "n == 1")]
    assert headline(recording).summary.startswith("torch.compile of dedicated_log_torch_trace_x.log: the backend `refuses` failed")


@each_version
def test_training_has_each_stage_and_its_times(version: str) -> None:
    """Joint, forward and backward graph, generated code of both, guards and metrics; seconds of each phase, and the year."""
    recording = told(version)
    parts = {(made.stage, made.part) for made in recording.of(ev.ArtifactEmitted) if made.graph == "8/0"}
    stages = {("captured", "captured"), ("joint", "joint"), ("forward", "graph"), ("backward", "graph"), ("forward", "code")}
    assert stages | {("backward", "code"), ("tree of", "guards"), ("compile", "metrics")} <= parts
    phases = {phase.phase for phase in recording.of(ev.PhaseTimed)}
    assert {"all of it", "backend", "Inductor", "backward Inductor"} <= phases
    first = recording.moment(0)
    assert first is not None and first.wall > 1.6e9


@each_version
def test_a_guard_of_torchs_own_state_rests_on_no_line_of_the_program(version: str) -> None:
    """torch notes a line of its own file at some guards: it is not shown as the user's."""
    guards = told(version).guards
    reasons = {guard.kind: guard.reason for guard in guards if not guard.source}
    assert not reasons["DEFAULT_DEVICE"] and not reasons["GLOBAL_STATE"]
    named = [guard.reason for guard in guards if guard.source == "n" and guard.kind == "EQUALS_MATCH"]
    assert set(named) == ({"line 34 needs it", "line 68 needs it"} if version == "2.10" else {""})


@each_version
def test_a_resume_function_goes_on_at_its_line(version: str) -> None:
    """A log tells no instructions, so no offset is named."""
    shown = text.report(told(version))
    assert "ORIGINAL BYTECODE prints /jobs/job.py line 16, continues prints at line 16\n" in shown
    assert "offset -1" not in shown


@each_version
def test_it_is_shown_and_kept_like_any_recording(version: str) -> None:
    """The explorer is made, and the recording comes back from its file; torch names its version from 2.10 on."""
    recording = told(version)
    assert explorer_data(recording)["engine"] == "torch.compile"
    assert Recording.from_json(recording.to_json()) == recording
    assert recording.versions == ("torch 2.10.0+cu128" if version == "2.10" else "")


def test_a_line_that_is_not_known_stays_as_it_is() -> None:
    """Only reasons that are certain are told in other words."""
    assert parse_short_reason("call_id with args") is None
    assert parse_short_reason("data dependent operator: aten.equal.default; to enable, set x")[0] == "Data-dependent operator"  # type: ignore[index]
