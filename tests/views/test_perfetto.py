"""views/perfetto.py: slices of frames, inlined functions and backends, nested as they ran."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch
from views.trace_format import problems_of

import dynexplore
from dynexplore.cli import main
from dynexplore.recording.recording import Recording
from dynexplore.views.perfetto import as_json, slices_of


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    y = inner(x) * 2
    print(end="")
    return inner(y)


def test_the_check_notices_what_a_viewer_drops() -> None:
    """Overlapping slices, numbers that are text, an unknown kind of event."""
    row = {"name": "a", "ph": "X", "ts": 0, "dur": 10, "pid": 1, "tid": 1}
    assert problems_of({"traceEvents": [row, {**row, "ts": 5, "dur": 5}, {**row, "ts": 10}]}) == []
    for wrong in ({"ts": 5}, {"ts": "0"}, {"dur": -1}, {"ph": "Q"}, {"tid": "1"}, {"name": ""}):
        assert problems_of({"traceEvents": [row, {**row, **wrong}]})
    assert problems_of([row]) == ["no object with traceEvents"]


@pytest.mark.parametrize("engine", ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)])
def test_functions_lie_in_their_frames(engine: str) -> None:
    """The inlined function and the backend are inside of the frame that compiled them, in both engines."""
    recording = dynexplore.explain(outer, torch.ones(3), engine=engine).recording
    slices = slices_of(recording)
    frames = [each for each in slices if each.kind == "frame"]
    callees = [each for each in slices if each.name == "inner"]
    assert len(frames) >= 2 and frames[0].name == "outer" and len(callees) >= 2
    assert all(any(frame.begin <= each.begin <= each.end <= frame.end for frame in frames) for each in callees)
    assert callees[0].facts["place"].startswith("test_perfetto.py:")
    data = json.loads(as_json(recording))
    assert problems_of(data) == []


def test_a_recording_without_times_has_its_frames_one_after_the_other() -> None:
    """As of a log: how long each took is known, and not when."""
    plain = dynexplore.explain(outer, torch.ones(3)).recording.to_plain(times=False)
    frames = [each for each in slices_of(Recording.from_plain(plain)) if each.kind == "frame"]
    assert len(frames) >= 2 and all(before.end <= after.begin + 1e-9 for before, after in itertools.pairwise(frames))


def test_the_option_writes_it(tmp_path: Path) -> None:
    """`explain --perfetto`."""
    script, out = tmp_path / "s.py", tmp_path / "s.perfetto.json"
    script.write_text("import torch\ndef f(x):\n    return x * 2\nf(torch.ones(3))\n")
    assert main(["explain", str(script), "--perfetto", str(out)]) == 0
    assert "f" in {event["name"] for event in json.loads(out.read_text())["traceEvents"]}
