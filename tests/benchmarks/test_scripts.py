"""Measuring `explain` on others' scripts: how a run ended and what it cost, where the report begins, what is missing."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from source_tree import ROOT

pytestmark = pytest.mark.plain("a driver of processes; the engine is in none of them")

PLAIN = ["loading", "step 1: loss 2.31, 10 ms", "step 2: loss 2.05, 12 ms", ""]
"""What a script prints."""
SLOWER = ["loading", "step 1: loss 2.31,  31 ms", "step 2: loss 2.0499, 110 ms", ""]
"""The same, with other numbers."""


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The driver."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scripts")


def test_the_report_begins_behind_what_the_script_printed(scripts: Any) -> None:
    """Numbers differ from run to run, and so may the count of lines before the last one."""
    report = ["one graph", "and a page"]
    assert scripts.report_of(PLAIN, [*SLOWER, *report]) == report
    assert scripts.report_of(PLAIN, ["a warning", *SLOWER, *report]) == report
    assert scripts.report_of([], report) == report
    assert scripts.report_of(PLAIN, SLOWER) == []


def test_the_report_of_an_interrupted_script_begins_where_its_lines_end(scripts: Any) -> None:
    """The last line of the plain run is not there."""
    assert scripts.report_of(PLAIN, [*SLOWER[:2], "interrupted: one graph"]) == ["interrupted: one graph"]


def finish(scripts: Any, program: str, limit: float) -> tuple[str, float]:
    """A program's status and CPU seconds."""
    with open(os.devnull, "wb") as nowhere:
        ended: tuple[str, float] = scripts.finish([sys.executable, "-c", program], ROOT, {**os.environ}, limit, nowhere, nowhere)
    return ended


def test_cpu_time_has_that_of_children(scripts: Any) -> None:
    """A child that burns time costs what it burns; the status is the program's."""
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    status, seconds = finish(scripts, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); sys.exit(3)", 60)
    assert status == "3" and seconds >= 0.5


def test_a_run_past_its_limit_is_interrupted(scripts: Any) -> None:
    """As by Ctrl-C, so that what handles that ends in its own way."""
    program = "import sys, time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: sys.exit(7)"
    assert finish(scripts, program, 3.0)[0] == "limit, 7"


def test_what_is_missing_is_named(scripts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a checkout a script is left out by name; without a folder of checkouts there is nothing to measure."""
    assert scripts.main(["--sources", str(tmp_path), "--only", "mnist"]) == 0
    assert f"mnist                left out: no checkout of pytorch/examples in {tmp_path}" in capsys.readouterr().out
    assert scripts.main([]) == 0 and "--sources" in capsys.readouterr().out


def test_what_a_capture_costs_by_itself(scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls are captured with nobody looking on; of a script that ends otherwise than by itself, nothing is said."""
    script = tmp_path / "script.py"
    script.write_text("import torch\ndef f(x):\n    return x * 2 + 1\nfor n in (2, 3):\n    f(torch.ones(n))\n")

    class Bench:
        script: Any = type("Script", (), {"name": "script"})

        def run(self, name: str, words: Any, limit: float) -> Any:
            with (tmp_path / "out").open("wb") as out:
                status, seconds = scripts.finish(
                    [sys.executable, *words, str(script)], tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)}, limit, out, out
                )
            return scripts.Run(status, seconds, [], [])

    assert scripts.capture_seconds(Bench(), tmp_path, 200.0, "0") > 0
    assert json.loads((tmp_path / "capture.json").read_text())["calls"] == 2
    script.write_text("raise SystemExit(3)")
    assert scripts.capture_seconds(Bench(), tmp_path, 200.0, "0") == 0


@pytest.mark.parametrize(("plain", "watched", "wrong"), [(6.0, 6.3, 0), (6.0, 6.8, 1), (2.0, 3.0, 0)])
def test_what_a_run_costs_in_which_nothing_is_captured(
    scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: float, watched: float, wrong: int
) -> None:
    """Plain runs and those without a target take turns; the medians count, and only of scripts that take some time."""
    runs: list[str] = []

    class Bench:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self, name: str, words: Any, limit: float) -> Any:
            runs.append(name)
            assert bool(words) is (name == "no_target")
            slow = 5.0 if len(runs) < 3 else 0.0
            return scripts.Run("0", (plain if name == "plain" else watched) + slow, [], [])

    monkeypatch.setattr(scripts, "Bench", Bench)
    options = scripts._options(["--no-target"])
    row = scripts.without_target(type("Script", (), {"name": "s"}), options, tmp_path)
    assert runs == ["plain", "no_target"] * 3
    assert (row["plain s"], row["no target s"], row["wrong"]) == (plain, watched, wrong)
