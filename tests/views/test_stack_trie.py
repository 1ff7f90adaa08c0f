"""views/stack_trie.py: shared callers once, and each compilation below the line that began it."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces.traced_jobs import entry, line, small_log

from dynexplore.cli import main
from dynexplore.recording.recording import Recording
from dynexplore.traces.folder import open_traces
from dynexplore.views import text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.stack_trie import rows_of, trie_data, trie_lines, trie_of

pytestmark = pytest.mark.plain("it reads logs of torch.compile")

TORCH = "/usr/lib/python3/site-packages/torch/nn/modules/module.py"


def stack(*places: tuple[int, str, int]) -> list[dict[str, object]]:
    return [{"line": number, "name": name, "filename": file, "loc": f"{name}()"} for number, name, file in places]


def three_compilations(folder: Path) -> Recording:
    """Two calls in `train`, one of them through torch's own code, and one in `evaluate`."""
    stacks = [
        stack((9, "<module>", 0), (4, "train", 0), (70, "_call_impl", 1), (20, "forward", 0)),
        stack((9, "<module>", 0), (5, "train", 0), (30, "loss", 0)),
        stack((10, "<module>", 0), (7, "evaluate", 0), (20, "forward", 0)),
    ]
    log = line({"str": ["/jobs/train.py", 0]}) + line({"str": [TORCH, 1]})
    for number, each in enumerate(stacks):
        log += entry("dynamo_start", {"stack": each}, compilation=(number, 0))
        metrics = {"co_name": each[-1]["name"], "guard_count": 1, "has_guarded_code": True}
        log += entry("compilation_metrics", metrics, compilation=(number, 0))
    folder.mkdir(exist_ok=True)
    (folder / "dedicated_log_torch_trace_a.log").write_text(log, encoding="utf-8")
    return open_traces(folder).recording


LINES = [
    "train.py:9 in <module>    <module>()",
    "  train.py:4 in train    train()",
    "    * forward: compiled",
    "  train.py:5 in train    train()",
    "    * loss: compiled",
    "train.py:10 in <module>    <module>()",
    "train.py:7 in evaluate    evaluate()",
    "  * forward: compiled",
]


def test_callers_that_are_shared_are_shown_once(tmp_path: Path) -> None:
    """Two compilations of `train` are below one line, torch's own frames are left out, and a chain stays at one level."""
    recording = three_compilations(tmp_path / "trace")
    assert trie_lines(recording) == LINES
    assert trie_of(recording).count == 3
    assert [row.frame for row in rows_of(recording) if row.frame] == [1, 2, 3]


def test_the_trie_is_in_the_report_the_page_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, the explorer's data, and `dynexplore open --stacks` show the same lines."""
    recording = three_compilations(tmp_path / "trace")
    assert "STACKS\n" + "\n".join(LINES) in text.report(recording)
    data = explorer_data(recording)
    assert data["stacks"] == trie_data(recording)
    assert [row["frame"] for row in data["stacks"]] == [0, 0, 1, 0, 2, 0, 0, 3]
    assert [row["depth"] for row in data["stacks"]] == [0, 1, 2, 1, 2, 0, 0, 1]
    assert main(["open", str(tmp_path / "trace"), "--stacks"]) == 0
    assert capsys.readouterr().out.splitlines() == LINES


def test_a_saved_recording_has_it_and_a_redacted_one_no_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The stacks survive a round trip; with --redact only places remain."""
    recording = three_compilations(tmp_path / "trace")
    again = Recording.from_json(recording.to_json())
    assert trie_lines(again) == LINES
    assert main(["open", str(tmp_path / "trace"), "--stacks", "--redact"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("train.py:9 in <module>")
    assert "/jobs" not in recording.to_json(redact=True)


def test_without_stacks_a_sentence_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log whose stacks are empty, or another recording: no row, no field, one sentence."""
    (tmp_path / "dedicated_log_torch_trace_a.log").write_text(small_log(), encoding="utf-8")
    recording = open_traces(tmp_path).recording
    assert trie_lines(recording) == [] and "stacks" not in explorer_data(recording)
    assert main(["open", str(tmp_path), "--stacks"]) == 0
    assert "no stacks" in capsys.readouterr().out
