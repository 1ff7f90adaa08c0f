"""The runs of a folder: by the times in its logs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from traces.traced_jobs import small_log

from dynexplore.cli import main
from dynexplore.engine.errors import RecordingError
from dynexplore.recording.recording import Recording
from dynexplore.traces.folder import open_traces
from dynexplore.traces.runs import runs_in

pytestmark = pytest.mark.plain("it reads logs of torch.compile")


def log(folder: Path, name: str, *times: str) -> Path:
    """A log whose lines have these times."""
    file = folder / f"dedicated_log_torch_trace_{name}_.log"
    file.write_text("".join(small_log().replace("V1122 23:31:41.509000", f"V1122 {time}.000000") for time in times))
    os.utime(file, (1, 1))  # a copy of a folder may lose the times of its files
    return file


def names(*files: Path) -> list[list[str]]:
    """The names of the logs, run by run."""
    return [[file.name[len("dedicated_log_torch_trace_") : -len("_.log")] for file in run.files] for run in runs_in(files)]


def test_logs_whose_times_overlap_are_of_one_run(tmp_path: Path) -> None:
    """A later log of the same rank, or of none, is another run; that of a further rank is not."""
    first = [log(tmp_path, "rank_0", "10:00:00", "10:00:09"), log(tmp_path, "rank_1", "10:00:01", "10:00:02")]
    second = [log(tmp_path, "rank_0_again", "11:00:00", "11:00:01"), log(tmp_path, "rank_1_again", "11:00:03")]
    assert names(*second, *first) == [["rank_0", "rank_1"], ["rank_0_again", "rank_1_again"]]
    assert names(log(tmp_path, "a", "10:00:00", "10:00:09"), log(tmp_path, "b", "10:00:05"), log(tmp_path, "c", "10:00:10")) == [
        ["a", "b"],
        ["c"],
    ]


def test_a_log_without_times(tmp_path: Path) -> None:
    """Belongs to the latest run: reading it reports why."""
    empty = tmp_path / "dedicated_log_torch_trace_empty.log"
    empty.write_text("nothing\n")
    assert [len(run.files) for run in runs_in([empty, log(tmp_path, "a", "10:00:00")])] == [2]


def test_one_run_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The latest, or run N; the others are named."""
    log(tmp_path, "a", "10:00:00")
    log(tmp_path, "b", "11:00:00", "11:00:01")
    opened = open_traces(tmp_path)
    assert opened.notices == ["This is run 2 of 2, of 11-22 11:00:00; the others (--run N): 1 of 11-22 10:00:00."]
    assert len(open_traces(tmp_path, run=1).recording.graphs) == 1
    with pytest.raises(RecordingError, match="has no run 3; it has 1, 2"):
        open_traces(tmp_path, run=3)
    assert main(["open", str(tmp_path), "--run", "1", "--dump", str(tmp_path / "dump")]) == 0
    assert "This is run 1 of 2" in capsys.readouterr().err
    assert "relu: float32[2] = torch.relu(l_x_)  # model.py:13" in (tmp_path / "dump" / "001_scaled.txt").read_text()
    assert "001_scaled.txt  scaled" in (tmp_path / "dump" / "index.txt").read_text()


def test_a_folder_is_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one file, which is the recording of the folder, and has the data of its page."""
    log(tmp_path, "a", "10:00:00")
    packed = tmp_path / "job.json.gz"
    assert main(["open", str(tmp_path), "--pack", str(packed)]) == 0
    assert f"wrote {packed} (" in capsys.readouterr().out
    assert Recording.from_json(packed.read_bytes()) == open_traces(tmp_path).recording
    assert json.loads(gzip.decompress(packed.read_bytes()))["page"]
    assert main(["open", str(packed), "--text"]) == 0
    assert "scaled" in capsys.readouterr().out
