"""traces/provenance.py: from each kernel to the operators that it computes, and to the captured ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from traces.traced_jobs import GRAPH, entry, line

from dynexplore.cli import main
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording, redacted
from dynexplore.traces.folder import open_traces
from dynexplore.traces.provenance import NONE, as_text, kernels_in, lines_as_text
from dynexplore.views.explorer_data import explorer_data

pytestmark = pytest.mark.plain("it reads logs of torch.compile")

TABLES = json.dumps({
    "cppCodeToPost": {"cpp_fused_mul_relu_0:2": ["mul_1", "relu", "le"], "extern_kernels.mm:1": ["mm"]},
    "postToPre": {"mul_1": ["mul"], "relu": ["relu"], "mm": ["linear"]},
    "preToPost": {}, "postToCppCode": {}, "version": 2.0,
})  # fmt: skip
TEXT = """launch 1: extern_kernels.mm
  mm  from linear
launch 2: cpp_fused_mul_relu_0
  mul_1  from mul
  relu   from relu
  le     from no captured operator"""

STACKS = json.dumps({
    "cpp_fused_mul_relu_0:2": [
        '  File "/jobs/model.py", line 14, in scaled\n    return y.relu()\n           ^^^^^^^^\n',
        '  File "/jobs/model.py", line 3, in <module>\n    scaled(x)\n  File "/jobs/model.py", line 12, in scaled\n    y = x * 2\n',
        '  File "/jobs/model.py", line 14, in scaled\n    return y.relu()\n',
    ],
    "extern_kernels.mm:1": [],
})  # fmt: skip
LINES = """launch 1: extern_kernels.mm
  no line of the program
launch 2: cpp_fused_mul_relu_0
  model.py:12 in scaled  y = x * 2
  model.py:14 in scaled  return y.relu()"""


def job(folder: Path) -> Recording:
    """A log of a function that was trained: two tables, the second empty."""
    log = line({"str": ["/jobs/model.py", 0]})
    log += entry("dynamo_start", {"stack": [{"line": 11, "name": "scaled", "filename": 0}]})
    log += entry("dynamo_output_graph", {"sizes": {}}, GRAPH) + entry("aot_joint_graph", {}, GRAPH)
    name = {"name": "inductor_provenance_tracking_node_mappings", "encoding": "json"}
    log += entry("artifact", name, TABLES) + entry("compilation_metrics", {"co_name": "scaled", "guard_count": 1})
    log += entry("artifact", {"name": "inductor_provenance_tracking_kernel_stack_traces", "encoding": "json"}, STACKS)
    log += entry("artifact", name, '{"version": 2.0}')
    folder.mkdir(exist_ok=True)
    (folder / "dedicated_log_torch_trace_a.log").write_text(log, encoding="utf-8")
    return open_traces(folder).recording


def test_kernels_are_listed_in_the_order_of_their_launch() -> None:
    """Each with its operators, and with the captured operators that these come from, if there are any."""
    assert as_text(TABLES) == TEXT
    assert [kernel.kernel for kernel in kernels_in(TABLES)] == ["extern_kernels.mm", "cpp_fused_mul_relu_0"]
    assert [kernel.launch for kernel in kernels_in(TABLES)] == [1, 2]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cppCodeToPost": 3}', '{"cppCodeToPost": {"k": "add"}}'])
def test_another_form_is_shown_as_it_is(text: str) -> None:
    """A table of a later torch is not understood, and is still there to be read."""
    assert as_text(text) == text
    assert lines_as_text(text) == text


def test_kernels_have_their_lines(tmp_path: Path) -> None:
    """Each line once, in the order of the program: the innermost of each stack. They are source text, so redaction removes them."""
    recording = job(tmp_path / "trace")
    [lines] = [event for event in recording.of(ev.ArtifactEmitted) if event.part == "kernel lines"]
    assert (lines.stage, lines.text) == ("forward", LINES) and lines_as_text("{}") == NONE
    shown = [text for frame in explorer_data(recording)["frames"] for graph in frame["graphs"] for text in graph["artifacts"]]
    assert ("lines in kernels (forward)", LINES) in [(text["title"], text["text"]) for text in shown]
    assert "operators in kernels (forward)" in [text["title"] for text in shown]
    assert "model.py:12" not in redacted(recording).to_json()


def test_each_stage_has_its_kernels(tmp_path: Path) -> None:
    """The first table is forward's, the second backward's, which names no kernel here; the page has both, and no JSON."""
    recording = job(tmp_path / "trace")
    provenance = [event for event in recording.of(ev.ArtifactEmitted) if event.part == "provenance"]
    assert [(event.stage, event.text) for event in provenance] == [("forward", TEXT), ("backward", NONE)]
    shown = [text for frame in explorer_data(recording)["frames"] for graph in frame["graphs"] for text in graph["artifacts"]]
    assert TEXT in [text["text"] for text in shown if text["part"] == "provenance"]
    assert TEXT in [event.text for event in redacted(recording).of(ev.ArtifactEmitted)]  # names and numbers


def test_a_dump_has_them_beside_the_graph(tmp_path: Path) -> None:
    """`open --dump` writes one more file for such a graph."""
    job(tmp_path / "trace")
    assert main(["open", str(tmp_path / "trace"), "--dump", str(tmp_path / "graphs")]) == 0
    files = sorted(file.name for file in (tmp_path / "graphs").iterdir())
    assert files == ["001_scaled.kernels.txt", "001_scaled.txt", "index.txt"]
    written = (tmp_path / "graphs" / "001_scaled.kernels.txt").read_text(encoding="utf-8")
    assert TEXT in written and LINES in written
