"""Twelve scripts under unmodified torch.compile: the headline names the cause and the line, and the counts are torch's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching.scripts import SCRIPTS

import dynexplore
from dynexplore import cli
from dynexplore.engine import events as ev

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin:UserWarning"),
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_understood(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`dynexplore watch` of a script: its headline, and its graphs, operators, breaks and recompiles beside torch's counters."""
    from torch._dynamo.utils import counters

    script, path, out = SCRIPTS[name], tmp_path / "script.py", tmp_path / "seen.json"
    path.write_text(script.text, encoding="utf-8")
    assert cli.main(["watch", str(path), "--json", str(out)]) == 0
    recording = dynexplore.Recording.from_json(out.read_bytes())
    printed = capsys.readouterr().out
    headline = " ".join(printed[printed.index("torch.compile") :].partition("\n\n")[0].split())  # printed, it is wrapped
    assert all(words in headline for words in script.says), headline
    if script.line:
        at = [number for number, line in enumerate(script.text.splitlines(), 1) if line.strip() == script.line]
        assert f"at script.py:{at[0]}" in headline, headline
        assert f"`{script.line}`" in headline, headline
        assert recording.breaks
    given_up = {one.frame for one in recording.of(ev.FrameSkipped)} & {broke.frame for broke in recording.breaks}
    assert ("f runs as plain Python" in headline) is bool(given_up), headline  # a loop that breaks: on Python 3.11
    assert len(recording.graphs) == counters["stats"]["unique_graphs"]
    assert sum(graph.op_count for graph in recording.graphs) == counters["stats"]["calls_captured"]
    counted = sum(counters["graph_break"].values())
    branches = [broke for broke in recording.breaks if broke.title.startswith("Data-dependent branching")]  # not counted by torch
    assert len(recording.breaks) - len(branches) == counted
    entries: dict[int, int] = {}
    for entry in recording.of(ev.CacheEntryAdded):
        entries[entry.code] = entries.get(entry.code, 0) + 1
    again = sum(count - 1 for count in entries.values())
    assert len(recording.of(ev.Recompiled)) == again
    assert f"{again} recompile" in headline or "no recompile" in headline
    assert again or script.line
