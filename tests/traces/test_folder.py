"""Folders that TORCH_TRACE left: what they hold as a recording, without torch, and what is said of those that are damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from traces.traced_jobs import entry, line, small_log, traced_job, watched_job

from dynexplore.engine import events as ev
from dynexplore.engine.errors import RecordingError
from dynexplore.recording.recording import Recording
from dynexplore.traces.folder import Opened, open_traces
from dynexplore.views import text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.headline import headline

pytestmark = pytest.mark.plain("it reads logs of torch.compile")


def opened(tmp_path: Path, **logs: str) -> Opened:
    """A folder with such logs, opened."""
    for name, content in logs.items():
        (tmp_path / f"dedicated_log_torch_trace_{name}.log").write_text(content, encoding="utf-8")
    return open_traces(tmp_path)


@pytest.fixture(scope="module")
def job() -> Recording:
    """What a real job left."""
    told = open_traces(traced_job()[0])
    assert not told.notices
    return told.recording


# -- a real job --------------------------------------------------------------------------------------------------------


def test_graphs_frames_and_operators_are_those_that_torch_counted(job: Recording) -> None:
    """A recording of a folder has as many graphs, operators and frames as the counters of the process that wrote it."""
    graphs, operators, frames = traced_job()[1]
    refused = sum(node.op.startswith("call_") for node in job.of_frame(job.of(ev.BackendFailed)[0].frame, ev.NodeAdded))
    assert len(job.graphs) == graphs
    assert sum(graph.op_count for graph in job.graphs) + refused == operators
    assert len(job.frames) == frames + 1  # torch counts no frame of fullgraph=True


def test_a_log_says_what_a_watch_sees(tmp_path: Path) -> None:
    """Of each program of tests/watching log and watch tell the same frames, graphs, breaks and failed guards, also after resets."""
    folder, (frames, operators, breaks, failed) = watched_job(tmp_path)
    told = open_traces(folder).recording
    assert len(told.frames) == frames
    assert [graph.op_count for graph in told.graphs] == operators
    assert [broke.kind for broke in told.breaks] == breaks
    assert [[one.source, one.kind] for one in told.of(ev.GuardFailed)] == failed


def test_breaks_recompiles_and_failures_have_their_causes(job: Recording) -> None:
    """Each break has its kind and the line of the program, each recompile the guard that failed, each failure what raised."""
    kinds = {broke.kind: broke.user_stack[-1].code.strip() for broke in job.breaks}
    assert kinds["GB0170"] == "if b.sum() < 0:  # planted comment"
    assert len(job.breaks) == 2
    assert [failed.source for failed in job.of(ev.GuardFailed)][:2] == ["n", "x"]
    assert len(job.of(ev.Recompiled)) == 2
    assert "planted words" in job.of(ev.BackendFailed)[0].error


def test_resume_functions_stand_beside_what_they_continue(job: Recording) -> None:
    """A resume function is the child of the frame that broke, and its graph marks lines of the same source."""
    frames = [frame for frame in job.frames if frame.code.qualname == "toy"]
    assert [frame.parent for frame in frames[1:]] == [frames[0].frame, frames[1].frame]
    assert {job.original_code(frame.frame).id for frame in frames} == {frames[0].code.id}
    assert "def toy(a, b):" in frames[0].code.source


def test_each_stage_of_training_is_an_artefact(job: Recording) -> None:
    """Captured, joint, forward and backward graphs are told as texts of the frame that they belong to."""
    net = next(frame for frame in job.frames if frame.code.qualname == "Net.forward")
    parts = {(made.stage, made.part) for made in job.of_frame(net.frame, ev.ArtifactEmitted)}
    stages = {("captured", "captured"), ("joint", "joint"), ("forward", "graph"), ("backward", "graph"), ("tree of", "guards")}
    assert stages <= parts
    assert any(phase.seconds > 0 for phase in job.of_frame(net.frame, ev.PhaseTimed))


def test_a_folder_is_shown_like_any_recording(job: Recording) -> None:
    """The headline names cause and line; report, explorer and JSON are made; times are those of the log."""
    told = headline(job)
    assert told.summary.startswith("torch.compile of trace: the backend `refuses` failed; 7 graphs, 2 graph breaks, 2 recompiles")
    assert "RuntimeError: planted words of an exception" in told.where
    assert "toy" in text.report(job)
    data = explorer_data(job)
    assert data["engine"] == "torch.compile"
    assert any("artifacts" in frame for frame in data["frames"])
    assert Recording.from_json(job.to_json()) == job
    first, last = job.moment(0), job.moment(len(job) - 1)
    assert first is not None and last is not None and first.wall > 1.6e9
    assert last.wall >= first.wall


def test_redacted_files_hold_nothing_of_the_program(job: Recording) -> None:
    """What a program wrote into strings, comments and exceptions, its folder, and dumps of settings are gone after `redact`."""
    folder = str(traced_job()[0].parent)
    planted = ("planted comment", "a planted string", "planted words", folder, "fake_tensor_allow_meta")
    assert all(word in job.to_json() for word in planted)
    redacted = job.to_json(redact=True)
    assert "planted" not in redacted
    assert folder not in redacted
    assert "fake_tensor_allow_meta" not in redacted


def test_a_folder_opens_without_torch(tmp_path: Path) -> None:
    """`dynexplore open DIR` loads no torch, and writes the explorer as one page."""
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text(small_log(), encoding="utf-8")
    program = "import sys; from dynexplore.cli import main; sys.exit(main(sys.argv[1:]) or 'torch' in sys.modules)"
    words = ["open", str(tmp_path), "--html", str(tmp_path / "page.html")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch.relu" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_function_at_its_limit_of_entries_is_named(tmp_path: Path) -> None:
    """torch names no function where the limit of entries ends a compilation before it begins: it is that of the entries."""
    reason = entry("artifact", {"name": "recompile_reasons"}, "0/0: n == 2", compilation=(0, 1))
    said = "Dynamo recompile limit exceeded\n  Explanation: exceeding the recompile_limit cache size limit (currently set to 1)."
    limit = entry("compilation_metrics", {"fail_type": "FailOnRecompileLimitHit", "fail_reason": said}, compilation=(0, 1))
    recording = opened(tmp_path, a=small_log() + reason + limit).recording
    reached = recording.of(ev.CacheLimitReached)[0]
    assert (reached.function, reached.limit, reached.reason) == ("scaled", 1, "n == 2")
    assert "the recompile limit of 1 was reached" in headline(recording).summary


# -- damaged and mixed folders -----------------------------------------------------------------------------------------


def test_a_log_that_was_cut_is_shown_up_to_there(tmp_path: Path) -> None:
    """Of a job that was killed all that was written is shown, and one sentence says where its log ends."""
    begun = entry("dynamo_start", {"stack": [{"line": 3, "name": "g", "filename": 0}]}, compilation=(1, 0))
    told = opened(tmp_path, a=small_log() + begun + "V1122 23:3")
    assert [graph.name for graph in told.recording.graphs] == ["0/0"]
    assert told.recording.of(ev.FrameSkipped)[0].reason == "the log ends before its compilation does"
    assert len(told.notices) == 1
    assert "ends in the middle of an entry" in told.notices[0]


def test_every_beginning_of_a_log_can_be_opened(tmp_path: Path) -> None:
    """Wherever a log ends, it is opened or refused in a sentence."""
    whole = small_log()
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    for size in range(0, len(whole), 7):
        path.write_text(whole[:size], encoding="utf-8")
        try:
            explorer_data(open_traces(tmp_path).recording)
        except RecordingError as error:
            assert str(error).endswith(".")


def test_lines_of_others_are_counted(tmp_path: Path) -> None:
    """Lines that another program wrote into a log are passed over, and counted in one sentence."""
    told = opened(tmp_path, a="hello\n" + small_log() + "NCCL INFO\n{}\n" + line({"brand_new": {"x": 1}}))
    assert len(told.recording.graphs) == 1
    assert told.notices == ["3 lines of dedicated_log_torch_trace_a.log could not be read, the first is line 1; the rest is shown."]


HOSTILE = {
    "no dict": line([]),  # type: ignore[arg-type]
    "odd facts": entry("dynamo_start", None) + entry("compilation_metrics", [1]) + entry("artifact", "x", "text"),
    "odd stack": entry("dynamo_start", {"stack": [{"line": -5, "name": None, "filename": 99}, 3]}),
    "deep": f"V1122 23:31:41.509000 498 a.py:1] {'[' * 100_000}\n",
    "odd numbers": entry("dynamo_start", {"stack": []}, attempt=10**30)
    + entry("compilation_metrics", {"guard_count": -1, "start_time_us": -5}),
    "odd time": small_log().replace("V1122", "V9999"),
    "no graph": entry("dynamo_output_graph", {}, "class <x>: def (((", compilation=(2, 0)),
    "odd reasons": entry("artifact", {"name": "recompile_reasons"}, '{"a": [}'),
    "odd bytes": small_log().replace("relu", "\udcff\x00"),
    "another's file": entry("dynamo_start", {"stack": [{"line": 1, "name": "root", "filename": "/etc/passwd"}]}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_log_does_no_harm(name: str, tmp_path: Path) -> None:
    """Whatever a log holds, it is shown or refused in a sentence, its recording is saved and read, and no other file is shown."""
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_bytes((HOSTILE[name] + small_log(rank=0)).encode("utf-8", "surrogateescape"))
    recording = open_traces(tmp_path).recording
    json.dumps(explorer_data(recording))
    assert Recording.from_json(recording.to_json()) == recording
    assert "root:x" not in recording.to_json()


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_log_that_ends_in_its_first_entry_says_that_it_was_cut(kept: float, tmp_path: Path) -> None:
    """What a process left that was stopped while it wrote its first entry is a log: how much there is, and that the rest is cut."""
    first = small_log(rank=0).splitlines()[0]
    size = max(20, int(len(first) * kept))
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text(first[:size])
    with pytest.raises(RecordingError, match=f"ends in the middle of its first entry, after {size} bytes: the process was stopped"):
        open_traces(tmp_path)


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    """A folder with nothing, with an empty log, or with logs of other programs is refused in one sentence."""
    with pytest.raises(RecordingError, match="contains no TORCH_TRACE log"):
        open_traces(tmp_path)
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text("")
    with pytest.raises(RecordingError, match="is empty: the process compiled nothing"):
        open_traces(tmp_path)
    (tmp_path / "dedicated_log_torch_trace_x.log").write_text("one\ntwo\n")
    with pytest.raises(RecordingError, match="is not a TORCH_TRACE log: none of its 2 lines"):
        open_traces(tmp_path)


def test_one_rank_of_several_is_shown(tmp_path: Path) -> None:
    """Of a folder with several ranks the lowest is shown, another on demand, and a sentence names them."""
    told = opened(tmp_path, rank_0_a=small_log(rank=0), rank_1_b=small_log(rank=1) + small_log(rank=1, compilation=(1, 0)))
    assert (told.ranks, told.recording.rank, len(told.recording.graphs)) == ([0, 1], 0, 1)
    assert told.notices == ["This is rank 0; the folder has logs of 2 ranks (--rank 1)."]
    assert len(open_traces(tmp_path, rank=1).recording.graphs) == 2
    with pytest.raises(RecordingError, match="has no log of rank 7; it has 0, 1"):
        open_traces(tmp_path, rank=7)


def test_texts_beyond_the_room_say_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for all texts, graphs are kept and what is left out says at which byte of the log it stands."""
    monkeypatch.setattr("dynexplore.traces.log_to_recording.ROOM", 2_000)
    settings = entry("artifact", {"name": "torch._functorch.config"}, "x = 1\n" * 1_000)
    recording = opened(tmp_path, a=settings + small_log()).recording
    made = {one.part: one.text for one in recording.of(ev.ArtifactEmitted)}
    assert "torch.relu" in made["captured"]
    unread = "not read, because this log contains too much text: dedicated_log_torch_trace_a.log has it, from byte"
    assert unread in made["settings"]


def test_of_too_many_compilations_the_first_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of more compilations than anybody could look at says how many are left out."""
    monkeypatch.setattr("dynexplore.traces.folder.MOST_COMPILES", 2)
    told = opened(tmp_path, a="".join(small_log(compilation=(number, 0)) for number in range(5)))
    assert [graph.name for graph in told.recording.graphs] == ["0/0", "1/0"]
    assert told.notices == ["dedicated_log_torch_trace_a.log has 5 compilations: the first 2 are shown."]
