"""`open --dump`: graphs as text, by module, with an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynexplore.cli import main
from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views.graph_dump import graph_text

pytestmark = pytest.mark.plain("graphs of a recording are printed, and nothing is captured")


def node(name: str, module: str = "", op: str = "call_function", args: str = "(x,)") -> ev.NodeAdded:
    return ev.NodeAdded(
        frame=1, attempt=0, offset=0, graph="g", name=name, op=op, target="torch.relu", args=args, dtype="f32", shape="[2]",
        module=module, file="/jobs/model.py", line=3,
    )  # fmt: skip


def test_operators_are_below_their_module() -> None:
    """A module is named once, its children inside it, and what belongs to none stands at the margin."""
    nodes = (
        node("x", op="placeholder"), node("a", "layers.0.attn"), node("b", "layers.0.mlp"), node("c", "layers.0.mlp"),
        node("d", "layers.1"), node("e"), node("output", op="output", args="((e,),)"),
    )  # fmt: skip
    assert graph_text(GraphView("g", 1, 0, nodes, None)).splitlines() == [
        "input x: f32[2]",
        "layers:",
        "  0:",
        "    attn:",
        "      a: f32[2] = torch.relu(x)  # model.py:3",
        "    mlp:",
        "      b: f32[2] = torch.relu(x)  # model.py:3",
        "      c: f32[2] = torch.relu(x)  # model.py:3",
        "  1:",
        "    d: f32[2] = torch.relu(x)  # model.py:3",
        "e: f32[2] = torch.relu(x)  # model.py:3",
        "return ((e,),)",
    ]


def test_a_dump_has_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of files are those of the functions; a folder with files is left alone."""
    recording = Recording(title="train.py")
    saved = tmp_path / "rec.json"
    recording.save(saved)
    out = tmp_path / "dump"
    assert main(["open", str(saved), "--dump", str(out)]) == 0
    assert "begin with" in capsys.readouterr().out
    assert (out / "index.txt").read_text() == "train.py: 0 graphs\n\nNothing was captured.\n"
    assert main(["open", str(saved), "--dump", str(out)]) == 2
    assert "it is not empty" in capsys.readouterr().err
